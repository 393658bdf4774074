/* Numbers for people: 1,234,567. */
#ifndef BASE_THOUSANDS_H
#define BASE_THOUSANDS_H

#include <stdint.h>

/* A whole number with commas between groups of three digits. Freed with free(). */
char *thousands_text(int64_t value);

/* What stands behind a noun that so many of are counted: "%lld file%s". "" for one, else "s". */
const char *plural(int64_t count);

#endif
