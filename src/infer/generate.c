#include "infer/generate.h"
#include "base/bytes.h"
#include "file/disk.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/range.h"
#include "base/text.h"
#include "base/thousands.h"
#include "infer/alphabet.h"
#include "infer/decode.h"
#include "infer/inference.h"
#include "infer/output.h"
#include "infer/prompts.h"
#include "infer/results.h"
#include "checkpoint/carried.h"
#include "estimate/fit.h"

#include <stdlib.h>
#include <string.h>

enum {
    CALL_TOKENS = 256,        /* tokens per call for one sequence */
    BATCH_CALL_TOKENS = 2048, /* tokens per call for several sequences */
    BATCH = 32,               /* default number of sequences at once */
    MOST_BATCH = 1 << 16,
    ROUND_BATCHES = 8, /* batches per round */
    HOST_ROWS = 16,    /* from this many rows on, oneDNN computes each row of a GEMM to the same bits */
    MOST_POSITIONS = 1 << 30,
    MOST_SAMPLES = 1 << 30
};

/* A round of work: consecutive samples of consecutive prompts, divided round-robin among the teams. Of the whole run,
 * sequence i is sample i % samples of prompt i / samples. */
struct generate_round {
    int64_t first;                     /* number of the round's first sequence */
    struct decode_sequence *sequences; /* [count]; only this team's sequences have tokens */
    int64_t count;
};

struct generator {
    const struct generate_settings *settings;
    struct inference *inference;
    struct comm *world;
    bool alone;             /* one sequence, printed while it is generated */
    struct prompts prompts; /* rank 0 */
    int64_t count, longest; /* number of prompts, and tokens of the longest */
    int64_t context, batch;
    int teams, team;
    bool *allowed, *ends; /* [vocabulary] tokens that may be sampled (NULL: all), and tokens that end a sequence */
    enum results_format format;
    struct atomic_file output; /* rank 0; not open: standard output */
    struct text_stream stream;
    struct decode_rates rates;
    int64_t added;    /* tokens added by all teams */
    int64_t replaced; /* characters that the output format cannot represent */
};

/* -- Before computing --------------------------------------------------------------------------------------------- */

static int check_settings(const struct generate_settings *s)
{
    const struct sampling *sampling = &s->sampling;
    if (s->input != NULL && s->prompt[0] != '\0')
        return error_user("--prompt and --input: give only one of them");
    if (s->tokens < 1)
        return error_user("--tokens %lld: must be at least 1", (long long)s->tokens);
    const int64_t most = MOST_POSITIONS - 1 - (int64_t)strlen(s->prompt);
    if (s->tokens > most)
        return error_user("--tokens %lld: with this prompt, at most %lld", (long long)s->tokens, (long long)most);
    if (s->samples < 1 || s->samples > MOST_SAMPLES)
        return error_user("--n %lld: must be 1 to %d, the samples of a prompt", (long long)s->samples, MOST_SAMPLES);
    if (s->batch < 0 || s->batch > MOST_BATCH)
        return error_user("--batch %lld: must be 0 (automatic) or a number of sequences, at most %d",
                          (long long)s->batch, MOST_BATCH);
    if (!(sampling->temperature >= 0 && sampling->temperature <= 1e6))
        return error_user("--temperature %g: must be 0 (always the likeliest token) or positive, at most 1e6",
                          sampling->temperature);
    if (sampling->top_k < 0)
        return error_user("--top-k %lld: must be 0 (all tokens) or positive", (long long)sampling->top_k);
    if (!(sampling->top_p > 0 && sampling->top_p <= 1))
        return error_user("--top-p %g: must be above 0 and at most 1 (all tokens)", sampling->top_p);
    return ERROR_NONE;
}

static int check_objective(const struct inference *inference)
{
    const struct family *family = inference->setup.model.family;
    if (model_causal(&inference->setup.model))
        return ERROR_NONE;
    return error_user("%s: is a masked model (%s), which cannot continue a sequence; cistron eval prints its loss, "
                      "cistron embed its vectors",
                      inference->path, family->name);
}

static bool has_output(const struct generate_settings *s)
{
    return s->output != NULL && strcmp(s->output, "-") != 0;
}

static void report_specials(const struct prompts *prompts)
{
    char *specials = census_specials(&prompts->census);
    char *begun = prompts->with_begin_token > 0
                      ? memory_format("; in %lld prompt%s the begin token is already there, so none is added",
                                      (long long)prompts->with_begin_token, plural(prompts->with_begin_token))
                      : memory_string("");
    char *line = specials != NULL ? memory_format("# prompt: read as ids: %s%s\n", specials, begun) : NULL;
    if (line != NULL)
        text_print(stderr, line);
    free(specials);
    free(begun);
    free(line);
}

