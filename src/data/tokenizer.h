/* Tokenizers of sequence records: one character, one id. A tokenizer is data; what a record means (where BOS and EOS
 * go, what is masked) is decided by windows, masking and loader. */
#ifndef DATA_TOKENIZER_H
#define DATA_TOKENIZER_H

#include <stdbool.h>
#include <stdint.h>

struct tokenizer {
    const char *name;
    int64_t vocabulary;               /* ids are 0 .. vocabulary - 1; at most 256 */
    int32_t eos, pad, bos, unk, mask; /* the special ids; mask is -1 where there is none */
    bool bases; /* ids of A C G T a c g t are their ASCII codes, so base masks and count models apply */
    /* [vocabulary] the text of each id, that of one character being what encode makes the id of; NULL for a tokenizer
     * whose ids are codes of characters, save the specials. For tokenizer_token. */
    const char *const *texts;
    /* Ids of `bytes` characters; special ids never come out of text, save unk for what has no id. `ids` may be the
     * text's own memory. */
    void (*encode)(const char *text, int64_t bytes, uint8_t *ids);
};

/* The tokenizer of that name; NULL when there is none. */
const struct tokenizer *tokenizer_find(const char *name);
/* All names, separated by ", ", for messages. */
const char *tokenizer_names(void);

/* Is it an id that stands for no part of the text (eos, pad, bos, unk, mask)? */
bool tokenizer_is_special(const struct tokenizer *tokenizer, int32_t id);
/* What an id is written as in tokenizer files, UTF-8: "A", "<mask>". Lies in `buffer` or in static memory. */
enum { TOKENIZER_TEXT = 4 };
const char *tokenizer_token(const struct tokenizer *tokenizer, int32_t id, char buffer[TOKENIZER_TEXT]);
/* What the text is made of, in the plural, for messages: "bases" or "residues". */
const char *tokenizer_unit(const struct tokenizer *tokenizer);

/* The number of a base (A 0, C 1, G 2, T 3, either case), -1 for any other id; for tokenizers with `bases`. */
int tokenizer_base(int32_t id);

#endif
