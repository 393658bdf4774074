/* The windows in which the records of a file (records/record_reader.h) are scored. For causal models a record's tokens
 * are cut into windows of at most `context`; each window but a record's first begins with the last `overlap` tokens of
 * the one before, which are its context and are not scored again. So every token but the record's first is scored once,
 * in the first window that has it. For masked models a record is cut into stretches that share nothing, each with BOS
 * and EOS around it, as in training. */
#ifndef INFER_SLIDING_H
#define INFER_SLIDING_H

#include "prepare/census.h"

struct sliding_settings {
    const char *input;                /* path, as source_open takes it */
    const char *input_format, *field; /* as struct record_settings has them */
    bool skip_bad;                    /* leave out records whose field is missing or null, and count them */
    const struct tokenizer *tokenizer;
    int64_t context;         /* tokens of a window, special tokens included; at least 2, with `ends` 3 */
    int64_t overlap;         /* tokens; 1 <= overlap < context; with `ends` 0 */
    bool ends;               /* BOS and EOS around each window */
    bool bos;                /* without `ends`: a BOS in front of each record, which is a token like others; no EOS */
    const char *letter_case; /* of prepare/census.h; NULL */
};

struct sliding_window {
    int64_t record;        /* counted from 0 in the file */
    const int32_t *tokens; /* [count], until the next call */
    int64_t count;         /* 0 = there are no more */
    int64_t scored;        /* the first token of this window to be scored, at least 1 */
    int64_t before;        /* tokens of the windows of the same record before this one */
};

struct sliding;

/* Errors are those of census_start, source_open and record_reader_create. */
int sliding_open(struct sliding **sliding, const struct sliding_settings *settings);
/* Errors of record_reader_next; of text those of encoder_encode, too. */
int sliding_next(struct sliding *sliding, struct sliding_window *window);
/* Records that have been met so far; a record without tokens has no window. */
int64_t sliding_records(const struct sliding *sliding);
/* The first word of a record's header, and its tokens so far; those that `ends` adds are not counted. */
const char *sliding_name(const struct sliding *sliding, int64_t record);
int64_t sliding_length(const struct sliding *sliding, int64_t record);
/* Of a record of text: its bytes, without those of a first token that is not scored; and its words, one more than
 * stretches of blanks, as lm-eval counts them for the perplexity of a word. 0 of sequences. */
int64_t sliding_bytes(const struct sliding *sliding, int64_t record);
int64_t sliding_words(const struct sliding *sliding, int64_t record);
/* The census of the characters read so far; the number of stop symbols '*' dropped at ends of protein records. */
const struct text_census *sliding_census(const struct sliding *sliding);
int64_t sliding_stops(const struct sliding *sliding);
/* The records left out so far. */
int64_t sliding_skipped(const struct sliding *sliding);
/* NULL is fine. */
void sliding_close(struct sliding *sliding);

#endif
