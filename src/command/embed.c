/* cistron embed */
#include "infer/embed.h"
#include "base/error.h"
#include "command/command.h"

static struct embed_settings given = {.pool = "mean", .dtype = "f32"};
static const char *fasta, *input;
static device_make *make_executor;

static int embed(struct comm *world, void *self)
{
    return embed_run(world, self, make_executor);
}

static int run(const struct command_environment *environment, char **arguments, int count)
{
    (void)arguments;
    (void)count;
    const int code = command_choose_input(&command_embed, fasta, input, &given.input);
    make_executor = environment->make_executor;
    return code != ERROR_NONE ? code : environment->with_ranks(embed, &given);
}

static const struct command_option options[] = {
    {"checkpoint", 0, "FILE", COMMAND_PATH, true, &given.checkpoint, "checkpoint or run folder"},
    {"fasta", 0, "FILE", COMMAND_PATH, false, &fasta, "FASTA records (plain, .gz or .zst; - is standard input)"},
    {"input", 0, "FILE", COMMAND_PATH, false, &input, "records in another format: JSON, CSV, Parquet"},
    COMMAND_INPUT_FORMAT(&given.input_format),
    COMMAND_FIELD(&given.field),
    COMMAND_SKIP_BAD(&given.skip_bad),
    {"output", 'o', "OUT.h5", COMMAND_PATH, true, &given.output,
     "output file of the vectors; OUT.npy: as a NumPy array, with a table OUT.tsv of the records"},
    {"pool", 0, "HOW", COMMAND_TEXT, false, &given.pool,
     "mean over a record's residues, first (its begin token), last (its last token) or none (a vector per token) "
     "(mean)"},
    {"layers", 0, "LIST", COMMAND_TEXT, false, &given.layers,
     "states of these layers: 0 (the embedding) to the last, such as 0,6-8 or -1, or all (the last)"},
    {"both-strands", 0, NULL, COMMAND_FLAG, false, &given.both_strands,
     "models of nucleotides: mean of both strands (reverse complement)"},
    {"contacts", 0, NULL, COMMAND_FLAG, false, &given.contacts,
     "ESM-2: add the contacts of residues, by its contact head"},
    {"normalize", 0, NULL, COMMAND_FLAG, false, &given.normalize, "divide each vector by its L2 norm"},
    {"dtype", 0, "NAME", COMMAND_TEXT, false, &given.dtype, "f32 or f16 (f32)"},
    {"max-length", 0, "N", COMMAND_INTEGER, false, &given.max_length,
     "truncate records to N tokens, special tokens included (no limit)"},
    COMMAND_CASE(&given.letter_case),
    COMMAND_FORCE(&given.replace),
    COMMAND_SHARD(&given.shard),
    COMMAND_TENSOR(&given.tensor),
    COMMAND_CONTEXT_PARALLEL(&given.context_parallel),
    {0}};

const struct command command_embed = {
    .name = "embed",
    .arguments = "",
    .summary = "write the vectors of records",
    .help = "Writes names, lengths and the model's states after its last norm, or those of the named layers, to\n"
            "OUT.h5, in the order of the file. A record's vectors do not depend on the other records. Masked models "
            "(ESM-2, ESM C) see begin token, record, end token; Llama sees begin token and\n"
            "record, so --pool last is the state of the last residue. A mean excludes special tokens. Layers are\n"
            "numbered as hidden_states of transformers: 0 is the embedding, the last is normalised. Under mpirun or\n"
            "srun the ranks share the records. A run folder stands for its final_model.h5 or, if that is later, its\n"
            "newest checkpoint.",
    .options = options,
    .least = 0,
    .most = 0,
    .run = run,
};