/* Prints what is notable about the prompts on standard error, because standard output has only results. */
static void report_prompts(const struct generator *g)
{
    const long long lowered = (long long)census_lowered(&g->prompts.census);
    const long long uracils = (long long)census_uracils(&g->prompts.census);
    if (lowered > 0)
        fprintf(stderr, "# prompt: %lld lower-case letter%s read as capital%s (--case keep keeps them)\n", lowered,
                plural(lowered), plural(lowered));
    if (uracils > 0)
        fprintf(stderr, "# prompt: U, as in RNA, is read as T %lld time%s\n", uracils, plural(uracils));
    if (tokenizer_is_text(g->inference->tokenizer))
        report_specials(&g->prompts);
    else
        census_warn(&g->prompts.census);
    if (g->prompts.skipped > 0)
        fprintf(stderr, "# prompts: %lld record%s without the field skipped (--skip-bad)\n",
                (long long)g->prompts.skipped, plural(g->prompts.skipped));
}

/* Rank 0. */
static int read_prompts(struct generator *g)
{
    const struct generate_settings *s = g->settings;
    const struct prompts_settings settings = {.given = s->prompt,
                                              .input = s->input,
                                              .input_format = s->input_format,
                                              .field = s->field,
                                              .skip_bad = s->skip_bad,
                                              .letter_case = s->letter_case,
                                              .tokenizer = g->inference->tokenizer,
                                              .begins = inference_begins(g->inference)};
    int code = results_choose(&g->format, s->output_format, has_output(s) ? s->output : NULL, g->inference->tokenizer);
    if (code == ERROR_NONE && has_output(s))
        code = output_check(s->output, DISK_STREAM | (s->replace ? DISK_REPLACE : 0), s->input != NULL ? s->input : "-",
                            g->inference->path);
    if (code == ERROR_NONE)
        code = prompts_read(&g->prompts, &settings);
    if (code == ERROR_NONE && g->prompts.longest + s->tokens > MOST_POSITIONS)
        code = error_user("--tokens %lld: with a prompt of %lld tokens, at most %lld", (long long)s->tokens,
                          (long long)g->prompts.longest, (long long)(MOST_POSITIONS - g->prompts.longest));
    if (code == ERROR_NONE)
        report_prompts(g);
    if (code == ERROR_NONE && has_output(s))
        code = output_open(&g->output, s->output);
    return code;
}

static void report_start(const struct generator *g)
{
    const struct inference *inference = g->inference;
    const int64_t most = g->longest + g->settings->tokens, half = g->context / 2;
    log_print(stderr, "# %s, step %lld\n", inference->path, (long long)inference->step);
    if (most > g->context)
        fprintf(stderr,
                "# up to %lld tokens with the prompt: the model sees the last %lld to %lld of them (--context)\n",
                (long long)most, (long long)(g->context - half + 1), (long long)g->context);
}

/* Returns the minimum number of rows of a call, with which GEMMs on a CPU give the same bits in every batch. */
static int64_t least_rows(const struct generator *g)
{
    const bool host = g->inference->executor->device == NULL;
    return host && !g->alone ? HOST_ROWS : 0;
}

static int64_t positions_of(const struct generator *g)
{
    return MIN(g->context, g->longest + g->settings->tokens);
}

static struct inference_shape shape_of(const struct generator *g, int64_t batch)
{
    const int64_t of_prompts = MIN(g->longest, positions_of(g)) * batch;
    int64_t tokens = MIN(of_prompts, g->alone ? CALL_TOKENS : BATCH_CALL_TOKENS);
    const int64_t least = MAX(batch, least_rows(g));
    tokens = MAX(tokens, least);
    return (struct inference_shape){.use = MEMORY_GENERATE,
                                    .tokens = tokens,
                                    .segments = batch,
                                    .positions = positions_of(g),
                                    .least_rows = least_rows(g),
                                    .shard = g->settings->shard,
                                    .tensor = g->settings->tensor,
                                    .context = g->settings->context_parallel};
}

/* Checks the memory before any rank of the node allocates. */
static int check_memory(const struct generator *g)
{
    char needs[BYTES_TEXT], has[BYTES_TEXT];
    struct comm *node = comm_split_node(g->world);
    const int64_t unused = fit_free(g->inference->executor, node->size);
    comm_destroy(node);
    const int64_t need = inference_need(g->inference);
    if (unused == 0 || need <= unused) /* 0: the free memory is unknown */
        return ERROR_NONE;
    return error_user("--batch %lld: sequences of up to %lld tokens need %s on each rank, which has %s free; lower "
                      "--batch, --tokens or --context",
                      (long long)g->batch, (long long)positions_of(g), bytes_text(needs, (double)need),
                      bytes_text(has, (double)unused));
}

