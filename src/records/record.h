/* What readers of records hand on, piece by piece, and which characters a sequence may have. */
#ifndef RECORDS_RECORD_H
#define RECORDS_RECORD_H

#include <stdbool.h>
#include <stdint.h>

/* What a record holds: characters of a sequence, which record_clean looks at, or bytes of a text as they are, any. */
enum record_content { RECORD_CHARACTERS, RECORD_BYTES };

enum record_kind { RECORD_NAME, RECORD_SEQUENCE, RECORD_END };

struct record_piece {
    enum record_kind kind;
    const char *text; /* a name (not terminated), or characters of the present record; until the next call */
    int64_t length;   /* bytes; > 0 for RECORD_SEQUENCE */
};

/* Drops blanks and line ends from a stretch of sequence, in place. The other characters must be printable ASCII and
 * stay as they are (case, IUPAC codes): false, and *wrong is the first that is not. */
bool record_clean(char *text, int64_t *length, unsigned char *wrong);

/* A record's name: the first word of a text, which need not be terminated. *length > 0; or 0, there is none. False: it
 * holds a control character, *wrong. */
bool record_first_word(const char *text, int64_t bytes, const char **word, int64_t *length, unsigned char *wrong);

/* Many protein files end a record with the stop codon's '*', which is no residue. One that residues follow is a
 * character like any other, so the last one waits until it is clear which it is. */
struct record_stops {
    bool waits;
    int64_t dropped; /* at ends of records, so far */
};

/* Takes a '*' off the end of a piece of sequence, which may then be empty. True: the '*' that waited is a character of
 * the record and stands before this piece. */
bool record_stops_take(struct record_stops *stops, struct record_piece *piece);
/* The record is at its end: what waits is dropped. */
void record_stops_end(struct record_stops *stops);

#endif
