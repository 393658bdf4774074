/* Byte-level BPE tokenizers, from the files that others have: tokenizer.json of Hugging Face's tokenizers, and rank
 * files of tiktoken (Llama 3's tokenizer.model). The ids are those of these libraries, bit for bit.
 *
 * Text is bytes. Bytes that are no UTF-8, which those libraries cannot take, are each a token of one byte and join with
 * no neighbour; the text before and after such a byte is tokenized as two texts. So every text is kept byte for byte,
 * save what the file itself asks for (normalizer NFC, add_prefix_space, lstrip, rstrip, an unk_token for bytes that the
 * vocabulary lacks; without unk_token a text with such a byte is refused).
 *
 * A struct bpe never changes once it is open: any number of threads may use it, each with an encoder of its own. */
#ifndef TOKENIZER_BPE_H
#define TOKENIZER_BPE_H

#include <stdbool.h>
#include <stdint.h>

struct bpe;
struct bpe_encoder;

/* A file that was read, and its name for messages. */
struct bpe_file {
    const void *data; /* [bytes] */
    int64_t bytes;
    const char *name;
};

/* Opens a tokenizer. What kind of file it is follows from its content. `config` is the tokenizer_config.json beside it,
 * which says who is BOS, EOS, PAD and UNK; NULL where there is none. The files' memory may go afterwards. Close with
 * bpe_close. ERROR_USER: the file is damaged, or asks for what is not offered; the message says file, member, value and
 * what is allowed; *bpe is NULL then. */
int bpe_open(struct bpe **bpe, const struct bpe_file *file, const struct bpe_file *config);
/* NULL is fine. */
void bpe_close(struct bpe *bpe);

/* Ids are 0 .. vocabulary - 1. Some may stand for nothing: their token is empty. */
int32_t bpe_vocabulary(const struct bpe *bpe);
/* The bytes of an id, not NUL-terminated; those of a special one are its name. Lie in bpe. */
const char *bpe_token(const struct bpe *bpe, int32_t id, int32_t *bytes);
/* Is it an id that stands for no part of the text, such as <|begin_of_text|>? */
bool bpe_is_special(const struct bpe *bpe, int32_t id);
/* The id of the token with these bytes, special or not; -1 where there is none. */
int32_t bpe_find(const struct bpe *bpe, const char *token, int64_t bytes);

/* Who has a role: -1 for nobody. From tokenizer_config.json where that was given, else from what the file puts around
 * texts, else by the names that models commonly give. */
enum bpe_role { BPE_BOS, BPE_EOS, BPE_PAD, BPE_UNK, BPE_ROLES };
int32_t bpe_role(const struct bpe *bpe, enum bpe_role role);
/* Does the tokenizer put BOS before a text, EOS behind it (Llama 3: true, false)? bpe_encode never does: windows do. */
bool bpe_begins(const struct bpe *bpe);
bool bpe_ends(const struct bpe *bpe);

/* XXH3 of the file: equal files are equal tokenizers, but for roles. */
uint64_t bpe_digest(const struct bpe *bpe);

/* What one thread encodes with: a cache of words, and room. About 3 MB. */
struct bpe_encoder *bpe_encoder_open(const struct bpe *bpe);
/* NULL is fine. */
void bpe_encoder_close(struct bpe_encoder *encoder);

/* The ids of a text, *count of them in *ids, which the encoder owns and keeps until the next call. A text is a whole
 * record: two halves give other ids than the whole. `specials`: special tokens written in the text ("<|eot_id|>")
 * become their ids, as in prompts; otherwise they are text like any other, as they should be in training data. Added
 * tokens that are not special are always found, as by Hugging Face. ERROR_USER: a pattern of the file needs too much
 * memory or time on this text, a word has more than 256 MiB, or a byte has no token and the model no unk_token. */
int bpe_encode(struct bpe_encoder *encoder, const char *text, int64_t bytes, bool specials, const int32_t **ids,
               int64_t *count);

/* Hands over the special tokens that were written in the texts encoded since the last call, by id and number, whether
 * they became ids or stayed text. */
typedef void bpe_special(void *self, int32_t id, int64_t count);
void bpe_take_specials(struct bpe_encoder *encoder, bpe_special *take, void *self);

#endif
