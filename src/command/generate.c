/* cistron generate */
#include "command/command.h"
#include "infer/generate.h"

static struct generate_settings given = {
    .prompt = "", .tokens = 100, .samples = 1, .sampling = {.temperature = 1, .top_p = 1}};
static int64_t seed = 42;
static device_make *make_executor;

static int generate(struct comm *world, void *self)
{
    return generate_run(world, self, make_executor);
}

static int run(const struct command_environment *environment, char **arguments, int count)
{
    (void)arguments;
    (void)count;
    make_executor = environment->make_executor;
    given.sampling.seed = (uint64_t)seed;
    return environment->with_ranks(generate, &given);
}

static const struct command_option options[] = {
    {"checkpoint", 0, "FILE", COMMAND_PATH, true, &given.checkpoint, "checkpoint or run folder"},
    {"prompt", 0, "TEXT", COMMAND_TEXT, false, &given.prompt, "text to continue (none)"},
    {"input", 0, "FILE", COMMAND_PATH, false, &given.input,
     "prompts: FASTA, JSON, CSV, Parquet, or one per line (plain, .gz or .zst; - is standard input)"},
    {"input-format", 0, "NAME", COMMAND_TEXT, false, &given.input_format,
     "format of the prompts, as for cistron prepare (detected from the file's name and content)"},
    {"field", 0, "NAME", COMMAND_TEXT, false, &given.field, "JSON, CSV, TSV, Parquet: field with a prompt (text)"},
    COMMAND_SKIP_BAD(&given.skip_bad),
    {"output", 'o', "FILE", COMMAND_PATH, false, &given.output, "output file of the results (- is standard output)"},
    {"output-format", 0, "NAME", COMMAND_TEXT, false, &given.output_format,
     "fasta or jsonl (by the output's name; otherwise fasta, for models of text jsonl)"},
    {"n", 'n', "N", COMMAND_INTEGER, false, &given.samples, "samples of each prompt (1)"},
    {"batch", 0, "N", COMMAND_INTEGER, false, &given.batch,
     "sequences computed at once (32, or fewer if there are fewer)"},
    {"alphabet", 0, "LETTERS", COMMAND_TEXT, false, &given.alphabet,
     "add only tokens made of the given characters, such as ACGT, and the end token"},
    {"context", 0, "N", COMMAND_INTEGER, false, &given.context,
     "maximum number of tokens that the model sees, at most model.positions (the context that it was trained with)"},
    COMMAND_CASE(&given.letter_case),
    {"tokens", 0, "N", COMMAND_INTEGER, false, &given.tokens, "maximum number of tokens to add (100)"},
    {"temperature", 0, "T", COMMAND_REAL, false, &given.sampling.temperature,
     "temperature, by which logits are divided; 0 selects the likeliest token (1)"},
    {"top-k", 0, "K", COMMAND_INTEGER, false, &given.sampling.top_k,
     "sample among the K likeliest tokens; 0 = all (0)"},
    {"top-p", 0, "P", COMMAND_REAL, false, &given.sampling.top_p,
     "sample among the fewest tokens whose total probability is P (1)"},
    {"seed", 0, "N", COMMAND_INTEGER, false, &seed, "seed of the random numbers (42)"},
    COMMAND_FORCE(&given.replace),
    COMMAND_SHARD(&given.shard),
    COMMAND_TENSOR(&given.tensor),
    {"context-parallel", 0, "N", COMMAND_INTEGER, false, &given.context_parallel,
     "context parallelism: N ranks share the key-value cache of each sequence (1)"},
    {0}};

const struct command command_generate = {
    .name = "generate",
    .arguments = "",
    .summary = "continue a prompt",
    .help = "Prints the prompt and the text that the model adds, up to an end token (any of the model's end tokens)\n"
            "or N tokens. The begin token precedes the prompt. A prompt of text may contain special tokens such as\n"
            "<|eot_id|>. Only the text goes to standard output; the checkpoint and the speed go to standard error. A\n"
            "run folder stands for its final_model.h5 or, if that is later, its newest checkpoint. The same seed\n"
            "gives the same text.\n\n"
            "With --input, --output or --n the results are FASTA or JSON lines, in the order of the prompts, each\n"
            "with the number of the sample, the number of added tokens, their log-probability (sum of natural\n"
            "logarithms, by the model itself), and whether the end token or the length ended it. Except for rounding,\n"
            "a sample does not depend on what else is computed. Characters that FASTA does not allow ('>', ';',\n"
            "blanks, unprintable ones) become '?', and a warning counts them. Under mpirun or srun the ranks share\n"
            "the sequences.\n\n"
            "If a sequence becomes longer than --context N, the model sees its last N / 2 tokens, at positions from\n"
            "the first, and the tokens that follow, until these are N again.\n",
    .options = options,
    .least = 0,
    .most = 0,
    .run = run,
};
