#include "infer/prompts.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/range.h"
#include "base/text.h"
#include "prepare/encoding.h"
#include "records/record_reader.h"
#include "records/source.h"

#include <stdlib.h>
#include <string.h>

struct prompts_reading {
    struct prompts *prompts;
    const struct prompts_settings *settings;
    struct encoder *encoder;
    bool open; /* the last prompt of the list is being read */
};

/* -- Growing ------------------------------------------------------------------------------------------------------ */

static void *grow(void *array, int64_t *capacity, int64_t wanted, size_t size)
{
    if (wanted <= *capacity)
        return array;
    *capacity = 2 * wanted;
    return memory_grow(array, *capacity * (int64_t)size);
}

static void add_text(struct prompts *p, const char *text, int64_t bytes)
{
    p->text = grow(p->text, &p->text_capacity, p->text_bytes + bytes, 1);
    if (bytes > 0) /* the arrays may not exist yet */
        memcpy(p->text + p->text_bytes, text, (size_t)bytes);
    p->text_bytes += bytes;
    p->list[p->count - 1].bytes += bytes;
}

static void add_token(struct prompts *p, int32_t token)
{
    p->tokens = grow(p->tokens, &p->token_capacity, p->token_count + 1, sizeof *p->tokens);
    p->tokens[p->token_count++] = token;
    p->list[p->count - 1].count++;
}

/* -- A prompt ----------------------------------------------------------------------------------------------------- */

static void start_prompt(struct prompts_reading *r, const char *name, int64_t length)
{
    struct prompts *p = r->prompts;
    p->list = grow(p->list, &p->capacity, p->count + 1, sizeof *p->list);
    p->list[p->count++] = (struct prompt){
        .name = memory_format("%.*s", (int)length, name), .text = p->text_bytes, .first = p->token_count};
    r->open = true;
    if (r->settings->begins)
        add_token(p, r->settings->tokenizer->bos);
}

static void encode_characters(struct prompts_reading *r, const struct prompt *prompt)
{
    struct prompts *p = r->prompts;
    const int64_t bytes = prompt->bytes;
    uint8_t *ids = memory_allocate(bytes + 1);
    census_encode(&p->census, p->text + prompt->text, bytes, ids);
    for (int64_t t = 0; t < bytes; t++)
        add_token(p, ids[t]);
    census_end_record(&p->census, r->settings->input != NULL ? prompt->name : "the prompt");
    memory_free(ids);
}

/* Encodes a text, in which special tokens may be spelled out. A begin token at its start is dropped, since one was
 * added already. */
static int encode_text(struct prompts_reading *r, const struct prompt *prompt)
{
    const int32_t *ids;
    int64_t count = 0;
    int code = encoding_check_record(prompt->name, prompt->bytes);
    if (code == ERROR_NONE)
        code = encoding_of_record(
            encoder_encode(r->encoder, r->prompts->text + prompt->text, prompt->bytes, true, &ids, &count),
            prompt->name);
    const bool begun = count > 0 && r->settings->begins && ids[0] == r->settings->tokenizer->bos;
    census_take_specials(&r->prompts->census, r->encoder);
    r->prompts->with_begin_token += begun;
    for (int64_t t = begun; code == ERROR_NONE && t < count; t++)
        add_token(r->prompts, ids[t]);
    return code;
}

static int refuse_empty(const struct prompts_reading *r, const char *name)
{
    if (r->settings->input == NULL)
        return error_user("--prompt \"\": the model has no begin token, so a prompt cannot be empty");
    return error_user("%s: record %s is empty; the model has no begin token, so a prompt cannot be empty",
                      r->settings->input, text_short((char[TEXT_SHORT]){0}, name));
}

static int end_prompt(struct prompts_reading *r)
{
    struct prompts *p = r->prompts;
    if (!r->open)
        return ERROR_NONE;
    r->open = false;
    const struct prompt prompt = p->list[p->count - 1];
    int code = ERROR_NONE;
    if (r->encoder != NULL)
        code = encode_text(r, &prompt);
    else
        encode_characters(r, &prompt);
    const int64_t count = p->list[p->count - 1].count;
    if (code == ERROR_NONE && count == 0)
        code = refuse_empty(r, prompt.name);
    p->longest = MAX(count, p->longest);
    return code;
}

/* -- Records ------------------------------------------------------------------------------------------------------ */

static int take_piece(struct prompts_reading *r, const struct record_piece *piece)
{
    if (piece->kind == RECORD_SEQUENCE) {
        add_text(r->prompts, piece->text, piece->length);
        return ERROR_NONE;
    }
    const int code = end_prompt(r);
    if (code == ERROR_NONE && piece->kind == RECORD_NAME)
        start_prompt(r, piece->text, piece->length);
    return code;
}

static int read_file(struct prompts_reading *r)
{
    const struct prompts_settings *s = r->settings;
    const struct record_settings how = {.format = s->input_format,
                                        .field = s->field,
                                        .content = r->encoder != NULL ? RECORD_BYTES : RECORD_CHARACTERS,
                                        .lines = true,
                                        .skipped = s->skip_bad ? &r->prompts->skipped : NULL};
    struct record_source *source;
    struct record_reader *reader = NULL;
    struct record_piece piece = {.kind = RECORD_NAME};
    int code = source_open(&source, s->input);
    if (code != ERROR_NONE)
        return code;
    code = record_reader_create(&reader, source, &how);
    while (code == ERROR_NONE && piece.kind != RECORD_END) {
        code = record_reader_next(reader, &piece);
        if (code == ERROR_NONE)
            code = take_piece(r, &piece);
    }
    if (code == ERROR_NONE && r->prompts->count == 0)
        code = error_user("%s: has no prompt", source_name(source));
    record_reader_destroy(reader);
    source_close(source);
    return code;
}

/* Reads the given prompt. Characters are cleaned like a record's sequence; text stays as it is, line ends included. */
static int read_given(struct prompts_reading *r)
{
    char *text = memory_string(r->settings->given);
    int64_t length = (int64_t)strlen(text);
    unsigned char wrong;
    int code = ERROR_NONE;
    if (r->encoder == NULL && !record_clean(text, &length, &wrong))
        code = error_user("--prompt: contains byte 0x%02x, so it is not a sequence", (unsigned)wrong);
    start_prompt(r, "prompt", (int64_t)strlen("prompt"));
    add_text(r->prompts, text, length);
    free(text);
    return code == ERROR_NONE ? end_prompt(r) : code;
}

int prompts_read(struct prompts *prompts, const struct prompts_settings *settings)
{
    struct prompts_reading r = {.prompts = prompts, .settings = settings};
    *prompts = (struct prompts){0};
    int code = census_start(&prompts->census, settings->tokenizer, settings->letter_case);
    if (code != ERROR_NONE)
        return code;
    if (tokenizer_is_text(settings->tokenizer))
        r.encoder = encoder_open(settings->tokenizer);
    code = settings->input != NULL ? read_file(&r) : read_given(&r);
    encoder_close(r.encoder);
    return code;
}

void prompts_destroy(struct prompts *prompts)
{
    for (int64_t i = 0; i < prompts->count; i++)
        free(prompts->list[i].name);
    free(prompts->list);
    free(prompts->text);
    free(prompts->tokens);
    *prompts = (struct prompts){0};
}
