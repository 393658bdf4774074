/* The records of a FASTA file for inference over whole records: BOS, the sequence, and for masked models EOS. They are
 * read once into temporary files beside the output (file/spool.h). So the longest is known before anything is
 * computed, input may be standard input, and memory does not grow with the number of records. */
#ifndef INFER_SEQUENCES_H
#define INFER_SEQUENCES_H

#include "prepare/census.h"
#include "file/spool.h"

#include <stdbool.h>

struct sequences_settings {
    const char *fasta;  /* path, as source_open takes it */
    const char *beside; /* the output */
    const struct tokenizer *tokenizer;
    bool end;                /* EOS behind each */
    const char *letter_case; /* of prepare/census.h; NULL */
    int64_t most; /* tokens of one, specials included: what is beyond is left out, before EOS; 0 = no limit */
};

struct record_sequences {
    struct sequences_settings settings;
    struct spool *spool;      /* records of tokens, one byte each, specials included */
    int64_t tokens;           /* of all records */
    int64_t longest;          /* tokens */
    char *longest_name;       /* of that record */
    int64_t name_bytes;       /* of the longest name */
    int64_t truncated, empty; /* records cut short; without residues */
    int64_t stops;            /* symbols '*' dropped at ends of protein records */
    struct text_census census;
};

/* Reads the file to its end. Local; sequences_destroy in any case. Errors: those of census_start, source_open,
 * record_reader_next and spool_create. */
int sequences_read(struct record_sequences *sequences, const struct sequences_settings *settings);
void sequences_destroy(struct record_sequences *sequences);

#endif