/* Chooses the batch: not more places than sequences. The cache numbers the rows of its tokens with int32. */
static int choose_batch(struct generator *g)
{
    const int64_t team = MAX(g->settings->tensor, 1) * MAX(g->settings->context_parallel, 1);
    const int64_t teams = g->settings->shard || team >= g->world->size ? 1 : g->world->size / team;
    const int64_t most = INT32_MAX / positions_of(g);
    const int64_t wanted = g->settings->batch > 0 ? g->settings->batch : MIN(BATCH, most);
    g->batch = MIN(wanted, (g->count * g->settings->samples + teams - 1) / teams);
    if (g->batch <= most)
        return ERROR_NONE;
    return error_user("--batch %lld: sequences of up to %lld tokens allow at most %lld at once", (long long)g->batch,
                      (long long)positions_of(g), (long long)most);
}

static void add_ends(struct generator *g, const struct end_tokens *ends)
{
    for (int i = 0; i < ends->count; i++)
        if (ends->ids[i] < g->inference->setup.model.vocabulary)
            g->ends[ends->ids[i]] = true;
}

/* Finds the tokens that end a text: the tokenizer's end token, and those that its files or the model's name. */
static int find_ends(struct generator *g)
{
    const struct tokenizer *tokenizer = g->inference->tokenizer;
    struct carried_files carried;
    int code = carried_read(g->inference->path, &carried);
    if (code != ERROR_NONE)
        return code;
    g->ends = memory_allocate(g->inference->setup.model.vocabulary * (int64_t)sizeof *g->ends);
    add_ends(g, &(struct end_tokens){tokenizer->eos >= 0, {tokenizer->eos}});
    add_ends(g, &tokenizer->ends);
    add_ends(g, &carried.ends.config);
    add_ends(g, &carried.ends.generation);
    carried_destroy(&carried);
    return ERROR_NONE;
}

/* Makes the list of allowed tokens. Letters of the alphabet are converted like those of prompts. */
static int allow_alphabet(struct generator *g)
{
    const struct inference *inference = g->inference;
    struct text_census census;
    int code = census_start(&census, inference->tokenizer, g->settings->letter_case);
    if (code != ERROR_NONE)
        return code;
    char *alphabet = memory_string(g->settings->alphabet);
    for (char *c = alphabet; *c != '\0'; c++)
        *c = census_read(&census, *c);
    code = alphabet_allow(inference->tokenizer, inference->setup.model.vocabulary, alphabet, &g->allowed);
    for (int64_t token = 0; token < inference->setup.model.vocabulary; token++)
        g->allowed[token] = g->allowed[token] || g->ends[token];
    free(alphabet);
    return code;
}

static int prepare(struct generator *g)
{
    const struct generate_settings *s = g->settings;
    struct inference *inference = g->inference;
    const bool reads = g->world->rank == 0;
    int code = check_objective(inference);
    if (code == ERROR_NONE)
        code = inference_check_context(inference, s->context, 2);
    code = comm_agree(g->world, code);
    if (code == ERROR_NONE)
        code = comm_agree(g->world, find_ends(g));
    if (code == ERROR_NONE && s->alphabet != NULL)
        code = comm_agree(g->world, allow_alphabet(g));
    if (code == ERROR_NONE)
        code = comm_agree(g->world, reads ? read_prompts(g) : ERROR_NONE);
    if (code != ERROR_NONE)
        return code;
    int64_t sizes[2] = {g->prompts.count, g->prompts.longest};
    comm_broadcast(g->world, sizes, sizeof sizes, 0);
    g->count = sizes[0];
    g->longest = sizes[1];
    g->context = s->context > 0 ? s->context : inference->context;
    code = comm_agree(g->world, choose_batch(g));
    if (code != ERROR_NONE)
        return code;
    if (reads)
        report_start(g);
    const struct inference_shape shape = shape_of(g, g->batch);
    code = inference_lay_out(inference, &shape);
    if (code == ERROR_NONE)
        code = comm_agree(g->world, check_memory(g));
    if (code == ERROR_NONE)
        code = inference_start(inference);
    g->teams = inference->shares ? 1 : inference->teams;
    g->team = inference->shares ? 0 : inference->team;
    return code;
}

/* -- A round ------------------------------------------------------------------------------------------------------ */

