/* Restricts sampling to tokens whose text consists of given characters. */
#ifndef INFER_ALPHABET_H
#define INFER_ALPHABET_H

#include "tokenizer/tokenizer.h"

/* Makes allowed[vocabulary], with the vocabulary of the model: true for text tokens that consist of characters of
 * `alphabet` (UTF-8), and for the end token. Freed with memory_free, also after an error. ERROR_USER: the alphabet is
 * empty, or one of its characters is in no allowed token. */
int alphabet_allow(const struct tokenizer *tokenizer, int64_t vocabulary, const char *alphabet, bool **allowed);

#endif
