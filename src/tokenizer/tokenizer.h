/* Tokenizers: what text becomes ids by. The bundled ones make one id of each character of a sequence record. A
 * tokenizer is data; what a record means (where BOS and EOS go, what is masked) is decided by windows, masking and
 * loader. */
#ifndef TOKENIZER_TOKENIZER_H
#define TOKENIZER_TOKENIZER_H

#include <stdbool.h>
#include <stdint.h>

struct tokenizer {
    const char *name;                 /* tokenizers with the same name are the same */
    int64_t vocabulary;               /* ids are 0 .. vocabulary - 1 */
    int32_t eos, pad, bos, unk, mask; /* the special ids; -1 where there is none */
    bool bases; /* ids of A C G T a c g t are their ASCII codes, so base masks and count models apply */
    /* Where each character is one id, which is below 256: the ids of `bytes` characters; special ids never come out of
     * text, save unk for what has no id. `ids` may be the text's own memory. NULL for other tokenizers. */
    void (*encode_characters)(const char *text, int64_t bytes, uint8_t *ids);
    /* [vocabulary] the text of each id, that of one character being what encode makes the id of; NULL for a tokenizer
     * whose ids are codes of characters, save the specials. For tokenizer_token. */
    const char *const *texts;
};

/* The bundled tokenizer of that name, which is always open; NULL when there is none. */
const struct tokenizer *tokenizer_find(const char *name);
/* Their names, separated by ", ", for messages. */
const char *tokenizer_names(void);

/* Opens the tokenizer of that name. ERROR_USER: there is none. Close it with tokenizer_close; NULL is fine. Local, as
 * all here; a tokenizer that is open may be used by many threads. */
int tokenizer_open(const struct tokenizer **tokenizer, const char *where);
void tokenizer_close(const struct tokenizer *tokenizer);

/* Writes the ids of a text, at most one a byte, to ids[bytes]; returns how many they are. */
int64_t tokenizer_encode(const struct tokenizer *tokenizer, const char *text, int64_t bytes, int32_t *ids);
/* The bytes that an id stands for, *count of them, not terminated; of a special id none. */
const char *tokenizer_decode(const struct tokenizer *tokenizer, int32_t id, int64_t *count);

/* Is it an id that stands for no part of the text (eos, pad, bos, unk, mask)? */
bool tokenizer_is_special(const struct tokenizer *tokenizer, int32_t id);
/* What an id is written as in tokenizer files, UTF-8: "A", "<mask>". Lies in `buffer` or in static memory. For
 * tokenizers of characters. */
enum { TOKENIZER_TEXT = 4 };
const char *tokenizer_token(const struct tokenizer *tokenizer, int32_t id, char buffer[TOKENIZER_TEXT]);
/* What the text is made of, in the plural, for messages: "bases" or "residues". */
const char *tokenizer_unit(const struct tokenizer *tokenizer);

/* The number of a base (A 0, C 1, G 2, T 3, either case), -1 for any other id; for tokenizers with `bases`. */
int tokenizer_base(int32_t id);

#endif
