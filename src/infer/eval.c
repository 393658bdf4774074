#include "infer/eval.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "file/disk.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/range.h"
#include "base/thousands.h"
#include "estimate/fit.h"
#include "infer/inference.h"
#include "infer/likelihoods.h"
#include "infer/output.h"
#include "file/jsontext.h"
#include "records/record_reader.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Tokens of a batch of short windows: what a GPU computes well, and what a CPU does in a moment. */
enum { DEVICE_TOKENS = 4096, HOST_TOKENS = 512 };
enum { BATCH_TOKENS = 4096, WINDOWS_PER_CONTEXT = 64, MOST_TOKENS = 1 << 28, OVERLAP = 200 };
enum { LEAST_CAUSAL = 2, LEAST_MASKED = 3 }; /* minimum tokens of a window with a token to score */

/* -- The JSON ----------------------------------------------------------------------------------------------------- */

/* Returns a JSON number, or null: JSON has neither infinity nor NaN. */
static json_t *real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *text(const char *value)
{
    return jsontext_create(value, (int64_t)strlen(value));
}

static double mean_of(double sum, int64_t count)
{
    return count > 0 ? sum / (double)count : 0;
}

static json_t *describe_record(const struct score_record *record, int64_t index)
{
    double mean = mean_of(record->loss, record->scored);
    json_t *object = json_object();
    json_object_set_new(object, "seq_idx", json_integer(index));
    json_object_set_new(object, "seq_name", text(record->name));
    json_object_set_new(object, "mean_log_prob", real(0 - mean));
    json_object_set_new(object, "sum_log_prob", real(0 - record->loss));
    json_object_set_new(object, "num_valid_tokens", json_integer(record->scored));
    json_object_set_new(object, "cross_entropy_loss", real(mean));
    json_object_set_new(object, "perplexity", real(exp(mean)));
    json_object_set_new(object, "seq_length", json_integer(record->length));
    return object;
}

struct totals {
    double token_loss, sequence_loss; /* nats: mean over tokens, and mean over records of their means */
    int64_t tokens;
    double bits_per_byte, word_perplexity; /* for text; words are those of sliding_words */
    int64_t bytes, words;
};

static struct totals totals_of(const struct fasta_score *score)
{
    struct totals t = {0};
    for (int64_t r = 0; r < score->count; r++) {
        const struct score_record *record = &score->records[r];
        t.token_loss += record->loss;
        t.tokens += record->scored;
        t.sequence_loss += mean_of(record->loss, record->scored);
        t.bytes += record->bytes;
        t.words += record->words;
    }
    t.bits_per_byte = mean_of(t.token_loss / log(2), t.bytes);
    t.word_perplexity = exp(mean_of(t.token_loss, t.words));
    t.token_loss = mean_of(t.token_loss, t.tokens);
    t.sequence_loss = mean_of(t.sequence_loss, score->count);
    return t;
}

static json_t *describe_totals(const struct fasta_score *score)
{
    struct totals t = totals_of(score);
    json_t *object = json_object();
    json_object_set_new(object, "token_weighted_ce_loss", real(t.token_loss));
    json_object_set_new(object, "token_weighted_perplexity", real(exp(t.token_loss)));
    json_object_set_new(object, "token_weighted_log_prob", real(0 - t.token_loss));
    json_object_set_new(object, "per_seq_avg_ce_loss", real(t.sequence_loss));
    json_object_set_new(object, "per_seq_avg_perplexity", real(exp(t.sequence_loss)));
    json_object_set_new(object, "per_seq_avg_log_prob", real(0 - t.sequence_loss));
    json_object_set_new(object, "total_valid_tokens", json_integer(t.tokens));
    json_object_set_new(object, "total_sequences", json_integer(score->count));
    return object;
}

static void describe_text(json_t *own, const struct totals *t)
{
    json_object_set_new(own, "bits_per_byte", real(t->bits_per_byte));
    json_object_set_new(own, "word_perplexity", real(t->word_perplexity));
    json_object_set_new(own, "text_bytes", json_integer(t->bytes));
    json_object_set_new(own, "words", json_integer(t->words));
}

