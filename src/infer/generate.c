#include "infer/generate.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "prepare/census.h"
#include "infer/inference.h"
#include "infer/text_stream.h"

#include <stdio.h>
#include <string.h>

enum { CHUNK = 256, MOST_POSITIONS = 1 << 30 };

static int check_settings(const struct generate_settings *s)
{
    const struct sampling *sampling = &s->sampling;
    if (s->tokens < 1)
        return error_user("--tokens %lld: must be at least 1", (long long)s->tokens);
    const int64_t most = MOST_POSITIONS - 1 - (int64_t)strlen(s->prompt);
    if (s->tokens > most)
        return error_user("--tokens %lld: with this prompt, at most %lld", (long long)s->tokens, (long long)most);
    if (!(sampling->temperature >= 0 && sampling->temperature <= 1e6))
        return error_user("--temperature %g: must be 0 (always the likeliest token) or positive, at most 1e6",
                          sampling->temperature);
    if (sampling->top_k < 0)
        return error_user("--top-k %lld: must be 0 (all tokens) or positive", (long long)sampling->top_k);
    if (!(sampling->top_p > 0 && sampling->top_p <= 1))
        return error_user("--top-p %g: must be above 0 and at most 1 (all tokens)", sampling->top_p);
    return ERROR_NONE;
}

/* A token's bytes of text; of a sequence its character, '?' where it has none that can be printed. */
static void print_token(struct text_stream *stream, const struct tokenizer *tokenizer, int32_t token)
{
    int64_t count;
    const char *bytes = tokenizer_decode(tokenizer, token, &count);
    const bool printable = count == 1 && *bytes >= ' ' && *bytes <= '~';
    if (tokenizer_is_text(tokenizer))
        text_stream_put(stream, bytes, count);
    else
        text_stream_put(stream, printable ? bytes : "?", 1);
}

/* What its user should hear of a prompt, on standard error: the text alone goes to standard output. */
static void report_prompt(const struct census *census)
{
    const long long lowered = (long long)census_lowered(census);
    if (lowered > 0)
        fprintf(stderr, "# prompt: %lld lower-case letters are read as capitals (--case keep keeps them)\n", lowered);
    census_warn(census);
}

/* The ids of a prompt of characters; *ids is freed with memory_free. ERROR_USER: the settings' letter_case. */
static int encode_characters(const struct inference *inference, const struct generate_settings *s, int32_t **ids,
                             int64_t *count)
{
    struct census census;
    int code = census_start(&census, inference->tokenizer, s->letter_case);
    if (code != ERROR_NONE)
        return code;
    *count = (int64_t)strlen(s->prompt);
    uint8_t *narrow = memory_allocate(*count + 1);
    census_encode(&census, s->prompt, *count, narrow);
    census_end_record(&census, "the prompt");
    if (inference->world->rank == 0)
        report_prompt(&census);
    *ids = memory_allocate((int64_t)sizeof **ids * *count);
    for (int64_t t = 0; t < *count; t++)
        (*ids)[t] = narrow[t];
    memory_free(narrow);
    return ERROR_NONE;
}

/* The same of a text, in which special tokens may be written. */
static int encode_text(const struct inference *inference, const struct generate_settings *s, int32_t **ids,
                       int64_t *count)
{
    struct census census;
    int code = census_start(&census, inference->tokenizer, s->letter_case);
    if (code != ERROR_NONE)
        return code;
    struct encoder *encoder = encoder_open(inference->tokenizer);
    const int32_t *found;
    code = encoder_encode(encoder, s->prompt, (int64_t)strlen(s->prompt), true, &found, count);
    if (code == ERROR_NONE) {
        *ids = memory_allocate((int64_t)sizeof **ids * *count);
        for (int64_t t = 0; t < *count; t++)
            (*ids)[t] = found[t];
    }
    encoder_close(encoder);
    return code;
}

/* BOS, where the model learned with it, and the prompt, with room for what is generated; freed with memory_free().
 * ERROR_USER: the settings' letter_case; nothing to begin with. */
static int start_tokens(const struct inference *inference, const struct generate_settings *s, int32_t **tokens,
                        int64_t *count)
{
    int32_t *ids = NULL;
    int64_t length = 0;
    int code = tokenizer_is_text(inference->tokenizer) ? encode_text(inference, s, &ids, &length)
                                                       : encode_characters(inference, s, &ids, &length);
    const bool bos = inference_begins(inference);
    if (code == ERROR_NONE && length + bos == 0)
        code = error_user("--prompt \"\": the model has no begin token, so a prompt must begin the text");
    if (code == ERROR_NONE) {
        *tokens = memory_allocate((int64_t)sizeof **tokens * (bos + length + s->tokens));
        if (bos)
            (*tokens)[0] = inference->tokenizer->bos;
        for (int64_t t = 0; t < length; t++)
            (*tokens)[bos + t] = ids[t];
        *count = bos + length;
    }
    memory_free(ids);
    return code;
}