/* Sends the prompts of a round from rank 0 to all ranks: lengths[prompts], and the returned tokens[sum of lengths]. */
static int32_t *share_prompts(const struct generator *g, int64_t first, int64_t prompts, int64_t *lengths)
{
    int64_t all = 0;
    for (int64_t p = 0; p < prompts && g->world->rank == 0; p++)
        lengths[p] = g->prompts.list[first + p].count;
    comm_broadcast(g->world, lengths, prompts * (int64_t)sizeof *lengths, 0);
    for (int64_t p = 0; p < prompts; p++)
        all += lengths[p];
    int32_t *tokens = memory_allocate(all * (int64_t)sizeof *tokens);
    if (g->world->rank == 0)
        memcpy(tokens, g->prompts.tokens + g->prompts.list[first].first, (size_t)all * sizeof *tokens);
    comm_broadcast(g->world, tokens, all * (int64_t)sizeof *tokens, 0);
    return tokens;
}

static struct decode_sequence make_sequence(const struct generator *g, int64_t prompt, int64_t sample,
                                            const int32_t *tokens, int64_t count)
{
    struct decode_sequence sequence = {.number = (uint64_t)prompt << 32 | (uint64_t)sample,
                                       .prompt = count,
                                       .count = count,
                                       .most = count + g->settings->tokens};
    sequence.tokens = memory_grow(NULL, sequence.most * (int64_t)sizeof *sequence.tokens);
    memcpy(sequence.tokens, tokens, (size_t)count * sizeof *tokens);
    return sequence;
}

static void round_create(struct generate_round *round, const struct generator *g, int64_t first)
{
    const int64_t samples = g->settings->samples, all = g->count * samples;
    round->first = first;
    round->count = MIN(ROUND_BATCHES * g->batch * g->teams, all - first);
    round->sequences = memory_allocate(round->count * (int64_t)sizeof *round->sequences);
    const int64_t first_prompt = first / samples, prompts = (first + round->count - 1) / samples + 1 - first_prompt;
    int64_t *lengths = memory_allocate(prompts * (int64_t)sizeof *lengths), prompt = first_prompt;
    int32_t *tokens = share_prompts(g, first_prompt, prompts, lengths), *at = tokens;
    for (int64_t i = first; i < first + round->count; i++) {
        for (; prompt < i / samples; prompt++)
            at += lengths[prompt - first_prompt];
        round->sequences[i - first] = make_sequence(g, prompt, i % samples, at, lengths[prompt - first_prompt]);
    }
    memory_free(tokens);
    memory_free(lengths);
}

static void round_destroy(struct generate_round *round)
{
    for (int64_t i = 0; i < round->count; i++)
        free(round->sequences[i].tokens);
    memory_free(round->sequences);
}

static void print_added(void *self, const struct decode_sequence *sequence, int32_t token)
{
    struct generator *g = self;
    const bool first = g->prompts.text_bytes == 0 && sequence->count == sequence->prompt + 1;
    results_put_token(&g->stream, g->inference->tokenizer, token, first);
}

static int compute(struct generator *g, struct generate_round *round)
{
    const struct inference *inference = g->inference;
    struct decode_settings how = {.engine = &g->inference->engine,
                                  .sequences = g->batch,
                                  .call_tokens = inference->shape.tokens,
                                  .context = g->context,
                                  .sampling = g->settings->sampling,
                                  .ends = g->ends,
                                  .threads = inference->threads,
                                  .agree = inference->shares                   ? g->world
                                           : g->settings->context_parallel > 1 ? inference->grid.model
                                                                               : NULL,
                                  .added = g->alone && g->world->rank == 0 ? print_added : NULL,
                                  .self = g};
    how.sampling.allowed = g->allowed;
    struct decode_sequence *own = memory_allocate(round->count * (int64_t)sizeof *own);
    int64_t count = 0;
    for (int64_t i = g->team; i < round->count; i += g->teams)
        own[count++] = round->sequences[i];
    const bool finite = decode(&how, own, count, &g->rates);
    for (int64_t i = 0; i < count; i++)
        round->sequences[g->team + i * g->teams] = own[i];
    memory_free(own);
    return finite ? ERROR_NONE : inference_diverged(inference->path);
}

/* Sends a sequence's result from its team to all ranks. */
static void share_result(const struct generator *g, struct decode_sequence *sequence, int team)
{
    const int first_rank = team * (g->world->size / g->teams);
    struct decode_sequence made = *sequence;
    comm_broadcast(g->world, &made, sizeof made, first_rank);
    made.tokens = sequence->tokens;
    comm_broadcast(g->world, made.tokens, made.count * (int64_t)sizeof *made.tokens, first_rank);
    *sequence = made;
}

