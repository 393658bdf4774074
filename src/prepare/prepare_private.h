/* Declarations shared by the files of `cistron prepare`, and the state of a run:
 *
 *     prepare.c          the steps of a run
 *     prepare_options.c  options and the files that they name
 *     prepare_read.c     input files, record by record
 *     prepare_record.c   a record: encoded, with its labels and its part of the split, into the spool
 *     prepare_write.c    outputs: their names, and the records of the spool in them
 *     prepare_report.c   what is reported at the end */
#ifndef PREPARE_PREPARE_PRIVATE_H
#define PREPARE_PREPARE_PRIVATE_H

#include "base/progress.h"
#include "file/spool.h"
#include "prepare/census.h"
#include "prepare/duplicates.h"
#include "prepare/encoding.h"
#include "prepare/labels.h"
#include "prepare/prepare.h"
#include "prepare/regions.h"
#include "prepare/repeats.h"
#include "prepare/split.h"
#include "prepare/store_writer.h"
#include "records/record.h"

#include <stdbool.h>
#include <stdint.h>

enum { PREPARE_COPY = 1 << 20 /* bytes that are encoded or copied at once */ };

/* An output and its size. */
struct prepare_output {
    char *path;
    int64_t sequences, tokens, name_bytes;
    uint64_t checksum;
    struct store_writer *writer;
};

/* A record of which regions are taken. */
struct prepare_whole {
    char *letters; /* [capacity] */
    int64_t length, capacity;
};

struct prepare_run {
    const struct prepare_settings *settings;
    const struct tokenizer *tokenizer;
    bool megatron; /* write a Megatron data set */
    struct data_split split;
    struct spool *spool;
    struct progress_line progress;
    double start;       /* clock_seconds() before the first file */
    int64_t bytes_read; /* of the files that were read completely */
    char **sources;     /* [source_count]: "checksum path" */
    int64_t source_count;
    int64_t empty_records, skipped_records, low_quality, equal_records,
        loose_records;         /* equal to an earlier one; in no cluster */
    int64_t empty_files;       /* number of files without records */
    char *first_empty_file;    /* name of the first one, freed with free() */
    int64_t text_bytes;        /* bytes of encoded text */
    struct encoding *encoding; /* for text tokenizers; else NULL */
    int64_t token_bytes;
    uint8_t *ids;    /* [PREPARE_COPY] */
    char *name;      /* name of the current record; NULL before the first */
    char *last_name; /* with clusters: name of a record, for a message */
    int64_t length;
    struct record_stops stops; /* for proteins */
    struct text_census census;
    struct repeats *repeats; /* with a split; else NULL */
    struct duplicates *duplicates;
    int fields;     /* number of fields of the current record so far: labels, then the split's column */
    uint8_t *parts; /* --split-column: [part_count] parts of the records that were read */
    int64_t part_count, part_capacity, part_next; /* part_next: of the next record that ends */
    int part;                                     /* of the record that ends */
    struct record_labels *labels;                 /* NULL: none */
    int64_t unlabelled_records;                   /* dropped because they have no label */
    struct clusters *clusters;                    /* NULL: none */
    struct bed_regions regions;                   /* empty: whole records are taken */
    struct prepare_whole whole;
    int64_t regions_taken;
    struct prepare_output outputs[SPLIT_PARTS];
};

/* Checks the options and opens the tokenizer, the split, and the files of clusters and regions. ERROR_USER: an option
 * is out of range, or does not go with another one; errors of the files. */
int prepare_options(struct prepare_run *prepare);

/* Makes and checks the outputs' paths; for Megatron data sets, prefixes. Makes their folder. */
int prepare_name_outputs(struct prepare_run *prepare);

/* Reads all inputs into the spool. ERROR_USER: errors of the files; no record has a sequence, a region or a cluster. */
int prepare_read(struct prepare_run *prepare);

/* Encodes letters of the current record: of bases, or residues, whose last '*' is dropped. */
int prepare_append(struct prepare_run *prepare, const char *text, int64_t length);
int prepare_append_residues(struct prepare_run *prepare, struct record_piece *piece);
/* Keeps letters of the current record, of which regions are taken at its end. */
int prepare_gather(struct prepare_run *prepare, const char *text, int64_t length);
/* Ends the current record of letters, if there is one. */
int prepare_end_record(struct prepare_run *prepare);
/* Stores an encoded record of text (encoding_take). */
int prepare_take_text(void *self, const char *name, const void *ids, int64_t count);

/* Writes the records of the spool to the outputs. */
int prepare_write(struct prepare_run *prepare);

/* Logs counts and checksums. */
void prepare_report(const struct prepare_run *prepare);

#endif
