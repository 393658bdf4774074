/* The files of a tokenizer, as they are: what stores and checkpoints keep of it, and what an export writes again. */
#ifndef TOKENIZER_BUNDLE_H
#define TOKENIZER_BUNDLE_H

#include <stdbool.h>
#include <stdint.h>

/* In this order. One of the first two is the tokenizer itself, whatever its file was called: BUNDLE_JSON begins with
 * '{', BUNDLE_RANKS is tiktoken's. The next two say which tokens have which role, the last which end a generation. */
enum bundle_kind { BUNDLE_JSON, BUNDLE_RANKS, BUNDLE_CONFIG, BUNDLE_SPECIALS, BUNDLE_GENERATION, BUNDLE_KINDS };
extern const char *const bundle_names[BUNDLE_KINDS];

struct bundle {
    struct {
        void *data; /* [bytes] */
        int64_t bytes;
    } files[BUNDLE_KINDS]; /* NULL: there is none */
};

/* Reads the file `where` and those beside it that belong to it, or those of a folder. bundle_destroy in any case.
 * ERROR_USER: there is none, it is empty or larger than BUNDLE_BYTES. */
enum { BUNDLE_BYTES = 1 << 27 };
int bundle_read(struct bundle *bundle, const char *where);
/* Does a file's content begin with '{', behind blanks? */
bool bundle_is_json(const void *data, int64_t bytes);
/* A copy of a file's content; replaces what was there. */
void bundle_put(struct bundle *bundle, enum bundle_kind kind, const void *data, int64_t bytes);
struct bundle bundle_copy(const struct bundle *bundle);
void bundle_destroy(struct bundle *bundle);

/* Bytes of all files. */
int64_t bundle_bytes(const struct bundle *bundle);

#endif
