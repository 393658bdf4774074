/* A format of records: how a file of it is read. */
#ifndef RECORDS_RECORD_CLASS_H
#define RECORDS_RECORD_CLASS_H

#include "records/record.h"

struct record_source;

struct record_settings {
    const char *format; /* name of a class; NULL: told by the file's name and content (records/record_reader.h) */
    const char *field;  /* that holds a record's sequence, of formats that have fields; NULL: "text" */
    enum record_content content;
    bool lines;        /* plain text, by the file's name or content, is a record a line */
    bool may_be_empty; /* a file without a record is not an error */
    int64_t *skipped;  /* counts records whose field is missing or null, which are left out; NULL: they are errors */
};

struct record_class {
    const char *name; /* as --input-format gives it */
    /* Borrows the source, of which nothing has been read but a byte order mark, and what the settings point to, whose
     * field is not NULL. *reader needs `destroy` even if this fails. */
    int (*create)(void **reader, struct record_source *source, const struct record_settings *settings);
    /* The next piece: a name opens a record, any number of sequence pieces follow. A file may have no record. */
    int (*next)(void *reader, struct record_piece *piece);
    void (*destroy)(void *reader); /* takes NULL */
};

#endif
