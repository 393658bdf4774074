/* Counts the words of a text, for word perplexity. */
#ifndef INFER_WORDS_H
#define INFER_WORDS_H

#include <stdint.h>

/* Returns one more than the number of runs of blanks, as lm-evaluation-harness does: len(re.split(r"\s+", text)).
 * Blanks are Python's: those of Unicode, and U+001C to U+001F. */
int64_t words_count(const char *text, int64_t bytes);

#endif
