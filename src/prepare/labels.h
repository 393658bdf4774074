/* Labels of the records of cistron prepare --labels: read as texts, kept in memory in the order of records (4 bytes for
 * a class or a number, a byte for each token), and written to token stores (data/token_store.h).
 *
 *    class    one field. Its values are the classes: whole numbers from 0 stand for themselves; other names are
 * numbered in alphabetical order, unless given number   one field or more, each with a number token    one field, with
 * a character for each token of the record, which is its class; '?' is none
 */
#ifndef PREPARE_LABELS_H
#define PREPARE_LABELS_H

#include "prepare/token_store_writer.h"

#include <stdbool.h>

struct record_labels;

/* Limits of the number of classes. */
enum { LABEL_CLASSES = 32767 };

/* fields: comma-separated names of fields; kind: a name of store_labels, NULL: class; classes: comma-separated names of
 * all classes in order, NULL: those that the records have. *labels needs labels_destroy also after an error.
 * ERROR_USER: an unknown kind, too many or repeated names. */
int labels_create(struct record_labels **labels, const char *fields, const char *kind, const char *classes);
void labels_destroy(struct record_labels *labels);

/* The names of the fields, for struct record_settings. */
const char *const *labels_fields(const struct record_labels *labels, int *count);

/* Begins a record: forgets texts that labels_add has added. */
void labels_begin(struct record_labels *labels);
/* Adds the text of the record's next field. */
void labels_add(struct record_labels *labels, const char *text, int64_t length);
/* Keeps the labels of the record, which has `tokens` tokens. Without a label, *missing is set and nothing is kept.
 * ERROR_USER names the record: not a number, an unknown class, not a character for each token. */
int labels_keep(struct record_labels *labels, const char *name, int64_t tokens, bool *missing);
/* Returns the name of the first field that the record lacks. */
const char *labels_lacking(const struct record_labels *labels);

/* Numbers the classes, after the last record. ERROR_USER: a class with too large a number. */
int labels_finish(struct record_labels *labels);
/* Returns what a store says of its labels, valid as long as the labels. */
struct store_labels labels_of_store(const struct record_labels *labels);
/* Writes the labels of record number `record`, from 0, to a token store. ERROR_ENVIRONMENT. */
int labels_write(const struct record_labels *labels, int64_t record, struct store_writer *writer);

#endif
