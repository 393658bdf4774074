/* Reads prompts as tokens: a given text, or the records of a file (records/record_reader.h; each line of plain text is
 * a prompt). All are read before anything is computed, so that the longest is known; memory grows with them. */
#ifndef INFER_PROMPTS_H
#define INFER_PROMPTS_H

#include "prepare/census.h"

struct prompts_settings {
    const char *given;                        /* a text; used if input is NULL */
    const char *input, *input_format, *field; /* path, as for source_open; others as in struct record_settings */
    bool skip_bad;                            /* skip and count records whose field is missing or null */
    const char *letter_case;                  /* see prepare/census.h; may be NULL */
    const struct tokenizer *tokenizer;
    bool begins; /* put the begin token before each prompt */
};

struct prompt {
    char *name;           /* "prompt" for a given text */
    int64_t text, bytes;  /* its text: offset in prompts.text and length */
    int64_t first, count; /* its tokens, begin token included: offset in prompts.tokens and number */
};

struct prompts {
    struct prompt *list; /* [count] */
    int64_t count, longest /* tokens */;
    char *text;
    int32_t *tokens;
    int64_t skipped;
    int64_t text_bytes, text_capacity, token_count, token_capacity, capacity;
    int64_t with_begin_token; /* text prompts that spell out the begin token, which is not doubled */
    struct text_census census;
};

/* Reads the prompts; call prompts_destroy also after an error. Local. ERROR_USER: the file is missing or has no
 * records, there are no prompts, a prompt is empty and has no begin token, or an error of census_start,
 * record_reader_next or encoder_encode. */
int prompts_read(struct prompts *prompts, const struct prompts_settings *settings);
void prompts_destroy(struct prompts *prompts);

#endif
