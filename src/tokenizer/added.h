/* Added tokens, which are found in the text before the model encodes the rest. As in Hugging Face's tokenizers, the
 * leftmost match wins, and of several at one position the longest. */
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
    bool single_word;    /* matches only if no word character is next to it */
    bool lstrip, rstrip; /* include white space before it, or after it */
};

struct added;

/* Makes a set of tokens with different texts, and takes ownership of the texts. NULL if count is 0. */
struct added *added_open(struct added_token *tokens, int64_t count);
/* Accepts NULL. */
void added_close(struct added *added);

/* Receives a part of the text: a token, or text between tokens (id -1). Any result but ERROR_NONE ends the search. */
typedef int added_taker(void *context, const unsigned char *text, int64_t bytes, int32_t id);

/* Passes the parts of a text, valid UTF-8, to `take`, in order, and returns its code. Without `specials`, special
 * tokens stay text. In both cases adds the number of special tokens in the text to met[added_count]. added and met are
 * both NULL if there are no tokens. */
int added_run(const struct added *added, const unsigned char *text, int64_t bytes, bool specials, int64_t *met,
              added_taker *take, void *context);

/* Return the number of tokens in the set (0 for NULL), and the id of each. */
int64_t added_count(const struct added *added);
int32_t added_id(const struct added *added, int64_t number);

#endif
