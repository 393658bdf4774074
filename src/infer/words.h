/* Words of a text, as the perplexity of a word counts them. */
#ifndef INFER_WORDS_H
#define INFER_WORDS_H

#include <stdint.h>

/* One more than there are stretches of blanks: what lm-evaluation-harness counts, len(re.split(r"\s+", text)). Blanks
 * are Python's: those of Unicode, and U+001C to U+001F. */
int64_t words_count(const char *text, int64_t bytes);

#endif
