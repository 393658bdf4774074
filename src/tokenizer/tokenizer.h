/* Tokenizers. The bundled ones map each character of a sequence record to one id; text tokenizers are opened from files
 * (tokenizer/bpe.h). A tokenizer only maps text to ids: windows, masking and loader decide where BOS and EOS go and
 * what is masked. */
#ifndef TOKENIZER_TOKENIZER_H
#define TOKENIZER_TOKENIZER_H

#include "tokenizer/bundle.h"
#include "tokenizer/end_tokens.h"

#include <stdbool.h>
#include <stdint.h>

struct bpe;

enum { TOKENIZER_NAME_BYTES = 64 };

struct tokenizer {
    char name[TOKENIZER_NAME_BYTES];  /* tokenizers of equal name make equal ids; "bpe-..." for text */
    int64_t vocabulary;               /* ids are 0 .. vocabulary - 1 */
    int32_t eos, pad, bos, unk, mask; /* special ids; -1: none */
    bool bases; /* ids of A C G T a c g t are their ASCII codes, so base masks and count models apply */
    /* Converts `bytes` characters to one id each, below 256. Special ids are never a result, except unk for characters
     * without an id. `ids` may be the text's memory. NULL: a text tokenizer. */
    void (*encode_characters)(const char *text, int64_t bytes, uint8_t *ids);
    /* [vocabulary] text of each id, for tokenizer_token; encode_characters maps texts of one character to their id.
     * NULL: ids are character codes, except the special ids. */
    const char *const *texts;
    /* Text tokenizers: the model and its files. Stores describe their tokenizer by the members above only. */
    struct bpe *bpe;
    struct tokenizer_bundle bundle;
    struct end_tokens ends; /* from generation_config.json; may include eos */
};

/* Returns the bundled tokenizer of this name, which is always open; NULL: none. */
const struct tokenizer *tokenizer_find(const char *name);
/* Returns bundled tokenizer number `number`, from 0; NULL after the last. */
const struct tokenizer *tokenizer_bundled(int number);
/* Returns the names of the bundled tokenizers, separated by ", ", for messages. */
const char *tokenizer_names(void);

/* Opens a bundled tokenizer by name, or one from a file or folder. Close it with tokenizer_close, which accepts NULL.
 * All functions here are local; threads may share an open tokenizer. ERROR_USER: neither a name nor a file or folder,
 * or errors of bundle_read and bpe_open. */
int tokenizer_open(const struct tokenizer **tokenizer, const char *where);
/* Opens a tokenizer from a bundle, which is copied; `where` is its origin, for messages. Errors: as in bpe_open;
 * ERROR_USER: a bad generation_config.json. */
int tokenizer_open_bundle(const struct tokenizer **tokenizer, const struct tokenizer_bundle *bundle, const char *where);
void tokenizer_close(const struct tokenizer *tokenizer);

/* An encoder, for one thread. encoder_close accepts NULL. */
struct encoder;
struct encoder *encoder_open(const struct tokenizer *tokenizer);
void encoder_close(struct encoder *encoder);
/* Encodes a whole record. *ids: [*count], at most one per byte, owned by the encoder until the next call. `specials`:
 * special tokens written in the text become their ids. Errors: as in bpe_encode. */
int encoder_encode(struct encoder *encoder, const char *text, int64_t bytes, bool specials, const int32_t **ids,
                   int64_t *count);

/* Reports the special tokens written in the texts encoded since the last call, each id with its number, whether or not
 * they became ids. Only for text tokenizers; otherwise there are none. */
typedef void encoder_special(void *self, int32_t id, int64_t count);
void encoder_take_specials(struct encoder *encoder, encoder_special *take, void *self);

/* Returns the bytes that an id stands for, *count of them, not terminated: none for special ids, and for ids of the
 * model that the tokenizer does not have. */
const char *tokenizer_decode(const struct tokenizer *tokenizer, int32_t id, int64_t *count);

/* As tokenizer_decode, for the first id of a text: without the blank that SentencePiece's tokenizers put before it. */
const char *tokenizer_decode_first(const struct tokenizer *tokenizer, int32_t id, int64_t *count);

/* Returns the name of a special id, *count bytes, not terminated, such as <|begin_of_text|>. For text tokenizers. */
const char *tokenizer_special(const struct tokenizer *tokenizer, int32_t id, int64_t *count);
/* Returns whether the id is special: it stands for no text. */
bool tokenizer_is_special(const struct tokenizer *tokenizer, int32_t id);
/* Returns the id for padding of rows, outside segments and without labels: pad, or else any id. */
int32_t tokenizer_padding(const struct tokenizer *tokenizer);
/* Returns whether it is a text tokenizer, not one of characters. */
bool tokenizer_is_text(const struct tokenizer *tokenizer);
/* Returns an id's name in tokenizer files, UTF-8: "A", "<mask>". It is in `buffer` or in static memory. For tokenizers
 * of characters. */
enum { TOKENIZER_TEXT = 4 };
const char *tokenizer_token(const struct tokenizer *tokenizer, int32_t id, char buffer[TOKENIZER_TEXT]);
/* Returns the unit of the text in the plural, for messages: "bases", "residues" or "tokens". */
const char *tokenizer_token_noun(const struct tokenizer *tokenizer);

/* Returns the number of a base (A 0, C 1, G 2, T 3, either case), -1 for other ids; for tokenizers with `bases`. */
int tokenizer_base(int32_t id);

#endif