static int64_t seed_of(const struct inference *inference, const struct eval_settings *s)
{
    return s->seed == EVAL_SEED ? inference->seed : s->seed;
}

/* Makes the JSON: the recipe's fields in its order, then those that this program adds. */
static json_t *describe(const struct inference *inference, const struct eval_settings *s,
                        const struct score_settings *how, const struct fasta_score *score)
{
    json_t *object = json_object(), *records = json_array(), *own = json_object();
    json_object_set_new(object, "checkpoint", text(inference->path));
    json_object_set_new(object, "checkpoint_type", json_string("cistron"));
    json_object_set_new(object, "fasta", text(s->input));
    json_object_set_new(object, "seed", json_integer(seed_of(inference, s)));
    json_object_set_new(object, "max_seq_length", json_integer(how->windows.context));
    json_object_set_new(object, "mask_degenerate_bases", json_boolean(how->mask));
    json_object_set_new(object, "world_size", json_integer(inference->world->size));
    json_object_set_new(object, "aggregate", describe_totals(score));
    for (int64_t r = 0; r < score->count; r++)
        json_array_append_new(records, describe_record(&score->records[r], r));
    json_object_set_new(object, "per_sequence", records);
    json_object_set_new(own, "version", json_string(PACKAGE_VERSION));
    json_object_set_new(own, "step", json_integer(inference->step));
    json_object_set_new(own, "objective", json_string(how->masking != NULL ? "masked" : "causal"));
    if (how->masking != NULL)
        json_object_set_new(own, "mask_probability", real(how->masking->probability));
    json_object_set_new(own, "overlap", json_integer(how->windows.overlap));
    json_object_set_new(own, "bos", json_boolean(how->windows.bos || how->windows.ends));
    json_object_set_new(own, "windows", json_integer(score->windows));
    if (how->windows.both_strands)
        json_object_set_new(own, "both_strands", json_true());
    const struct totals t = totals_of(score);
    if (tokenizer_is_text(inference->tokenizer))
        describe_text(own, &t);
    json_object_set_new(object, "cistron", own);
    return object;
}

/* -- The whole command -------------------------------------------------------------------------------------------- */

static int choose_context(const struct inference *inference, const struct eval_settings *s, int64_t least,
                          int64_t *context)
{
    *context = s->context == 0 ? inference->context : s->context;
    int code = inference_check_context(inference, *context, least);
    if (code != ERROR_NONE)
        return code;
    if (s->batch_tokens < 0 || s->batch_tokens > MOST_TOKENS)
        return error_user("--batch %lld: must be 1 to %d tokens", (long long)s->batch_tokens, MOST_TOKENS);
    if (s->batch < 0 || s->batch > MOST_TOKENS / *context)
        return error_user("--batch %lld: must be 0 (automatic) or a number of windows, at most %lld",
                          (long long)s->batch, (long long)(MOST_TOKENS / *context));
    return ERROR_NONE;
}

static int choose_overlap(const struct eval_settings *s, int64_t context, int64_t *overlap)
{
    *overlap = s->overlap != EVAL_OVERLAP ? s->overlap : MIN(OVERLAP, context / 2);
    if (*overlap < 1 || *overlap >= context)
        return error_user("--overlap %lld: must be from 1 to %lld, one less than the %lld tokens of a window",
                          (long long)*overlap, (long long)context - 1, (long long)context);
    return ERROR_NONE;
}

/* Refuses options that are only for the other kind of model. */
static int check_objective(const struct inference *inference, const struct eval_settings *s, bool masked)
{
    const char *family = inference->setup.model.family->name;
    const char *option = s->overlap != EVAL_OVERLAP ? "--overlap" : s->bos ? "--bos" : "--no-mask";
    const bool bases = inference->tokenizer->bases;
    if (masked && (s->overlap != EVAL_OVERLAP || s->bos || (s->no_mask && !bases)))
        return error_user("%s: does not apply to a masked model (%s), whose windows do not overlap, always have "
                          "special tokens, and are scored at masked tokens only",
                          option, family);
    if (!masked && s->seed != EVAL_SEED)
        return error_user("--seed: applies to masked models only, where it selects the masked tokens; %s is not one",
                          family);
    if (s->both_strands && !bases)
        return inference_refuse_strands(inference);
    if (masked && inference->tokenizer->mask < 0)
        return error_user("%s: is a masked model (%s) with tokenizer %s, which has no mask token", inference->path,
                          family, inference->tokenizer->name);
    return ERROR_NONE;
}

