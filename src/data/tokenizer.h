/* Tokenizers of sequence records: one character, one id. A tokenizer is data; what a record means (where BOS and EOS
 * go, what is masked) is decided by windows and loader. */
#ifndef DATA_TOKENIZER_H
#define DATA_TOKENIZER_H

#include <stdbool.h>
#include <stdint.h>

struct tokenizer {
    const char *name;
    int64_t vocabulary; /* ids are 0 .. vocabulary - 1 */
    int32_t eos, pad, bos, unk;
    bool bases; /* ids of A C G T a c g t are their ASCII codes, so base masks and count models apply */
    /* Ids of `bytes` characters; special ids never come out of text, save unk for what has no id. */
    void (*encode)(const char *text, int64_t bytes, uint8_t *ids);
};

/* The tokenizer of that name; NULL when there is none. */
const struct tokenizer *tokenizer_find(const char *name);
/* All names, separated by ", ", for messages. */
const char *tokenizer_names(void);

/* The number of a base (A 0, C 1, G 2, T 3, either case), -1 for any other id; for tokenizers with `bases`. */
int tokenizer_base(int32_t id);

#endif
