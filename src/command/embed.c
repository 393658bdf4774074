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
    {"checkpoint", 0, "FILE", COMMAND_PATH, true, &given.checkpoint, "checkpoint or run folder"},
    {"fasta", 0, "FILE", COMMAND_PATH, true, &given.fasta, "FASTA records (plain, .gz or .zst; - is standard input)"},
    {"output", 'o', "OUT.h5", COMMAND_PATH, true, &given.output, "output file of the vectors"},
    {"pool", 0, "HOW", COMMAND_TEXT, false, &given.pool,
     "mean over a record's residues, last (its last token) or none (a vector per token) (mean)"},
    {"max-length", 0, "N", COMMAND_INTEGER, false, &given.max_length,
     "truncate records to N tokens, special tokens included (no limit)"},
    COMMAND_CASE(&given.letter_case),
    COMMAND_FORCE(&given.replace),
    COMMAND_SHARD(&given.shard),
    COMMAND_TENSOR(&given.tensor),
    {0}};

const struct command command_embed = {
    .name = "embed",
    .arguments = "",
    .summary = "write the vectors of FASTA records",
    .help = "Writes names, lengths and the model's states after its last norm (f32) to OUT.h5, in the order of the\n"
            "file. Masked models (ESM-2, AMPLIFY) see begin token, record, end token; Llama sees begin token and\n"
            "record, so --pool last is the state of the last residue. A mean excludes special tokens. Under mpirun or\n"
            "srun the ranks share the records. A run folder stands for its final_model.h5 or, if that is later, its\n"
            "newest checkpoint.",
    .options = options,
    .least = 0,
    .most = 0,
    .run = run,
};
