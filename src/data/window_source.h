/* Interface of sources of windows: token stores (data/windows.h), Megatron data sets (data/megatron_windows.h) and
 * random data (data/random_windows.h). */
#ifndef DATA_WINDOW_SOURCE_H
#define DATA_WINDOW_SOURCE_H

#include "tokenizer/tokenizer.h"

#include <stdbool.h>
#include <stdint.h>

struct token_window {
    int64_t number; /* number in the source's order */
    int64_t sequence;
    int64_t start;  /* index of its first token in the source */
    int64_t length; /* tokens without BOS and EOS; may be 0 if only EOS is left */
    bool has_bos, has_eos;
    bool followed; /* the source has a token after the window, which is the label of the last token; then there is no
                      EOS */
};

/* Returns the tokens of a window, BOS and EOS included. */
int64_t window_length(const struct token_window *window);

struct window_source_class {
    /* Writes windows number w[count] of an epoch, in any order, to windows[count]. Many in one call are faster, since
     * their reads of memory overlap. */
    void (*locate)(void *self, const int64_t *w, int64_t count, struct token_window *windows);
    /* Reads tokens from .. from + count - 1 of a window into tokens[count], BOS and EOS not counted. For a followed
     * window the range may include the token after the last one. */
    void (*read)(void *self, const struct token_window *window, int64_t from, int64_t count, int32_t *tokens);
};

struct token_store;

struct window_source {
    const struct window_source_class *class;
    void *self;
    const struct tokenizer *tokenizer;
    int64_t windows;                    /* windows in an epoch */
    const struct token_store *labelled; /* the store of the windows if it has labels, else NULL */
};

#endif
