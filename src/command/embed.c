/* cistron embed */
#include "infer/embed.h"
#include "command/command.h"

static struct embed_settings given = {.pool = "mean"};
static device_make *make_executor;

static int embed(struct comm *world, void *self)
{
    return embed_run(world, self, make_executor);
}

static int run(const struct command_environment *environment, char **arguments, int count)
{
    (void)arguments;
    (void)count;
    make_executor = environment->make_executor;
    return environment->with_ranks(embed, &given);
}

static const struct command_option options[] = {
    {"checkpoint", 0, "FILE", COMMAND_PATH, true, &given.checkpoint, "a checkpoint, or a run folder"},
    {"fasta", 0, "FILE", COMMAND_PATH, true, &given.fasta, "records (plain, .gz or .zst; - is standard input)"},
    {"output", 'o', "OUT.h5", COMMAND_PATH, true, &given.output, "the vectors"},
    {"pool", 0, "HOW", COMMAND_TEXT, false, &given.pool,
     "mean over a record's residues, last token, or none: a vector for each token (mean)"},
    {"max-length", 0, "N", COMMAND_INTEGER, false, &given.max_length,
     "tokens of a record, special ones included, beyond which it is cut short (no limit)"},
    COMMAND_CASE(&given.letter_case),
    COMMAND_FORCE(&given.replace),
    COMMAND_SHARD(&given.shard),
    COMMAND_TENSOR(&given.tensor),
    {0}};

const struct command command_embed = {
    .name = "embed",
    .arguments = "",
    .summary = "vectors of FASTA records",
    .help =
        "Writes names, lengths and the model's states after its last norm (f32) to OUT.h5, in the order of the file.\n"
        "Masked models (ESM-2, AMPLIFY) see begin token, record, end token; Llama sees begin token and record, so\n"
        "--pool last is there the state of the last residue. A mean leaves special tokens out. Under mpirun or srun\n"
        "the records are shared among the ranks. A run folder means its final_model.h5 or, where that is later,\n"
        "its newest checkpoint.",
    .options = options,
    .least = 0,
    .most = 0,
    .run = run,
};
