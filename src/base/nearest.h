/* The known name nearest to an unknown one, for messages about keys, decks, commands and options. */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

#include <stdbool.h>

/* Returns the Levenshtein distance of the first `a_length` bytes of a and `b_length` of b. */
int nearest_distance(const char *a, int a_length, const char *b, int b_length);

/* The nearest name seen so far. Start with {.wrong = ...}. */
struct nearest_name {
    const char *wrong;
    const char *name; /* borrowed; NULL: no name is near enough */
    int distance;
};

/* Considers one more name. If one of the names begins with the other, of at least 3 characters, their distance counts
 * as 1. */
void nearest_look(struct nearest_name *nearest, const char *name);

#endif
