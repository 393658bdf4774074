/* The records of a file for inference on whole records: BOS, the sequence or text, and EOS for masked models. They are
 * read once into temporary files next to the output (file/spool.h), so the longest is known before anything is
 * computed, the input may be standard input, and memory does not grow with the number of records. */
#ifndef INFER_SEQUENCES_H
#define INFER_SEQUENCES_H

#include "prepare/census.h"
#include "file/spool.h"

#include <stdbool.h>

struct sequences_settings {
    const char *path;                 /* as for source_open */
    const char *input_format, *field; /* as in struct record_settings, or NULL: FASTA unless the file is another */
    bool skip_bad;                    /* skip and count records whose field is missing or null */
    const char *output;               /* next to which the temporary files are made */
    const struct tokenizer *tokenizer;
    bool begin, end;         /* add BOS before each record, EOS after it */
    const char *letter_case; /* see prepare/census.h; may be NULL */
    int64_t most;            /* maximum tokens per record, with special tokens; 0 = no limit */
};

struct record_sequences {
    struct sequences_settings settings;
    struct spool *spool; /* tokens, int32_t, special tokens included */
    int64_t tokens;      /* tokens of all records */
    int64_t pairs;       /* sum over the records of the square of their tokens without special ones */
    int64_t longest;     /* tokens of the longest record */
    char *longest_name;  /* its name */
    int64_t name_bytes;  /* bytes of the longest name */
    int64_t skipped;
    int64_t truncated, empty; /* truncated records, and records without other tokens than special ones */
    int64_t stops;            /* symbols '*' dropped at the ends of protein records */
    struct text_census census;
};

/* Reads the whole file; call sequences_destroy also after an error. Local. Errors as in census_start, source_open,
 * record_reader_next, encoder_encode and spool_create; ERROR_USER: a record without any token. */
int sequences_read(struct record_sequences *sequences, const struct sequences_settings *settings);
void sequences_destroy(struct record_sequences *sequences);

#endif
