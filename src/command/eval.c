/* cistron eval */
#include "base/error.h"
#include "command/command.h"
#include "infer/eval.h"

static struct eval_settings given = {.overlap = EVAL_OVERLAP, .seed = EVAL_SEED};
static const char *fasta, *input;
static device_make *make_executor;

static int evaluate(struct comm *world, void *self)
{
    return eval_run(world, self, make_executor);
}

static int run(const struct command_environment *environment, char **arguments, int count)
{
    (void)arguments;
    (void)count;
    const int code = command_choose_input(&command_eval, fasta, input, &given.input);
    make_executor = environment->make_executor;
    return code != ERROR_NONE ? code : environment->with_ranks(evaluate, &given);
}

static const struct command_option options[] = {
    {"checkpoint", 0, "FILE", COMMAND_PATH, true, &given.checkpoint, "checkpoint or run folder"},
    {"fasta", 0, "FILE", COMMAND_PATH, false, &fasta, "FASTA records to score (plain, .gz or .zst)"},
    {"input", 0, "FILE", COMMAND_PATH, false, &input, "records to score in another format: JSON, CSV, Parquet, text"},
    COMMAND_INPUT_FORMAT(&given.input_format),
    COMMAND_FIELD(&given.field),
    COMMAND_SKIP_BAD(&given.skip_bad),
    {"output", 'o', "OUT.json", COMMAND_PATH, true, &given.output, "output file of the result"},
    {"overlap", 0, "N", COMMAND_INTEGER, false, &given.overlap,
     "bases that a window repeats from the previous one as context, 1 to --context - 1 (200, or half a window)"},
    {"context", 0, "N", COMMAND_INTEGER, false, &given.context,
     "tokens of a window, at most model.positions (the context that the model was trained with)"},
    {"batch", 0, "N", COMMAND_INTEGER, false, &given.batch,
     "windows computed at once (4096 tokens of them on a GPU, 512 on a CPU)"},
    {"bos", 0, NULL, COMMAND_FLAG, false, &given.bos,
     "put the begin token before each record, and score the first base too"},
    {"both-strands", 0, NULL, COMMAND_FLAG, false, &given.both_strands,
     "models of nucleotides: also score the reverse complement of each record, and count both"},
    {"no-mask", 0, NULL, COMMAND_FLAG, false, &given.no_mask, "also score letters other than A, C, G, T"},
    {"seed", 0, "N", COMMAND_INTEGER, false, &given.seed, "masked models: seed of the masks (that of the training)"},
    COMMAND_CASE(&given.letter_case),
    COMMAND_FORCE(&given.replace),
    COMMAND_SHARD(&given.shard),
    COMMAND_TENSOR(&given.tensor),
    COMMAND_CONTEXT_PARALLEL(&given.context_parallel),
    {0}};

const struct command command_eval = {
    .name = "eval",
    .arguments = "",
    .summary = "evaluate the loss of a model on records",
    .help = "Scores each base of each record, except the first, given the bases before it, and writes mean\n"
            "log-probability, cross-entropy and perplexity of each record and of all records to OUT.json. Records\n"
            "longer than the context are scored in windows; each base counts once. Masked models (ESM-2, ESM C) are\n"
            "scored as they are trained: windows with begin and end token, and the loss over the masked residues;\n"
            "--overlap and --bos do not apply to them. For text (JSON, CSV, Parquet, plain text) it also\n"
            "writes bits per byte and perplexity per word. Under mpirun or srun the ranks share the windows. A run\n"
            "folder stands for its final_model.h5 or, if that is later, its newest checkpoint.",
    .options = options,
    .least = 0,
    .most = 0,
    .run = run,
};
