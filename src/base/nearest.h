/* Names that are nearest to one that is not known: of keys, decks, commands and options. */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

#include <stdbool.h>

/* Levenshtein distance of the first `a_length` bytes of a and `b_length` of b. */
int nearest_distance(const char *a, int a_length, const char *b, int b_length);

/* The nearest name seen so far. {.wrong = ...} is the start. */
struct nearest_name {
    const char *wrong;
    const char *name; /* borrowed; NULL: none is near enough to be meant */
    int distance;
};

/* Looks at one more name. A name that begins with the wrong one, or the reverse, is one step off. */
void nearest_look(struct nearest_name *nearest, const char *name);

#endif
