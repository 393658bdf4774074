/* Records as readers return them, piece by piece, and the characters that sequences may have. */
#ifndef RECORDS_RECORD_H
#define RECORDS_RECORD_H

#include <stdbool.h>
#include <stdint.h>

/* Content of records: characters of a sequence, checked by record_clean, or the bytes of a text, unchanged. */
enum record_content { RECORD_CHARACTERS, RECORD_BYTES };

/* RECORD_LABEL: one for each of record_settings.labels, in their order, after the name; empty if the record has none.
 */
enum record_kind { RECORD_NAME, RECORD_LABEL, RECORD_SEQUENCE, RECORD_END };

enum { RECORD_LABELS = 64 /* maximum of a record */ };

struct record_piece {
    enum record_kind kind;
    const char *text; /* name or label (not terminated), or characters of the current record; valid until the next
                         call */
    int64_t length;   /* bytes; > 0 for RECORD_SEQUENCE */
};

/* Removes blanks and line ends from a part of a sequence, in place. All other characters must be printable ASCII and
 * are unchanged (case, IUPAC codes). Returns false for other bytes; *wrong is the first one. */
bool record_clean(char *text, int64_t *length, unsigned char *wrong);

/* Finds a record's name: the first word of a text, which need not be terminated. *length is 0 if there is none. Returns
 * false if the word has a control character, *wrong. */
bool record_first_word(const char *text, int64_t bytes, const char **word, int64_t *length, unsigned char *wrong);

/* State for dropping stop codons. Many protein files end a record with '*', which is not a residue. A '*' before
 * further residues is an ordinary character, so a '*' at the end of a piece is held back until the next piece or the
 * end of the record. */
struct record_stops {
    bool waits;
    int64_t dropped; /* stop codons dropped so far */
};

/* Removes a '*' from the end of a sequence piece, which may then be empty. Returns true if the '*' that was held back
 * is part of the record; it precedes this piece. */
bool record_stops_take(struct record_stops *stops, struct record_piece *piece);
/* Ends the record: drops the '*' that is held back. */
void record_stops_end(struct record_stops *stops);

#endif
