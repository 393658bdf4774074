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
    {"checkpoint", 0, "FILE", COMMAND_PATH, true, &given.checkpoint, "a checkpoint, or a run folder"},
    {"prompt", 0, "TEXT", COMMAND_TEXT, false, &given.prompt, "what the text begins with (nothing)"},
    {"input", 0, "FILE", COMMAND_PATH, false, &given.input,
     "prompts: FASTA, JSON, CSV, Parquet, or a line each (plain, .gz or .zst; - is standard input)"},
    {"input-format", 0, "NAME", COMMAND_TEXT, false, &given.input_format,
     "of the prompts, as cistron prepare has it; otherwise recognised by the file's name and content"},
    {"field", 0, "NAME", COMMAND_TEXT, false, &given.field, "JSON, CSV, TSV, Parquet: what holds a prompt (text)"},
    COMMAND_SKIP_BAD(&given.skip_bad),
    {"output", 'o', "FILE", COMMAND_PATH, false, &given.output, "the results (- is standard output)"},
    {"output-format", 0, "NAME", COMMAND_TEXT, false, &given.output_format,
     "fasta or jsonl; otherwise by the output's name, or fasta, and of text jsonl"},
    {"n", 'n', "N", COMMAND_INTEGER, false, &given.samples, "samples of each prompt (1)"},
    {"batch", 0, "N", COMMAND_INTEGER, false, &given.batch, "sequences computed at once (32, or as many as there are)"},
    {"alphabet", 0, "LETTERS", COMMAND_TEXT, false, &given.alphabet,
     "add only tokens of these characters, such as ACGT, and the end"},
    {"context", 0, "N", COMMAND_INTEGER, false, &given.context,
     "tokens that the model sees at most (as many as it was trained on)"},
    COMMAND_CASE(&given.letter_case),
    {"tokens", 0, "N", COMMAND_INTEGER, false, &given.tokens, "how many to add at most (100)"},
    {"temperature", 0, "T", COMMAND_REAL, false, &given.sampling.temperature,
     "divides the logits; 0 takes the likeliest token (1)"},
    {"top-k", 0, "K", COMMAND_INTEGER, false, &given.sampling.top_k, "choose among the K likeliest; 0 = all (0)"},
    {"top-p", 0, "P", COMMAND_REAL, false, &given.sampling.top_p,
     "choose among the fewest that have probability P together (1)"},
    {"seed", 0, "N", COMMAND_INTEGER, false, &seed, "of the random numbers (42)"},
    COMMAND_FORCE(&given.replace),
    COMMAND_SHARD(&given.shard),
    COMMAND_TENSOR(&given.tensor),
    {0}};

const struct command command_generate = {
    .name = "generate",
    .arguments = "",
    .summary = "go on from a prompt",
    .help =
        "Prints the prompt and what the model adds to it, up to the end of the sequence that the model gives (any of\n"
        "its end tokens, where it came with several) or to N tokens. The beginning-of-sequence token stands before\n"
        "the prompt. In a prompt of text, special tokens such as <|eot_id|> may be written out. The text alone goes\n"
        "to standard output; which checkpoint was used and how fast it went, to standard error. A run folder means\n"
        "its final_model.h5 or, where that is later, its newest checkpoint. The same seed gives the same text.\n"
        "\n"
        "With --input, --output or --n the results are FASTA or JSON lines, in the order of the prompts, each with\n"
        "the number of its sample, how many tokens were added, their log-probability (the sum of natural\n"
        "logarithms, by the model itself), and whether the end token or the length ended it. A sample does not\n"
        "depend on what else is computed, but for the rounding of sums. What cannot stand in FASTA ('>', ';',\n"
        "blanks, what cannot be printed) is '?' there, and counted in a warning. Under mpirun or srun the sequences\n"
        "are shared among the ranks.\n"
        "\n"
        "A sequence may become longer than --context N: then the model sees the last N / 2 tokens, counted from\n"
        "the first position, and what is added, until that is N again.\n",
    .options = options,
    .least = 0,
    .most = 0,
    .run = run,
};
