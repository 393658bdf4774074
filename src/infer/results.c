#include "infer/results.h"
#include "base/error.h"
#include "base/memory.h"
#include "file/jsontext.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 80 /* characters per line of FASTA */ };

static bool ends_with(const char *path, const char *ending)
{
    const size_t bytes = strlen(path), end = strlen(ending);
    return bytes >= end && strcmp(path + bytes - end, ending) == 0;
}

static bool is_one_of(const char *path, const char *const *endings)
{
    for (; *endings != NULL; endings++)
        if (path != NULL && ends_with(path, *endings))
            return true;
    return false;
}

int results_choose(enum results_format *format, const char *name, const char *path, const struct tokenizer *tokenizer)
{
    static const char *const fasta[] = {".fasta", ".fa", ".fna", ".faa", NULL};
    static const char *const jsonl[] = {".jsonl", ".ndjson", NULL};
    static const char *const compressed[] = {".gz", ".zst", NULL};
    const bool text = tokenizer_is_text(tokenizer);
    *format = text ? RESULTS_JSONL : RESULTS_FASTA;
    if (name != NULL && strcmp(name, "fasta") != 0 && strcmp(name, "jsonl") != 0)
        return error_user("--output-format %s: must be fasta or jsonl", name);
    if (is_one_of(path, compressed))
        return error_user("--output %s: results are not compressed; choose a name without this ending", path);
    if (name != NULL ? strcmp(name, "fasta") == 0 : is_one_of(path, fasta))
        *format = RESULTS_FASTA;
    if (name != NULL ? strcmp(name, "jsonl") == 0 : is_one_of(path, jsonl))
        *format = RESULTS_JSONL;
    if (*format == RESULTS_FASTA && text)
        return error_user("%s %s: FASTA is for bases and residues only; use jsonl for a model of text",
                          name != NULL ? "--output-format" : "--output", name != NULL ? name : path);
    return ERROR_NONE;
}

void results_put_token(struct text_stream *stream, const struct tokenizer *tokenizer, int32_t token, bool first)
{
    int64_t count;
    const char *bytes =
        first ? tokenizer_decode_first(tokenizer, token, &count) : tokenizer_decode(tokenizer, token, &count);
    const bool printable = count == 1 && *bytes >= ' ' && *bytes <= '~';
    if (tokenizer_is_text(tokenizer))
        text_stream_put(stream, bytes, count);
    else
        text_stream_put(stream, printable ? bytes : "?", 1);
}

/* Freed with free(). */
static char *text_of(const struct generate_result *result, const struct tokenizer *tokenizer, size_t *bytes)
{
    char *text;
    struct text_stream stream = {.out = memory_stream(&text, bytes)};
    for (int64_t t = 0; t < result->count; t++)
        results_put_token(&stream, tokenizer, result->tokens[t], t == 0 && result->prompt_bytes == 0);
    text_stream_end(&stream);
    memory_stream_end(stream.out);
    return text;
}

/* The sequence of a FASTA record that is being written. */
struct fasta_record {
    FILE *out;
    int64_t column, replaced;
};

/* Writes a character of `count` bytes. '>' would begin another record, and ';' a comment. */
static void put_character(struct fasta_record *fasta, const char *character, int64_t count)
{
    const bool stands = count == 1 && *character > ' ' && *character <= '~' && strchr(">;", *character) == NULL;
    if (fasta->column == LINE) {
        fputc('\n', fasta->out);
        fasta->column = 0;
    }
    fputc(stands ? *character : '?', fasta->out);
    fasta->column++;
    fasta->replaced += !stands;
}

static int64_t write_fasta(FILE *out, const struct generate_result *r, const struct tokenizer *tokenizer)
{
    struct fasta_record fasta = {.out = out};
    fprintf(out, ">%s sample=%lld prompt=%lld tokens=%lld log_probability=%.6f end=%s\n", r->name, (long long)r->sample,
            (long long)r->prompt_bytes, (long long)r->count, r->log_probability, r->ended ? "token" : "length");
    for (int64_t i = 0; i < r->prompt_bytes; i++)
        put_character(&fasta, r->prompt + i, 1);
    for (int64_t t = 0; t < r->count; t++) {
        int64_t count;
        const char *character = tokenizer_decode(tokenizer, r->tokens[t], &count);
        put_character(&fasta, character, count);
    }
    fputc('\n', out);
    return fasta.replaced;
}

/* Returns a JSON number, or null: JSON has neither infinity nor NaN. */
static json_t *real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static void write_json(FILE *out, const struct generate_result *r, const struct tokenizer *tokenizer)
{
    size_t bytes;
    char *text = text_of(r, tokenizer, &bytes);
    json_t *object = json_object();
    json_object_set_new(object, "record", jsontext_create(r->name, (int64_t)strlen(r->name)));
    json_object_set_new(object, "sample", json_integer(r->sample));
    json_object_set_new(object, "prompt", jsontext_create(r->prompt, r->prompt_bytes));
    json_object_set_new(object, "text", jsontext_create(text, (int64_t)bytes));
    json_object_set_new(object, "tokens", json_integer(r->count));
    json_object_set_new(object, "log_probability", real(r->log_probability));
    json_object_set_new(object, "end", json_string(r->ended ? "token" : "length"));
    json_dumpf(object, out, JSON_COMPACT | JSON_REAL_PRECISION(10));
    fputc('\n', out);
    json_decref(object);
    free(text);
}

int64_t results_write(FILE *out, enum results_format format, const struct tokenizer *tokenizer,
                      const struct generate_result *result)
{
    if (format == RESULTS_FASTA)
        return write_fasta(out, result, tokenizer);
    write_json(out, result, tokenizer);
    return 0;
}
