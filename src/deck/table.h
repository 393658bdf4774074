/* Private to src/deck and its test: the table of keys, and functions on one row. */
#ifndef DECK_TABLE_H
#define DECK_TABLE_H

#include "deck/fields.h"

#include <locale.h>
#include <stddef.h>

enum deck_type { DECK_TYPE_BOOL, DECK_TYPE_INT, DECK_TYPE_REAL, DECK_TYPE_STRING, DECK_TYPE_CHOICE };

/* The places at which "~" means the home folder: none, the start of the string, or the start of each item of a
 * comma-separated list. */
enum deck_paths { DECK_PATHS_NONE, DECK_PATHS_ONE, DECK_PATHS_LIST };

/* Whether a restart may change a key. Every row has one of these; deck_restarts has the explanations. */
enum deck_restart {
    RESTART_UNSAID,
    RESTART_FREE,
    RESTART_LOGGED,
    RESTART_TENSORS, /* this and all following values refuse a change, with a reason */
    RESTART_MODEL,
    RESTART_START,
    RESTART_LABELS,
    RESTART_DATA,
    RESTARTS
};

struct deck_row {
    const char *key; /* sections and name: "model.rope_scaling.factor"; rows of a section are adjacent */
    enum deck_type type;
    size_t offset;         /* offset of the field in struct deck: bool, int64_t, double, char[DECK_STRING] or int */
    double number;         /* default of a bool (0 or 1), an int, a real, or a choice (its index) */
    const char *string;    /* default of a string */
    enum deck_paths paths; /* paths in a string */
    /* Bounds of an int or a real, or of the bytes of a string. Ints stay within 2^53, so a double is exact. */
    double minimum, maximum;
    bool above_minimum, below_maximum; /* the bound itself is not allowed */
    const char *const *choices;        /* names ended by NULL, in the order of their enum */
    const char *unit;                  /* NULL: no unit */
    enum deck_restart restart;
    const char *doc; /* whole sentences */
    const char *was; /* name of the key in release 0.2, accepted with a note until 0.4; NULL: the same */
};

extern const struct deck_row deck_table[];
extern const int deck_table_rows;
extern const char *const deck_restarts[RESTARTS]; /* effect of a change, or why it is refused */

/* A value read from a file or the command line, before it is stored in a deck. */
enum deck_value_kind {
    DECK_VALUE_BOOL,
    DECK_VALUE_INTEGER,
    DECK_VALUE_REAL,
    DECK_VALUE_STRING,
    DECK_VALUE_OTHER /* fits no row: a list, or text that is not of the row's type */
};
struct deck_value {
    enum deck_value_kind kind;
    bool truth;
    long long integer;
    double real;
    const char *string; /* borrowed */
};

/* Returns the row of a key, by its current or its old name (row->was); NULL for an unknown key. */
const struct deck_row *deck_find(const char *key);
/* Returns whether this is the name of a section ("model", "model.rope_scaling"). */
bool deck_is_section(const char *name);
/* Returns the known key (section = true: section name) nearest to a wrong one, by the edit distance of the whole key or
 * of its last part; NULL if none is near. Freed with free(). */
char *deck_nearest(const char *wrong, bool section);

/* Other programs' names for keys, in lower case; ended by {NULL, NULL}. */
struct deck_other_name {
    const char *name, *key;
};
extern const struct deck_other_name deck_other_names[];
/* Returns the key for which the last part of a wrong key is another program's name; NULL if it is none. */
const char *deck_find_other(const char *wrong);

/* Returns the first variable of a path that the environment lacks (path_expand), NULL if there is none. Freed with
 * free(). */
char *deck_unset_variable(const struct deck_row *row, const struct deck_value *value);
/* Stores a value, with paths expanded, and marks the key as given. Returns false, and changes nothing, if type or range
 * are wrong. */
bool deck_set(struct deck *deck, const struct deck_row *row, const struct deck_value *value);

/* Returns the allowed values of a row, to follow "must be": "an integer from 1 to 64". Freed with free(). */
char *deck_row_allowed(const struct deck_row *row);
/* Returns the row's value in deck syntax; reals as written by deck_real, paths by path_literal. Freed with free(). */
char *deck_row_value(const struct deck_row *row, const struct deck *deck);
/* Returns a string in quotes, escaped for libconfig. Freed with free(). */
char *deck_quote(const char *string);
/* Returns a real with as many digits as libconfig needs to read the same value, as a real. Freed with free(). */
char *deck_real(double value);

/* Between these two calls, numbers are read and written with a decimal point, whatever the user's locale. */
locale_t deck_locale_enter(void);
void deck_locale_leave(locale_t previous);

#endif
