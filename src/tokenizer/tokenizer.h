/* Tokenizers: what text becomes ids by. The bundled ones make one id of each character of a sequence record; those of
 * text are byte-level BPE, opened from their files (tokenizer/bpe.h). A tokenizer is data; what a record means (where
 * BOS and EOS go, what is masked) is decided by windows, masking and loader. */
#ifndef TOKENIZER_TOKENIZER_H
#define TOKENIZER_TOKENIZER_H

#include "tokenizer/bundle.h"
#include "tokenizer/end_tokens.h"

#include <stdbool.h>
#include <stdint.h>

struct bpe;

enum { TOKENIZER_NAME_BYTES = 64 };

struct tokenizer {
    char name[TOKENIZER_NAME_BYTES];  /* tokenizers of the same name make the same ids; "bpe-..." of text */
    int64_t vocabulary;               /* ids are 0 .. vocabulary - 1 */
    int32_t eos, pad, bos, unk, mask; /* the special ids; -1 where there is none */
    bool bases; /* ids of A C G T a c g t are their ASCII codes, so base masks and count models apply */
    /* Where each character is one id, which is below 256: the ids of `bytes` characters; special ids never come out of
     * text, save unk for what has no id. `ids` may be the text's own memory. NULL: a tokenizer of text. */
    void (*encode_characters)(const char *text, int64_t bytes, uint8_t *ids);
    /* [vocabulary] the text of each id, that of one character being what encode makes the id of; NULL for a tokenizer
     * whose ids are codes of characters, save the specials. For tokenizer_token. */
    const char *const *texts;
    /* Of text, and where it was opened. A store describes its tokenizer by all that is above. */
    struct bpe *bpe;
    struct tokenizer_bundle bundle;
    struct end_tokens ends; /* of its generation_config.json; eos may be among them */
};

/* The bundled tokenizer of that name, which is always open; NULL when there is none. */
const struct tokenizer *tokenizer_find(const char *name);
/* Their names, separated by ", ", for messages. */
const char *tokenizer_names(void);

/* Opens the bundled tokenizer of that name, or that of a file or a folder. Close it with tokenizer_close; NULL is fine.
 * Local, as all here; a tokenizer that is open may be used by many threads. ERROR_USER: none of these; bundle_read's
 * and bpe_open's. */
int tokenizer_open(const struct tokenizer **tokenizer, const char *where);
/* The same from files that were kept; `where` is what kept them, for messages. The bundle is copied. */
int tokenizer_open_bundle(const struct tokenizer **tokenizer, const struct tokenizer_bundle *bundle, const char *where);
void tokenizer_close(const struct tokenizer *tokenizer);

/* What one thread encodes with. Closing NULL is fine. */
struct encoder;
struct encoder *encoder_open(const struct tokenizer *tokenizer);
void encoder_close(struct encoder *encoder);
/* The ids of a whole record, *count of them, at most one a byte; they lie in the encoder until the next call.
 * `specials`: special tokens that are written in a text become their ids. Errors of bpe_encode. */
int encoder_encode(struct encoder *encoder, const char *text, int64_t bytes, bool specials, const int32_t **ids,
                   int64_t *count);

/* Hands over the special tokens that were written in the texts encoded since the last call, by id and number, whether
 * they became ids or stayed text. Of text alone: those of characters find none. */
typedef void encoder_special(void *self, int32_t id, int64_t count);
void encoder_take_specials(struct encoder *encoder, encoder_special *take, void *self);

/* The bytes that an id stands for, *count of them, not terminated; of a special id, and of one that the model has and
 * the tokenizer has not, none. */
const char *tokenizer_decode(const struct tokenizer *tokenizer, int32_t id, int64_t *count);

/* What a special id is written as, *count bytes, not terminated: <|begin_of_text|>. Of text. */
const char *tokenizer_special(const struct tokenizer *tokenizer, int32_t id, int64_t *count);
/* Is it an id that stands for no part of the text? */
bool tokenizer_is_special(const struct tokenizer *tokenizer, int32_t id);
/* What rows are filled up with, which no segment has and no label asks for: pad; where there is none, any id will do.
 */
int32_t tokenizer_padding(const struct tokenizer *tokenizer);
/* Is it a tokenizer of text, not of characters? */
bool tokenizer_is_text(const struct tokenizer *tokenizer);
/* What an id is written as in tokenizer files, UTF-8: "A", "<mask>". Lies in `buffer` or in static memory. For
 * tokenizers of characters. */
enum { TOKENIZER_TEXT = 4 };
const char *tokenizer_token(const struct tokenizer *tokenizer, int32_t id, char buffer[TOKENIZER_TEXT]);
/* What the text is made of, in the plural, for messages: "bases", "residues" or "tokens". */
const char *tokenizer_unit(const struct tokenizer *tokenizer);

/* The number of a base (A 0, C 1, G 2, T 3, either case), -1 for any other id; for tokenizers with `bases`. */
int tokenizer_base(int32_t id);

#endif
