/* Inside src/deck (and its test): the table of keys, and what can be asked of one row. */
#ifndef DECK_TABLE_H
#define DECK_TABLE_H

#include "deck/deck.h"

#include <locale.h>
#include <stddef.h>

enum deck_type { DECK_TYPE_BOOL, DECK_TYPE_INT, DECK_TYPE_REAL, DECK_TYPE_STRING, DECK_TYPE_CHOICE };

/* Where "~" is the home folder: at the string's start, or at that of each item between commas. */
enum deck_paths { DECK_PATHS_NONE, DECK_PATHS_ONE, DECK_PATHS_LIST };

struct deck_row {
    const char *key; /* sections and name: "model.rope_scaling.factor"; rows of a section stand together */
    enum deck_type type;
    size_t offset;         /* of the field in struct deck: bool, int64_t, double, char[DECK_STRING] or int */
    double number;         /* default of a bool (0 or 1), an int, a real, a choice (its place) */
    const char *string;    /* default of a string */
    enum deck_paths paths; /* in a string */
    double minimum,
        maximum; /* of an int or a real; ints stay within 2^53, so a double is exact; of a string, its bytes */
    bool above_minimum, below_maximum; /* the bound itself is not allowed */
    const char *const *choices;        /* names ended by NULL, in the order of their enum */
    const char *unit;                  /* NULL where there is none */
    bool may_change;                   /* at resume */
    const char *doc;                   /* whole sentences */
};

extern const struct deck_row deck_table[];
extern const int deck_table_rows;

/* A value on its way into a deck, from a file or the command line. */
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

/* NULL for an unknown key. */
const struct deck_row *deck_find(const char *key);
/* Is this the name of a section ("model", "model.rope_scaling")? */
bool deck_is_section(const char *name);
/* The known key (or, for section = true, section name) nearest to a wrong one, by edit distance of the whole key or of
 * its last part; NULL where none is near. Freed with free(). */
char *deck_nearest(const char *wrong, bool section);

/* Store a value, and mark the key as given, if its type and range are right; false and no change otherwise. */
bool deck_set(struct deck *deck, const struct deck_row *row, const struct deck_value *value);

/* What a row allows, to follow "must be": "an integer from 1 to 64". Freed with free(). */
char *deck_row_allowed(const struct deck_row *row);
/* The row's value in deck syntax; reals with as many digits as they need to come back equal. Freed with free(). */
char *deck_row_value(const struct deck_row *row, const struct deck *deck);
/* A string in quotes, with escapes that libconfig undoes. Freed with free(). */
char *deck_quote(const char *string);
/* A real as libconfig reads it back equal and as a real. Freed with free(). */
char *deck_real(double value);

/* Numbers are read and written with a decimal point whatever the user's locale: bracket such work with these. */
locale_t deck_locale_enter(void);
void deck_locale_leave(locale_t previous);

#endif
