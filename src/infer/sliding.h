/* Splits the records of a file (records/record_reader.h) into the windows in which they are scored. Causal models:
 * windows of at most `context` tokens; each but a record's first begins with the last `overlap` tokens of the previous
 * one, which are its context and are not scored again. So every token but the record's first is scored once, in the
 * first window that has it. Masked models: windows without overlap, each with BOS and EOS, as in training; or one
 * window for each token, for the token's probability given all others. */
#ifndef INFER_SLIDING_H
#define INFER_SLIDING_H

#include "prepare/census.h"

struct sliding_settings {
    const char *input;                /* path, as for source_open */
    const char *input_format, *field; /* as in struct record_settings */
    bool skip_bad;                    /* skip and count records whose field is missing or null */
    const struct tokenizer *tokenizer;
    int64_t context;         /* tokens per window, special tokens included; at least 2, with `ends` 3 */
    int64_t overlap;         /* tokens; 1 <= overlap < context; with `ends` 0 */
    bool ends;               /* put BOS and EOS around each window */
    bool each;               /* with `ends`: a window for each token, the one whose middle is nearest (site_window) */
    bool bos;                /* without `ends`: BOS is the first token of each record; no EOS */
    bool both_strands;       /* bases: the windows of a record are followed by those of its reverse complement */
    const char *letter_case; /* see prepare/census.h; may be NULL */
};

struct sliding_window {
    int64_t record;        /* number of the record in the file, from 0 */
    const int32_t *tokens; /* [count], valid until the next call */
    int64_t count;         /* 0 = the file has no more windows */
    int64_t scored;        /* first scored token of this window, at least 1; with `each` the only one */
    int64_t before;        /* tokens of the record's earlier windows; with `each` 0 */
};

struct sliding;

/* Opens the file. Errors as in census_start, source_open and record_reader_create. */
int sliding_open(struct sliding **sliding, const struct sliding_settings *settings);
/* Reads the next window. Errors as in record_reader_next, and for text as in encoder_encode. */
int sliding_next(struct sliding *sliding, struct sliding_window *window);
/* Number of records read so far; a record without tokens has no window. */
int64_t sliding_records(const struct sliding *sliding);
/* The first word of a record's header, and the number of its tokens so far, without those that `ends` adds. */
const char *sliding_name(const struct sliding *sliding, int64_t record);
int64_t sliding_length(const struct sliding *sliding, int64_t record);
/* For a text record: its bytes, without those of a first token that is not scored; and its words, one more than the
 * runs of blanks, as lm-eval counts them for word perplexity. Both are 0 for sequences. */
int64_t sliding_bytes(const struct sliding *sliding, int64_t record);
int64_t sliding_words(const struct sliding *sliding, int64_t record);
/* The census of the characters read so far, and the number of stop symbols '*' dropped at the ends of protein
 * records. */
const struct text_census *sliding_census(const struct sliding *sliding);
int64_t sliding_stops(const struct sliding *sliding);
/* Number of records skipped so far. */
int64_t sliding_skipped(const struct sliding *sliding);
/* sliding may be NULL. */
void sliding_close(struct sliding *sliding);

#endif
