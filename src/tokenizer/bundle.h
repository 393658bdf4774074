/* The original files of a tokenizer, for stores, checkpoints and exports. */
#ifndef TOKENIZER_BUNDLE_H
#define TOKENIZER_BUNDLE_H

#include <stdbool.h>
#include <stdint.h>

/* Kinds of files, in the order of bundle_names. The first that is there of the first two is the tokenizer itself,
 * whatever the file's name: BUNDLE_JSON begins with '{', BUNDLE_MODEL is a model of SentencePiece or a rank file of
 * tiktoken; beside a BUNDLE_JSON it is copied only. BUNDLE_CONFIG defines the roles of tokens, BUNDLE_GENERATION the
 * tokens that end a generation. The others are not read here, but copied for programs that use an export. */
enum bundle_kind {
    BUNDLE_JSON,
    BUNDLE_MODEL,
    BUNDLE_CONFIG,
    BUNDLE_SPECIALS,
    BUNDLE_GENERATION,
    BUNDLE_ADDED,
    BUNDLE_CHAT,      /* chat template */
    BUNDLE_CHAT_JSON, /* chat template in the format of older programs */
    BUNDLE_VOCABULARY,
    BUNDLE_MERGES,
    BUNDLE_WORDS, /* vocab.txt: a token a line */
    BUNDLE_KINDS
};
extern const char *const bundle_names[BUNDLE_KINDS];

struct tokenizer_bundle {
    struct {
        void *data; /* [bytes] */
        int64_t bytes;
    } files[BUNDLE_KINDS]; /* data is NULL: no such file */
};

/* Reads the tokenizer file `where` and its companions in the same folder, or all files of the folder `where`. Without a
 * tokenizer file, vocab.json with merges.txt makes one (tokenizer/vocabulary_files.h).
 * Companions from BUNDLE_SPECIALS on that are empty, and a folder of further chat templates, are dropped with a
 * warning. Call bundle_destroy also after an error. ERROR_USER: no tokenizer file, an empty tokenizer or config file,
 * or a file that is larger than BUNDLE_BYTES or not a regular file. */
enum { BUNDLE_BYTES = 1 << 27 };
int bundle_read(struct tokenizer_bundle *bundle, const char *where);
/* Returns whether a file's content begins with '{', after blanks. */
bool bundle_is_json(const void *data, int64_t bytes);
/* Copies a file's content into the bundle, replacing an earlier one. */
void bundle_put(struct tokenizer_bundle *bundle, enum bundle_kind kind, const void *data, int64_t bytes);
struct tokenizer_bundle bundle_copy(const struct tokenizer_bundle *bundle);
/* Copies the files that `bundle` lacks from another bundle of the same tokenizer. */
void bundle_complete(struct tokenizer_bundle *bundle, const struct tokenizer_bundle *from);
void bundle_destroy(struct tokenizer_bundle *bundle);

/* Returns the bytes of all files. */
int64_t bundle_bytes(const struct tokenizer_bundle *bundle);

#endif
