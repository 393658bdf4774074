/* Added tokens: those that are looked for in the text before a model sees it. The leftmost is taken, of several that
 * begin there the longest, as Hugging Face's tokenizers do it. */
#ifndef TOKENIZER_ADDED_H
#define TOKENIZER_ADDED_H

#include <stdbool.h>
#include <stdint.h>

enum { ADDED_BYTES_MOST = 1 << 10 };

struct added_token {
    char *text; /* [bytes], 1 .. ADDED_BYTES_MOST; owned by the set, freed with free() */
    int64_t bytes;
    int32_t id;
    bool special;
    bool single_word;    /* only where no letter or digit is beside it */
    bool lstrip, rstrip; /* takes white space before it, behind it along */
};

struct added;

/* A set of tokens, whose texts differ and which it takes over; NULL for none. */
struct added *added_open(struct added_token *tokens, int64_t count);
/* NULL is fine. */
void added_close(struct added *added);

/* What is done with a part of the text: a token, or text between tokens (id -1). Anything but ERROR_NONE ends the
 * search. */
typedef int added_taker(void *context, const unsigned char *text, int64_t bytes, int32_t id);

/* Hands the parts of a text, valid UTF-8, to `take` in order. Without `specials`, special tokens are text. Either way
 * met[added_count] counts those that are in it; NULL where there is no set. */
int added_run(const struct added *added, const unsigned char *text, int64_t bytes, bool specials, int64_t *met,
              added_taker *take, void *context);

/* Tokens of the set, 0 of NULL, and the id of each. */
int64_t added_count(const struct added *added);
int32_t added_id(const struct added *added, int64_t number);

#endif
