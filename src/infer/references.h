/* The records of a FASTA file in memory, as tokens: the sequences to which variants refer. */
#ifndef INFER_REFERENCES_H
#define INFER_REFERENCES_H

#include "prepare/census.h"

struct reference_record {
    char *name;
    int64_t first, length; /* its letters: offset in references.ids, and number */
};

struct reference_list {
    char *path;
    struct reference_record *list; /* [count] */
    int64_t count, longest;        /* longest: letters */
    int64_t *by_name;              /* [count] indices in the order of the names */
    uint8_t *ids;                  /* tokens of all letters, without special tokens */
    int64_t letters;
    int64_t stops;             /* symbols '*' dropped at the ends of protein records */
    struct text_census census; /* its id_of maps characters as the records' characters are mapped */
};

/* Reads the whole file; call references_destroy also after an error. letter_case: see prepare/census.h; may be NULL.
 * Local. ERROR_USER: errors of census_start, source_open and record_reader_next, or two records of one name. */
int references_read(struct reference_list *references, const char *path, const struct tokenizer *tokenizer,
                    const char *letter_case);
/* Returns the index of the record with this name; -1: none. */
int64_t references_find(const struct reference_list *references, const char *name);
/* Returns the letters' tokens of a record. */
const uint8_t *reference_ids(const struct reference_list *references, int64_t record);
void references_destroy(struct reference_list *references);

#endif
