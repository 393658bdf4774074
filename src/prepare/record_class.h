/* A format of records: how a file of it is read. */
#ifndef PREPARE_RECORD_CLASS_H
#define PREPARE_RECORD_CLASS_H

#include "prepare/record.h"

struct source;

struct record_settings {
    const char *format; /* name of a class; NULL: told by the file's name and content (prepare/record_reader.h) */
    const char *field;  /* of JSON lines and Parquet, that holds a record's sequence */
    enum record_content content;
    bool lines; /* plain text, by the file's name or content, is a record a line */
};

struct record_class {
    const char *name; /* as --input-format gives it */
    /* Borrows the source, of which nothing has been read, and the settings' strings. *reader needs `destroy` even if
     * this fails. */
    int (*create)(void **reader, struct source *source, const struct record_settings *settings);
    /* The next piece: a name opens a record, any number of sequence pieces follow. */
    int (*next)(void *reader, struct record_piece *piece);
    void (*destroy)(void *reader); /* takes NULL */
};

#endif
