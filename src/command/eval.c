/* cistron eval */
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
    if (fasta != NULL && input != NULL)
        return command_mistake(&command_eval, "--fasta and --input: give only one of them");
    given.input = fasta != NULL ? fasta : input;
    if (given.input == NULL)
        return command_mistake(&command_eval, "missing: --fasta FILE or --input FILE");
    make_executor = environment->make_executor;
    return environment->with_ranks(evaluate, &given);
}

static const struct command_option options[] = {
    {"checkpoint", 0, "FILE", COMMAND_PATH, true, &given.checkpoint, "a checkpoint, or a run folder"},
    {"fasta", 0, "FILE", COMMAND_PATH, false, &fasta, "records to score (plain, .gz or .zst)"},
    {"input", 0, "FILE", COMMAND_PATH, false, &input, "the same, for what is no FASTA: JSON, CSV, Parquet, text"},
    {"input-format", 0, "NAME", COMMAND_TEXT, false, &given.input_format,
     "of the records, as cistron prepare has it; otherwise recognised by the file's name and content"},
    {"field", 0, "NAME", COMMAND_TEXT, false, &given.field,
     "JSON, CSV, TSV, Parquet: what holds a record's sequence (text)"},
    COMMAND_SKIP_BAD(&given.skip_bad),
    {"output", 'o', "OUT.json", COMMAND_PATH, true, &given.output, "the result"},
    {"overlap", 0, "N", COMMAND_INTEGER, false, &given.overlap,
     "bases that a window takes over from the one before as context, 1 to --context less 1 (200, or half a window)"},
    {"context", 0, "N", COMMAND_INTEGER, false, &given.context,
     "tokens of a window (as many as the model was trained on)"},
    {"batch", 0, "N", COMMAND_INTEGER, false, &given.batch, "windows computed at once (some 4096 tokens)"},
    {"bos", 0, NULL, COMMAND_FLAG, false, &given.bos,
     "put the beginning-of-sequence token before each record, and score its first base too"},
    {"no-mask", 0, NULL, COMMAND_FLAG, false, &given.no_mask, "score N and other letters too, not A C G T alone"},
    {"seed", 0, "N", COMMAND_INTEGER, false, &given.seed, "masked models: of the masks (the training's)"},
    COMMAND_CASE(&given.letter_case),
    COMMAND_FORCE(&given.replace),
    COMMAND_SHARD(&given.shard),
    COMMAND_TENSOR(&given.tensor),
    {0}};

const struct command command_eval = {
    .name = "eval",
    .arguments = "",
    .summary = "the loss of a model on records",
    .help = "Scores each base of each record but the first by what stands before it, and writes mean log-probability,\n"
            "cross-entropy and perplexity of each record and of all to OUT.json. Records longer than the context are\n"
            "scored in windows; each base counts once. Masked models (ESM-2, AMPLIFY) are scored as they are trained:\n"
            "windows with begin and end token, and the loss over the residues that are masked; --overlap, --bos and\n"
            "--no-mask are not for them. Of text (JSON, CSV, Parquet, plain text) it also writes bits per byte and "
            "perplexity\n"
            "per word. Under mpirun or srun the windows are shared among the ranks. A run folder\n"
            "means its final_model.h5 or, where that is later, its newest checkpoint.",
    .options = options,
    .least = 0,
    .most = 0,
    .run = run,
};
