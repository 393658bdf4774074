/* Text tokenizers from common files: BPE of bytes and of characters, Unigram, WordPiece and tables of words (k-mers)
 * from tokenizer.json of Hugging Face's tokenizers; BPE and Unigram from models of SentencePiece; BPE of bytes from
 * rank files of tiktoken (Llama 3's tokenizer.model). Ids are identical to those of these libraries.
 *
 * Text may be any bytes, while the libraries accept only UTF-8. Each byte that is not UTF-8 becomes a token of one
 * byte, and the texts before and after it are tokenized separately. So decoding returns every text byte for byte,
 * except for what the file itself requests: normalizers, blanks before a text, lstrip, rstrip, and unk_token for bytes
 * and characters that the vocabulary does not have (without unk_token, text with such a byte is rejected). WordPiece
 * and tables lose what their normalizer and pre-tokenizer drop, such as case, accents and white space; a byte that is
 * not UTF-8 is their unk_token.
 *
 * A struct bpe is constant once it is open: any number of threads may use it, each with its own encoder. */
#ifndef TOKENIZER_BPE_H
#define TOKENIZER_BPE_H

#include <stdbool.h>
#include <stdint.h>

struct bpe;
struct bpe_encoder;

/* Content of a file, and its name for messages. */
struct bpe_file {
    const void *data; /* [bytes] */
    int64_t bytes;
    const char *name;
};

/* The kinds of files, by their content. */
enum bpe_file_kind { BPE_FILE_JSON, BPE_FILE_SPM /* a model of SentencePiece */, BPE_FILE_RANKS };
enum bpe_file_kind bpe_file_kind(const void *data, int64_t bytes);

/* Opens a tokenizer; the content determines the kind of file. `config` is the tokenizer_config.json of the same folder,
 * which defines BOS, EOS, PAD and UNK, or NULL. The files are not needed afterwards. Close with bpe_close. *bpe is NULL
 * after an error. ERROR_USER: the file is damaged, or needs an unsupported feature; the message names file, member,
 * value and supported values. */
int bpe_open(struct bpe **bpe, const struct bpe_file *file, const struct bpe_file *config);
/* Accepts NULL. */
void bpe_close(struct bpe *bpe);

/* Returns the number of ids, 0 .. vocabulary - 1. Some ids may be unused; their token is empty. */
int32_t bpe_vocabulary(const struct bpe *bpe);
/* Returns the bytes of an id, not NUL-terminated, owned by bpe; for a special token, its name. */
const char *bpe_token(const struct bpe *bpe, int32_t id, int32_t *bytes);
/* Returns the text that an id stands for among other tokens: that of bpe_token, but of WordPiece's tokens the ones that
 * continue a word without their prefix, and the others after a blank; with blanks where SentencePiece's tokens have
 * U+2581; and the byte of a token such as <0x41>. */
const char *bpe_text(const struct bpe *bpe, int32_t id, int32_t *bytes);
/* Returns whether the tokenizer puts a blank before a text, with which the text of its first token then begins. */
bool bpe_prepends(const struct bpe *bpe);
/* Returns whether the id is special: it stands for no text, such as <|begin_of_text|>. */
bool bpe_is_special(const struct bpe *bpe, int32_t id);
/* Returns the id of the token with these bytes, special or not; -1: none. */
int32_t bpe_find(const struct bpe *bpe, const char *token, int64_t bytes);

/* Returns the id with a role, -1: none. Roles come from tokenizer_config.json if given, else from the tokens that the
 * file puts around texts, else from names that are common in models. */
enum bpe_role { BPE_BOS, BPE_EOS, BPE_PAD, BPE_UNK, BPE_MASK, BPE_ROLES };
int32_t bpe_role(const struct bpe *bpe, enum bpe_role role);
/* Return whether the tokenizer puts BOS before a text, and EOS after it (Llama 3: true, false). bpe_encode does not;
 * the loader's windows do. */
bool bpe_begins(const struct bpe *bpe);
bool bpe_ends(const struct bpe *bpe);

/* Returns the kind of the model: "bpe", "unigram", "wordpiece" or "words". */
const char *bpe_model(const struct bpe *bpe);
/* Returns the XXH3 of the file: tokenizers with equal files differ only in roles. */
uint64_t bpe_digest(const struct bpe *bpe);

/* Opens the encoder of one thread: a cache of words, and buffers. About 3 MB. */
struct bpe_encoder *bpe_encoder_open(const struct bpe *bpe);
/* Accepts NULL. */
void bpe_encoder_close(struct bpe_encoder *encoder);

/* Encodes a text, which must be a whole record: two halves encode differently. *ids: [*count], owned by the encoder
 * until the next call. `specials`: special tokens written in the text ("<|eot_id|>") become their ids, as in prompts;
 * otherwise they are ordinary text, as training data requires. Added tokens that are not special are always recognised,
 * as in Hugging Face's library. ERROR_USER: a pattern of the file needs too much memory or time for this text, a word
 * has more than 256 MiB, or a byte has no token and the model no unk_token. */
int bpe_encode(struct bpe_encoder *encoder, const char *text, int64_t bytes, bool specials, const int32_t **ids,
               int64_t *count);

/* Reports the special tokens written in the texts encoded since the last call, each id with its number, whether or not
 * they became ids. */
typedef void bpe_special(void *self, int32_t id, int64_t count);
void bpe_take_specials(struct bpe_encoder *encoder, bpe_special *take, void *self);

#endif
