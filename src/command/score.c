/* cistron score */
#include "command/command.h"
#include "infer/eval.h"
#include "infer/score_file.h"
#include "infer/variant_run.h"

static struct variant_settings given;
static struct eval_settings records = {.overlap = EVAL_OVERLAP, .seed = EVAL_SEED, .likelihoods = true};
static device_make *make_executor;

static int score(struct comm *world, void *self)
{
    return variant_run(world, self, make_executor);
}

static int score_records(struct comm *world, void *self)
{
    return eval_run(world, self, make_executor);
}

/* Scores whole records instead of variants. */
static int run_records(const struct command_environment *environment)
{
    if (given.fasta != NULL)
        return command_mistake(&command_score, "--fasta and --input: give only one of them");
    if (given.mutations != NULL || given.scan || given.positions != NULL || given.methods != NULL ||
        given.measured != NULL || given.both_strands)
        return command_mistake(&command_score, "--mutations, --scan, --method, --positions, --measured and "
                                               "--both-strands: apply to --fasta FILE, not to --input FILE");
    if (given.output == NULL)
        return command_mistake(&command_score, "missing: --output FILE");
    if (score_file_is_hdf5(given.output))
        return command_mistake(&command_score, "--output: with --input it is CSV, not HDF5");
    records.checkpoint = given.checkpoint;
    records.output = given.output;
    records.context = given.context;
    records.batch_tokens = given.batch;
    records.precision = given.precision;
    records.letter_case = given.letter_case;
    records.replace = given.replace;
    records.shard = given.shard;
    records.tensor = given.tensor;
    records.context_parallel = given.context_parallel;
    return environment->with_ranks(score_records, &records);
}

static int run(const struct command_environment *environment, char **arguments, int count)
{
    (void)arguments;
    (void)count;
    make_executor = environment->make_executor;
    if (records.input != NULL)
        return run_records(environment);
    if (records.input_format != NULL || records.field != NULL || records.skip_bad)
        return command_mistake(&command_score, "--input-format, --field and --skip-bad: need --input FILE");
    if (given.fasta == NULL)
        return command_mistake(&command_score, "missing: --fasta FILE or --input FILE");
    const bool lists = given.mutations != NULL || given.scan;
    if (given.mutations != NULL && given.scan)
        return command_mistake(&command_score, "--mutations and --scan: give only one of them");
    if (!lists && given.positions == NULL)
        return command_mistake(&command_score, "missing: --mutations FILE, --scan or --positions FILE");
    if (lists != (given.output != NULL))
        return command_mistake(&command_score,
                               lists ? "missing: --output FILE" : "--output: needs --mutations FILE or --scan");
    if (given.measured != NULL && given.mutations == NULL)
        return command_mistake(&command_score, "--measured: needs --mutations FILE");
    return environment->with_ranks(score, &given);
}

static const struct command_option options[] = {
    {"checkpoint", 0, "FILE", COMMAND_PATH, true, &given.checkpoint, "checkpoint or run folder"},
    {"fasta", 0, "FILE", COMMAND_PATH, false, &given.fasta,
     "records that the variants change (plain, .gz or .zst; - is standard input)"},
    {"input", 0, "FILE", COMMAND_PATH, false, &records.input,
     "records to score whole, instead of variants: text or sequences in any format of cistron prepare"},
    {"input-format", 0, "NAME", COMMAND_TEXT, false, &records.input_format,
     "format of --input, as for cistron prepare (detected from the file's name and content)"},
    {"field", 0, "NAME", COMMAND_TEXT, false, &records.field,
     "JSON, CSV, TSV, Parquet: field with a record's text or sequence (text)"},
    COMMAND_SKIP_BAD(&records.skip_bad),
    {"mutations", 0, "FILE", COMMAND_PATH, false, &given.mutations,
     "variants: CSV or TSV with columns name and mutation (A42G:L50P) or mutant, or VCF"},
    {"scan", 0, NULL, COMMAND_FLAG, false, &given.scan, "score all changes of one residue or base of all records"},
    {"method", 0, "NAMES", COMMAND_TEXT, false, &given.methods,
     "one or several, separated by commas (masked-marginals; causal models: log-likelihood-ratio)"},
    {"output", 'o', "OUT", COMMAND_PATH, false, &given.output,
     "output file: the rows with a column score, or one for each of several methods; .h5: HDF5; with --input: CSV"},
    {"positions", 0, "OUT", COMMAND_PATH, false, &given.positions,
     "output file of the logits and log-probabilities of all tokens at all positions; .h5: HDF5"},
    {"measured", 0, "COLUMN", COMMAND_TEXT, false, &given.measured,
     "column of measured values, for Spearman and AUC (DMS_score)"},
    {"both-strands", 0, NULL, COMMAND_FLAG, false, &given.both_strands,
     "causal models of bases: mean of both strands (reverse complement)"},
    {"context", 0, "N", COMMAND_INTEGER, false, &given.context,
     "tokens of a window with special tokens, at most model.positions (the context that the model was trained with)"},
    {"batch", 0, "N", COMMAND_INTEGER, false, &given.batch, "tokens computed at once (32768 on a GPU, 4096 on a CPU)"},
    {"precision", 0, "TYPE", COMMAND_TEXT, false, &given.precision,
     "fp32 or bf16: the type that the model computes in (that of the training)"},
    COMMAND_CASE(&given.letter_case),
    COMMAND_FORCE(&given.replace),
    COMMAND_SHARD(&given.shard),
    COMMAND_TENSOR(&given.tensor),
    COMMAND_CONTEXT_PARALLEL(&given.context_parallel),
    {0}};

const struct command command_score = {
    .name = "score",
    .arguments = "",
    .summary = "score variants of sequences, and whole records",
    .help = "Scores how a change of residues or bases changes the likelihood of a record, in nats (doc/score.md).\n"
            "Masked models (ESM-2, ESM C): masked-marginals (each changed position masked alone),\n"
            "masked-together (all at once), wt-marginals (none), pseudo-log-likelihood and pseudo-perplexity of the\n"
            "changed sequence. Causal models: log-likelihood-ratio. Positions count from 1. Records longer than the\n"
            "context are scored in windows centred on the change. With --input it writes the log-likelihood (masked\n"
            "models: the pseudo-log-likelihood) and perplexity of whole records, of text too. Under mpirun or srun the "
            "ranks share the sequences;\n"
            "the scores do not depend on their number. A run folder stands for its final_model.h5 or, if that is\n"
            "later, its newest checkpoint.",
    .options = options,
    .least = 0,
    .most = 0,
    .run = run,
};
