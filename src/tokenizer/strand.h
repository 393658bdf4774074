/* The other strand of DNA: reverse complements of tokens of bases. */
#ifndef TOKENIZER_STRAND_H
#define TOKENIZER_STRAND_H

#include <stdint.h>

/* Returns the complement of a base (of U: A) or an IUPAC ambiguity code, in its case; other ids stay. Ids are ASCII
 * codes (struct tokenizer, bases). */
int32_t strand_complement(int32_t id);

/* Makes ids[count] the reverse complement of itself. */
void strand_reverse(int32_t *ids, int64_t count);

#endif
