/* Numbers for people: 1,234,567. */
#ifndef BASE_THOUSANDS_H
#define BASE_THOUSANDS_H

#include <stdint.h>

/* A whole number with commas between groups of three digits. Freed with free(). */
char *thousands_text(int64_t value);

/* The ending of a noun after a count: "%lld file%s". "" after 1, else "s". */
const char *plural(int64_t count);

#endif
