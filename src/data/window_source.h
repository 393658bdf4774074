/* Windows, and where they come from: a token store (data/windows.h), a data set of Megatron-LM
 * (data/megatron_windows.h) or random numbers (data/random_windows.h). */
#ifndef DATA_WINDOW_SOURCE_H
#define DATA_WINDOW_SOURCE_H

#include "tokenizer/tokenizer.h"

#include <stdbool.h>
#include <stdint.h>

struct token_window {
    int64_t number; /* in the source's order */
    int64_t sequence;
    int64_t start;  /* where the source has its first token */
    int64_t length; /* tokens without BOS and EOS; may be 0 where only EOS is left */
    bool has_bos, has_eos;
    bool followed; /* the source has a token behind the last one, which that predicts; no EOS then */
};

/* Tokens of a window, BOS and EOS included. */
int64_t window_length(const struct token_window *window);

struct window_source_class {
    /* Window number w of an epoch. *hint belongs to the caller and starts at 0; it makes lookups in order cheap. */
    struct token_window (*locate)(void *self, int64_t w, int64_t *hint);
    /* Reads tokens from .. from + count - 1 of a window into tokens[count], the one behind a followed window among
     * them. BOS and EOS are not counted. */
    void (*read)(void *self, const struct token_window *window, int64_t from, int64_t count, int32_t *tokens);
};

struct window_source {
    const struct window_source_class *class;
    void *self;
    const struct tokenizer *tokenizer;
    int64_t windows; /* in an epoch */
};

#endif