/* number: of the sequence, in the whole run. */
static void write_result(struct generator *g, const struct decode_sequence *sequence, int64_t number)
{
    FILE *out = g->output.file != NULL ? g->output.file : stdout;
    const struct prompt *from = &g->prompts.list[number / g->settings->samples];
    g->replaced += results_write(out, g->format, g->inference->tokenizer,
                                 &(struct generate_result){.name = from->name,
                                                           .sample = number % g->settings->samples + 1,
                                                           .prompt = g->prompts.text + from->text,
                                                           .prompt_bytes = from->bytes,
                                                           .tokens = sequence->tokens + sequence->prompt,
                                                           .count = sequence->count - sequence->prompt,
                                                           .log_probability = sequence->log_probability,
                                                           .ended = sequence->end == DECODE_END_TOKEN});
}

static void collect(struct generator *g, struct generate_round *round)
{
    for (int64_t i = 0; i < round->count; i++) {
        struct decode_sequence *sequence = &round->sequences[i];
        if (g->teams > 1)
            share_result(g, sequence, (int)(i % g->teams));
        g->added += sequence->count - sequence->prompt;
        if (g->world->rank == 0 && !g->alone)
            write_result(g, sequence, round->first + i);
    }
    if (g->world->rank == 0)
        fflush(g->output.file != NULL ? g->output.file : stdout);
}

static int run_rounds(struct generator *g)
{
    const int64_t all = g->count * g->settings->samples;
    int code = ERROR_NONE;
    for (int64_t first = 0; first < all && code == ERROR_NONE;) {
        struct generate_round round;
        round_create(&round, g, first);
        first += round.count;
        code = comm_agree(g->world, compute(g, &round));
        if (code == ERROR_NONE)
            collect(g, &round);
        round_destroy(&round);
    }
    return code;
}

/* -- The whole command -------------------------------------------------------------------------------------------- */

static double rate(int64_t count, double seconds)
{
    return seconds > 0 ? (double)count / seconds : 0;
}

/* Prints the rates. Times are those of rank 0's team; the number of tokens is that of all teams. */
static void report(const struct generator *g)
{
    const struct decode_rates *r = &g->rates;
    fprintf(stderr,
            "# prompts: %lld tokens in %.3f s (%.0f tokens/s); generated: %lld tokens, %lld at a time (%.1f tokens/s, "
            "%.3f ms for a token of each)%s\n",
            (long long)r->read, r->read_seconds, rate(r->read, r->read_seconds), (long long)g->added,
            (long long)g->batch, rate(r->added, r->step_seconds),
            r->steps > 0 ? 1e3 * r->step_seconds / (double)r->steps : 0, g->teams > 1 ? ", on each team of ranks" : "");
}

static void warn_of_replaced(const struct generator *g)
{
    if (g->replaced > 0)
        log_warn("characters that FASTA does not allow, written as '?': %lld ('>', ';', blanks, unprintable "
                 "characters); --output-format jsonl keeps all printable ones",
                 (long long)g->replaced);
}

static int generate(struct generator *g)
{
    const bool prints = g->alone && g->world->rank == 0;
    if (prints) {
        fwrite(g->prompts.text, 1, (size_t)g->prompts.text_bytes, stdout);
        fflush(stdout);
    }
    int code = run_rounds(g);
    if (code == ERROR_NONE)
        code = comm_agree(g->world, output_close(&g->output, ERROR_NONE));
    if (prints) {
        text_stream_end(&g->stream);
        putchar('\n');
    }
    if (code == ERROR_NONE && g->world->rank == 0) {
        report(g);
        warn_of_replaced(g);
    }
    return code;
}

int generate_run(struct comm *world, const struct generate_settings *settings, device_make *make_executor)
{
    int code = comm_agree(world, check_settings(settings));
    if (code != ERROR_NONE)
        return code;
    log_to_errors(); /* messages about the device and the like */
    struct inference *inference = memory_allocate(sizeof *inference);
    struct generator *g = memory_allocate(sizeof *g);
    *g = (struct generator){.settings = settings, .inference = inference, .world = world, .stream = {.out = stdout}};
    g->alone = settings->input == NULL && settings->output == NULL && settings->output_format == NULL &&
               settings->samples == 1;
    code = inference_open(inference, world, settings->checkpoint, make_executor);
    if (code == ERROR_NONE)
        code = prepare(g);
    if (code == ERROR_NONE)
        code = generate(g);
    output_close(&g->output, code); /* still open only after a failure */
    prompts_destroy(&g->prompts);
    memory_free(g->allowed);
    memory_free(g->ends);
    inference_close(inference);
    memory_free(g);
    memory_free(inference);
    return code;
}
