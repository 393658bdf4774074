/* Interface of readers of record formats. */
#ifndef RECORDS_RECORD_CLASS_H
#define RECORDS_RECORD_CLASS_H

#include "records/record.h"

struct record_source;

struct record_settings {
    const char *format; /* name of a class; NULL: detected from the file's name and content (records/record_reader.h) */
    const char *field;  /* name of the field with a record's sequence, in formats with fields; NULL: "text" */
    enum record_content content;
    bool lines;                /* each line of plain text (by the file's name or content) is a record */
    bool may_be_empty;         /* a file without records is not an error */
    double min_quality;        /* FASTQ: Phred quality below which a read is dropped (records/fastq.h); 0: none is */
    int64_t *low_quality;      /* counts these; may be NULL */
    const char *feature;       /* GenBank, EMBL: records are features with this key (records/flat.h); NULL: entries */
    const char *const *labels; /* [label_count], at most RECORD_LABELS: columns of tables, members of JSON objects, keys
                                  of a FASTA header (records/fasta.h) */
    int label_count;
    int64_t *skipped; /* counts records dropped because their field is missing or null; NULL: these are errors */
};

struct record_class {
    const char *name; /* value of --input-format */
    /* Makes a reader. Borrows the source, of which at most a byte order mark was consumed, and everything that settings
     * points to; settings->field is not NULL. *reader needs `destroy` even after an error. */
    int (*create)(void **reader, struct record_source *source, const struct record_settings *settings);
    /* Returns the next piece: a name begins a record, any number of sequence pieces follow. A file may have no
     * record. */
    int (*next)(void *reader, struct record_piece *piece);
    void (*destroy)(void *reader); /* accepts NULL */
    bool labelled;                 /* returns labels */
};

#endif
