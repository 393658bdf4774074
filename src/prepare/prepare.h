/* cistron prepare: converts files of records (records/record_reader.h) to a token store or Megatron data set, or to one
 * for each part of a split. Memory grows by 16 to 64 bytes a record, and with regions to the longest record. Does not
 * need MPI. */
#ifndef PREPARE_PREPARE_H
#define PREPARE_PREPARE_H

#include <stdbool.h>
#include <stdint.h>

struct prepare_settings {
    const char *tokenizer;    /* name, file or folder (tokenizer/tokenizer.h) */
    const char *format;       /* NULL: a token store; "megatron": a Megatron data set */
    bool append_eod;          /* Megatron: append the end token to each record */
    const char *output;       /* OUT.h5; with a split OUT.<part>.h5 per part; Megatron: a prefix, without .h5 */
    bool replace;             /* replace existing outputs */
    const char *split;        /* "train:0.95,valid:0.05" or NULL */
    const char *split_column; /* field that says train, valid or test of each record (prepare/split.h), or NULL */
    const char *clusters;     /* file of clusters that the split keeps together (prepare/clusters.h); NULL: none */
    bool drop_duplicates;     /* drop records whose sequence an earlier one has */
    uint64_t seed;            /* seed of the split; 42 unless the user sets it */
    const char *input_format; /* format of all inputs; NULL: detected for each file */
    const char *field;        /* as in struct record_settings (records/record_class.h) */
    double min_quality;       /* FASTQ: as in struct record_settings */
    const char *regions;      /* BED file of the regions that are taken as records (prepare/regions.h), or NULL */
    const char *feature;      /* GenBank, EMBL: as in struct record_settings */
    bool skip_bad;            /* drop records whose field is missing or null, and count them */
    const char *letter_case;  /* as in census_start (prepare/census.h), or NULL */
    const char *labels;       /* fields with labels (prepare/labels.h), or NULL; with label_kind and classes */
    const char *label_kind, *classes;
    int64_t threads;           /* threads that encode text; 0: one per CPU of this process */
    const char *const *inputs; /* [input_count] files, folders, patterns (prepare/inputs.h); "-" is standard input */
    int64_t input_count;
};

/* Runs cistron prepare. Shows progress on standard error if it is a terminal; prints counts and checksums on standard
 * output at the end.
 *
 * Records are named by their format; a piece of a record is named name:first-last (tokens from 1). With a protein
 * tokenizer, one '*' at the end of a record is dropped. Characters without a token become unk. Unknown characters,
 * lower-case letters and dropped stop symbols are reported (prepare/census.h). Each text is encoded as a whole; a store
 * does not depend on the number of threads.
 *
 * Outputs appear when all are complete, and replace older ones atomically. A failed or interrupted run leaves only the
 * folder of the output, which is made if missing. Warns of files without records.
 *
 * With labels, records have at most 16 bytes more, and token labels a byte a token.
 *
 * ERROR_USER: as in inputs.h, labels.h, record_reader.h, source.h, split.h, tokenizer.h and encoding.h; an output that
 * is also an input; no sequence or no record at all. */
int prepare_run(const struct prepare_settings *given);

#endif
