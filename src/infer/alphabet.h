/* Which tokens may be sampled where a text is to have certain characters alone. */
#ifndef INFER_ALPHABET_H
#define INFER_ALPHABET_H

#include "tokenizer/tokenizer.h"

/* allowed[vocabulary], the model's: of the tokens that stand for text those whose text consists of the characters of
 * `alphabet` (UTF-8), and the end token. Freed with memory_free, in any case. ERROR_USER: no such token has one of the
 * characters; there are none. */
int alphabet_allow(const struct tokenizer *tokenizer, int64_t vocabulary, const char *alphabet, bool **allowed);

#endif
