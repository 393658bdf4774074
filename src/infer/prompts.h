/* What sequences begin with: a text that was given, or the records of a file (records/record_reader.h; a plain text has
 * a prompt on each line), as tokens. All are read before anything is computed, so the longest is known; memory grows
 * with them. */
#ifndef INFER_PROMPTS_H
#define INFER_PROMPTS_H

#include "prepare/census.h"

struct prompts_settings {
    const char *given;                        /* the text; used where input is NULL */
    const char *input, *input_format, *field; /* path, as source_open takes it; as struct record_settings has them */
    bool skip_bad;                            /* leave out records whose field is missing or null, and count them */
    const char *letter_case;                  /* of prepare/census.h; NULL */
    const struct tokenizer *tokenizer;
    bool begins; /* the begin token stands before each */
};

struct prompt {
    char *name;           /* "prompt" of the text that was given */
    int64_t text, bytes;  /* in prompts.text: of which it was made */
    int64_t first, count; /* in prompts.tokens: begin token and text */
};

struct prompts {
    struct prompt *list; /* [count] */
    int64_t count, longest /* tokens */;
    char *text;
    int32_t *tokens;
    int64_t skipped; /* records */
    int64_t text_bytes, text_room, token_count, token_room, room;
    int64_t begun; /* of text: prompts in which the begin token is written, so that none was put before them */
    struct text_census census;
};

/* Local; prompts_destroy in any case. ERROR_USER: no such file, none of records, none at all; one is empty and has no
 * begin token; errors of census_start, record_reader_next and encoder_encode. */
int prompts_read(struct prompts *prompts, const struct prompts_settings *settings);
void prompts_destroy(struct prompts *prompts);

#endif
