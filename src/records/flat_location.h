/* Locations of features in the feature table of INSDC (version 11, section 3.4). */
#ifndef RECORDS_FLAT_LOCATION_H
#define RECORDS_FLAT_LOCATION_H

#include <stdbool.h>
#include <stdint.h>

enum location_result { LOCATION_GOOD, LOCATION_OTHER /* a form that is not supported */, LOCATION_BEYOND };

/* Appends the letters of a location, such as "complement(join(4..10,20..25))", to out[capacity]; *count are there so
 * far. letters[length]: the entry's. A location that needs more than the capacity is LOCATION_OTHER. */
enum location_result location_letters(const char *location, const char *letters, int64_t length, char *out,
                                      int64_t *count, int64_t capacity);

#endif