static int generate(struct inference *inference, const struct generate_settings *s, int32_t *tokens, int64_t count,
                    int64_t chunk)
{
    struct engine *engine = &inference->engine;
    const bool prints = inference->world->rank == 0;
    const int64_t prompt = count, end = count + s->tokens, vocabulary = inference->settings.vocabulary;
    double *logits = memory_allocate((int64_t)sizeof *logits * vocabulary);
    double start = clock_seconds(), prefilled = start;
    struct text_stream stream = {.out = stdout};
    bool stopped = false;
    int code = ERROR_NONE;
    if (prints) {
        fputs(s->prompt, stdout);
        fflush(stdout);
    }
    while (count < end && !stopped && code == ERROR_NONE) {
        for (int64_t t = engine_length(engine); t < count; t = engine_length(engine))
            engine_extend(engine, tokens + t, count - t < chunk ? count - t : chunk, logits);
        if (count == prompt)
            prefilled = clock_seconds();
        int32_t token = sample_token(&s->sampling, logits, vocabulary, count);
        if (inference->shares) /* none may stop before the others */
            comm_broadcast(inference->world, &token, sizeof token, 0);
        stopped = token == inference->tokenizer->eos;
        if (token < 0)
            code = inference_diverged(inference->path);
        else if (!stopped && prints)
            print_token(&stream, inference->tokenizer, token);
        tokens[count++] = token;
    }
    memory_free(logits);
    if (!prints)
        return code;
    text_stream_end(&stream);
    putchar('\n');
    double now = clock_seconds();
    if (code == ERROR_NONE)
        fprintf(stderr,
                "# prompt: %lld tokens in %.3f s (%.0f tokens/s); generated: %lld tokens in %.3f s (%.1f tokens/s)%s\n",
                (long long)prompt, prefilled - start, (double)prompt / (prefilled - start), (long long)(count - prompt),
                now - prefilled, (double)(count - prompt) / (now - prefilled),
                stopped ? ", up to the end of the sequence" : "");
    return code;
}

static int check_family(const struct inference *inference)
{
    const struct family *family = family_of(inference->settings.family);
    if (family->causal)
        return ERROR_NONE;
    return error_user("%s: a masked model (%s) predicts residues from both sides and cannot go on with a text; cistron "
                      "eval gives its loss, cistron embed its vectors",
                      inference->path, family->name);
}

static int start_and_generate(struct inference *inference, const struct generate_settings *s)
{
    int64_t count = 0;
    int32_t *tokens = NULL;
    int code = comm_agree(inference->world, start_tokens(inference, s, &tokens, &count));
    if (code != ERROR_NONE)
        return code;
    int64_t positions = count + s->tokens, chunk = count < CHUNK ? count : CHUNK;
    if (inference->world->rank == 0) {
        fprintf(stderr, "# %s, step %lld\n", inference->path, (long long)inference->step);
        if (positions > inference->context)
            log_warn("%lld tokens with the prompt are more than the %lld that the model was trained on at a time; what "
                     "comes behind them may make little sense",
                     (long long)positions, (long long)inference->context);
    }
    code = inference_lay_out(inference, &(struct inference_shape){.use = MEMORY_GENERATE,
                                                                  .tokens = chunk,
                                                                  .segments = 1,
                                                                  .positions = positions,
                                                                  .shard = s->shard,
                                                                  .tensor = s->tensor});
    if (code == ERROR_NONE)
        code = inference_start(inference);
    if (code == ERROR_NONE)
        code = comm_agree(inference->world, generate(inference, s, tokens, count, chunk));
    memory_free(tokens);
    return code;
}

int generate_run(struct comm *world, const struct generate_settings *settings, device_make *make_executor)
{
    int code = comm_agree(world, check_settings(settings));
    if (code != ERROR_NONE)
        return code;
    struct inference *inference = memory_allocate(sizeof *inference);
    code = inference_open(inference, world, settings->checkpoint, make_executor);
    if (code == ERROR_NONE)
        code = comm_agree(world, check_family(inference));
    if (code == ERROR_NONE)
        code = start_and_generate(inference, settings);
    inference_close(inference);
    memory_free(inference);
    return code;
}
