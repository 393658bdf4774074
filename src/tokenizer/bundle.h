/* The files of a tokenizer, as they are: what stores and checkpoints keep of it, and what an export writes again. */
#ifndef TOKENIZER_BUNDLE_H
#define TOKENIZER_BUNDLE_H

#include <stdbool.h>
#include <stdint.h>

/* In this order. One of the first two is the tokenizer itself, whatever its file was called: BUNDLE_JSON begins with
 * '{', BUNDLE_RANKS is tiktoken's. BUNDLE_CONFIG says which tokens have which role, BUNDLE_GENERATION which end a
 * generation. The others are kept unread, for the programs that an export is for. */
enum bundle_kind {
    BUNDLE_JSON,
    BUNDLE_RANKS,
    BUNDLE_CONFIG,
    BUNDLE_SPECIALS,
    BUNDLE_GENERATION,
    BUNDLE_ADDED,
    BUNDLE_CHAT,      /* how turns of a chat are written */
    BUNDLE_CHAT_JSON, /* the same, as older programs have it */
    BUNDLE_VOCABULARY,
    BUNDLE_MERGES,
    BUNDLE_KINDS
};
extern const char *const bundle_names[BUNDLE_KINDS];

struct tokenizer_bundle {
    struct {
        void *data; /* [bytes] */
        int64_t bytes;
    } files[BUNDLE_KINDS]; /* NULL: there is none */
};

/* Reads the file `where` and those beside it that belong to it, or those of a folder. An empty file beside it, and a
 * folder of further chat templates, are not kept, with a warning. bundle_destroy in any case. ERROR_USER: there is
 * none, it is empty, or one is larger than BUNDLE_BYTES or no regular file. */
enum { BUNDLE_BYTES = 1 << 27 };
int bundle_read(struct tokenizer_bundle *bundle, const char *where);
/* Does a file's content begin with '{', behind blanks? */
bool bundle_is_json(const void *data, int64_t bytes);
/* A copy of a file's content; replaces what was there. */
void bundle_put(struct tokenizer_bundle *bundle, enum bundle_kind kind, const void *data, int64_t bytes);
struct tokenizer_bundle bundle_copy(const struct tokenizer_bundle *bundle);
/* Copies the files that `bundle` does not have from another bundle of the same tokenizer. */
void bundle_complete(struct tokenizer_bundle *bundle, const struct tokenizer_bundle *from);
void bundle_destroy(struct tokenizer_bundle *bundle);

/* Bytes of all files. */
int64_t bundle_bytes(const struct tokenizer_bundle *bundle);

#endif
