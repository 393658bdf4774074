/* The replacements of characters that a SentencePiece model brings (precompiled_charsmap of its NormalizerSpec), such
 * as those of NFKC: at each place of a text the longest rule that matches. */
#ifndef TOKENIZER_CHARSMAP_H
#define TOKENIZER_CHARSMAP_H

#include <stdint.h>

struct charsmap;

/* Opens the bytes of precompiled_charsmap, which are copied: the size of a double array (uint32, little endian), the
 * double array, and the texts that replace, each ended by a zero byte. Returns NULL if they are damaged. */
struct charsmap *charsmap_open(const void *data, int64_t bytes);
/* Accepts NULL. */
void charsmap_close(struct charsmap *map);

/* Returns the length of the longest rule that begins text[bytes], and its replacement, *count bytes; 0: no rule does.
 * map is NULL: without rules. */
int64_t charsmap_find(const struct charsmap *map, const unsigned char *text, int64_t bytes,
                      const unsigned char **replacement, int64_t *count);

#endif
