/* Numbers, formatted for people: 1,234,567. */
#ifndef BASE_THOUSANDS_H
#define BASE_THOUSANDS_H

#include <stdint.h>

/* Returns a whole number with commas between groups of three digits; freed with free(). */
char *thousands_text(int64_t value);

/* Returns the ending of a noun after a count, as in "%lld file%s": "" for 1, else "s". */
const char *plural(int64_t count);

#endif
