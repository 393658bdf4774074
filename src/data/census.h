/* What characters the sequences of a file are made of, and what of it their owner should hear. */
#ifndef DATA_CENSUS_H
#define DATA_CENSUS_H

#include "data/tokenizer.h"

struct census {
    int64_t count[256]; /* of each character that became a token */
};

/* ids[count] of so many characters, which are counted; with uppercase a b c mean A B C. */
void census_encode(struct census *census, const struct tokenizer *tokenizer, bool uppercase, const char *text,
                   int64_t count, uint8_t *ids);

/* Prints, where there is something to say: characters that the tokenizer does not know, each with its number; the
 * number of stop symbols dropped; and a warning when the letters look like those of another kind of sequence. */
void census_report(const struct census *census, const struct tokenizer *tokenizer, int64_t stops);

#endif
