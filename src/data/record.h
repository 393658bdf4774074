/* What readers of records hand on, piece by piece, and which characters a sequence may have. */
#ifndef DATA_RECORD_H
#define DATA_RECORD_H

#include <stdbool.h>
#include <stdint.h>

enum record_kind { RECORD_NAME, RECORD_SEQUENCE, RECORD_END };

struct record_piece {
    enum record_kind kind;
    const char *text; /* a name (not terminated), or characters of the present record; until the next call */
    int64_t length;   /* bytes; > 0 for RECORD_SEQUENCE */
};

/* Drops blanks and line ends from a stretch of sequence, in place. The other characters must be printable ASCII and
 * stay as they are (case, IUPAC codes): false, and *wrong is the first that is not. */
bool record_clean(char *text, int64_t *length, unsigned char *wrong);

#endif