/* masking: storage, used for a masked model. */
static int shape_of(const struct inference *inference, const struct eval_settings *s, struct score_settings *how,
                    struct token_masking *masking)
{
    const bool masked = !model_causal(&inference->setup.model);
    int64_t context, overlap = 0;
    int code = check_objective(inference, s, masked);
    if (code == ERROR_NONE)
        code = choose_context(inference, s, masked ? LEAST_MASKED : LEAST_CAUSAL, &context);
    if (code == ERROR_NONE && !masked)
        code = choose_overlap(s, context, &overlap);
    if (code != ERROR_NONE)
        return code;
    /* text and proteins begin with the begin token if they did in training; a genome's record is a piece of one, unless
     * its likelihood is requested */
    const bool bos =
        s->bos || (!masked && (s->likelihoods || !inference->tokenizer->bases) && inference_begins(inference));
    if (bos && inference->tokenizer->bos < 0)
        return error_user("--bos: the tokenizer of %s, %s, has no begin token", inference->path,
                          inference->tokenizer->name);
    *masking = (struct token_masking){inference->tokenizer, (uint64_t)seed_of(inference, s),
                                      inference->setup.train.mask_probability, NULL};
    const int64_t least = inference->executor->device != NULL ? DEVICE_TOKENS : HOST_TOKENS;
    const int64_t batch_tokens = s->batch_tokens > 0 ? s->batch_tokens : BATCH_TOKENS;
    const int64_t batch = s->batch > 0 ? s->batch : MAX(batch_tokens / context, 1);
    *how = (struct score_settings){.checkpoint = inference->path,
                                   .windows = {.input = s->input,
                                               .input_format = s->input_format,
                                               .field = s->field,
                                               .skip_bad = s->skip_bad,
                                               .tokenizer = inference->tokenizer,
                                               .context = context,
                                               .overlap = overlap,
                                               .ends = masked,
                                               .each = masked && s->likelihoods,
                                               .bos = bos,
                                               .both_strands = s->both_strands,
                                               .letter_case = s->letter_case},
                                   .mask = !s->no_mask && inference->tokenizer->bases,
                                   .masking = masked && !s->likelihoods ? masking : NULL,
                                   .token_dropout = inference->setup.model.token_dropout,
                                   .tokens = batch * context,
                                   .short_tokens = s->batch > 0 ? batch * context : MIN(batch * context, least),
                                   .windows_at_once = batch * WINDOWS_PER_CONTEXT};
    return ERROR_NONE;
}

static int write_output(struct atomic_file *output, json_t *object)
{
    int code = ERROR_NONE;
    if (json_dumpf(object, output->file, JSON_INDENT(2) | JSON_REAL_PRECISION(17)) != 0)
        code = error_environment("%s: cannot write it: %s", output->target.temporary, strerror(errno));
    fputc('\n', output->file);
    return output_close(output, code);
}

static int report(struct inference *inference, const struct eval_settings *s, const struct score_settings *how,
                  const struct fasta_score *score, struct atomic_file *output, double seconds)
{
    if (inference->world->rank != 0)
        return ERROR_NONE;
    struct totals t = totals_of(score);
    census_report(&score->census, score->stops);
    record_reader_report(score->skipped, s->field);
    if (t.tokens == 0)
        log_warn("%s: none of the %s could be scored", s->input, tokenizer_token_noun(inference->tokenizer));
    int code;
    if (s->likelihoods) {
        likelihoods_write(output->file, score, how->windows.each);
        code = output_close(output, ERROR_NONE);
    } else {
        json_t *object = describe(inference, s, how, score);
        code = write_output(output, object);
        json_decref(object);
    }
    if (code == ERROR_NONE && tokenizer_is_text(inference->tokenizer))
        log_info("%s: %.5f bits a byte of %lld, perplexity %.4f of %lld words", s->output, t.bits_per_byte,
                 (long long)t.bytes, t.word_perplexity, (long long)t.words);
    if (code == ERROR_NONE)
        log_info("%s: %lld sequence%s, %lld scored token%s in %lld window%s: %.5f nats a token, perplexity %.4f "
                 "(%.1f s, %.0f tokens/s)",
                 s->output, (long long)score->count, plural(score->count), (long long)t.tokens, plural(t.tokens),
                 (long long)score->windows, plural(score->windows), t.token_loss, exp(t.token_loss), seconds,
                 (double)t.tokens / seconds);
    return code;
}

