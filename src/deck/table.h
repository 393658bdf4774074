/* Private to src/deck and its test: the table of keys, and functions on one row. */
#ifndef DECK_TABLE_H
#define DECK_TABLE_H

#include "deck/fields.h"

#include <locale.h>
#include <stddef.h>

enum deck_type { DECK_TYPE_BOOL, DECK_TYPE_INT, DECK_TYPE_REAL, DECK_TYPE_STRING, DECK_TYPE_CHOICE };

/* Where "~" stands for the home folder: nowhere, at the start of the string, or at the start of each item of a list
 * separated by commas. */
enum deck_paths { DECK_PATHS_NONE, DECK_PATHS_ONE, DECK_PATHS_LIST };

/* What a restart may do with a key. Every row says it; deck_restarts has the words. */
enum deck_restart {
    RESTART_UNSAID,
    RESTART_FREE,
    RESTART_TOLD,
    RESTART_TENSORS, /* from here on: refused, with the reason */
    RESTART_MODEL,
    RESTART_START,
    RESTART_LABELS,
    RESTART_DATA,
    RESTARTS
};

struct deck_row {
    const char *key; /* sections and name: "model.rope_scaling.factor"; rows of a section are adjacent */
    enum deck_type type;
    size_t offset;         /* of the field in struct deck: bool, int64_t, double, char[DECK_STRING] or int */
    double number;         /* default of a bool (0 or 1), an int, a real, or a choice (its index) */
    const char *string;    /* default of a string */
    enum deck_paths paths; /* of a string */
    /* Of an int or a real: its value. Ints stay within 2^53, so a double is exact. Of a string: its length in bytes. */
    double minimum, maximum;
    bool above_minimum, below_maximum; /* the bound itself is not allowed */
    const char *const *choices;        /* names ended by NULL, in the order of their enum */
    const char *unit;                  /* NULL where there is none */
    enum deck_restart restart;
    const char *doc; /* whole sentences */
    const char *was; /* name of the key in release 0.2, accepted with a note until 0.4; NULL: the same */
};

extern const struct deck_row deck_table[];
extern const int deck_table_rows;
extern const char *const deck_restarts[RESTARTS]; /* what becomes of such a key; of those refused, why */

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

/* The row of a key, by its name or the name that it had (row->was); NULL for an unknown key. */
const struct deck_row *deck_find(const char *key);
/* Is this the name of a section ("model", "model.rope_scaling")? */
bool deck_is_section(const char *name);
/* The known key (section = true: section name) nearest to a wrong one, by the edit distance of the whole key or of its
 * last part; NULL if none is near. Freed with free(). */
char *deck_nearest(const char *wrong, bool section);

/* Names of other programs for a key, in lower case; ended by {NULL, NULL}. */
struct deck_other_name {
    const char *name, *key;
};
extern const struct deck_other_name deck_other_names[];
/* The key that the last part of a wrong one is another program's name for; NULL: it is none. */
const char *deck_find_other(const char *wrong);

/* The first variable of a path that the environment does not have (path_expand), NULL where there is none. Freed with
 * free(). */
char *deck_unset_variable(const struct deck_row *row, const struct deck_value *value);
/* Stores a value, a path expanded, and marks the key as given. If type or range are wrong: returns false and changes
 * nothing. */
bool deck_set(struct deck *deck, const struct deck_row *row, const struct deck_value *value);

/* The values a row allows, as words that follow "must be": "an integer from 1 to 64". Freed with free(). */
char *deck_row_allowed(const struct deck_row *row);
/* The row's value in deck syntax; reals as deck_real and paths as path_literal writes them. Freed with free(). */
char *deck_row_value(const struct deck_row *row, const struct deck *deck);
/* A string in quotes, escaped for libconfig. Freed with free(). */
char *deck_quote(const char *string);
/* A real with as many digits as libconfig needs to read back the same value, and as a real. Freed with free(). */
char *deck_real(double value);

/* Between these two calls, numbers are read and written with a decimal point, whatever the user's locale. */
locale_t deck_locale_enter(void);
void deck_locale_leave(locale_t previous);

#endif
