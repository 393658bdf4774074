/* What characters the sequences that prepare reads are made of, and what of it their owner should hear. */
#ifndef DATA_CENSUS_H
#define DATA_CENSUS_H

#include "data/tokenizer.h"

struct census {
    int64_t count[256]; /* of each character that became a token */
    int64_t stops;      /* stop symbols dropped */
};

void census_add(struct census *census, const char *text, int64_t length);

/* Prints, where there is something to say: characters that the tokenizer does not know, each with its number; dropped
 * stop symbols; and a warning when the letters look like those of another kind of sequence. */
void census_report(const struct census *census, const struct tokenizer *tokenizer);

#endif