static int check_output(const struct inference *inference, const struct eval_settings *s)
{
    return output_check(s->output, DISK_STREAM | (s->replace ? DISK_REPLACE : 0), s->input, inference->path);
}

/* Checks the memory before any rank of the node allocates. */
static int check_memory(const struct inference *inference, const struct score_settings *how)
{
    char needs[BYTES_TEXT], has[BYTES_TEXT];
    struct comm *node = comm_split_node(inference->world);
    const int64_t unused = fit_free(inference->executor, node->size), need = inference_need(inference);
    comm_destroy(node);
    if (unused == 0 || need <= unused) /* 0: the free memory is unknown */
        return ERROR_NONE;
    return error_user("--context %lld: batches of %lld tokens need %s on each rank, but %s is free for each; choose a "
                      "smaller --context or --batch, or --context-parallel",
                      (long long)how->windows.context, (long long)how->tokens, bytes_text(needs, (double)need),
                      bytes_text(has, (double)unused));
}

static int evaluate(struct inference *inference, const struct eval_settings *s, struct atomic_file *output)
{
    struct comm *world = inference->world;
    struct score_settings how;
    struct token_masking masking;
    struct fasta_score score;
    int code = inference_choose_precision(inference, s->precision);
    if (code == ERROR_NONE)
        code = shape_of(inference, s, &how, &masking);
    code = comm_agree(world, code);
    if (code == ERROR_NONE)
        code = comm_agree(world, world->rank == 0 ? check_output(inference, s) : ERROR_NONE);
    if (code == ERROR_NONE)
        code = comm_agree(world, world->rank == 0 ? output_open(output, s->output) : ERROR_NONE);
    if (code != ERROR_NONE)
        return code;
    code = inference_lay_out(inference, &(struct inference_shape){.use = MEMORY_EVALUATE,
                                                                  .tokens = how.tokens,
                                                                  .segments = how.windows_at_once,
                                                                  .shard = s->shard,
                                                                  .tensor = s->tensor,
                                                                  .context = s->context_parallel});
    if (code == ERROR_NONE)
        code = comm_agree(world, check_memory(inference, &how));
    if (code == ERROR_NONE)
        code = inference_start(inference);
    how.together = inference->shares;
    how.teams = inference->teams;
    how.team = inference->team;
    if (code != ERROR_NONE)
        return code;
    double start = clock_seconds();
    code = score_run(&score, world, &inference->engine, &how);
    if (code != ERROR_NONE)
        return code;
    code = comm_agree(world, report(inference, s, &how, &score, output, clock_seconds() - start));
    score_destroy(&score);
    return code;
}

int eval_plan(const struct deck *deck, int64_t window, int64_t ranks, struct executor *executor,
              int64_t memory[BUDGET_CATEGORIES])
{
    const struct inference_shape shape = {
        .use = MEMORY_EVALUATE, .tokens = window, .segments = WINDOWS_PER_CONTEXT, .context = ranks};
    return inference_plan(deck, window, &shape, executor, memory);
}

int eval_run(struct comm *world, const struct eval_settings *settings, device_make *make_executor)
{
    struct inference *inference = memory_allocate(sizeof *inference);
    struct atomic_file output = {NULL};
    int code = inference_open(inference, world, settings->checkpoint, make_executor);
    if (code == ERROR_NONE)
        code = evaluate(inference, settings, &output);
    code = output_close(&output, code); /* still open only after a failure */
    inference_close(inference);
    memory_free(inference);
    return code;
}
