/* Layout of windows: splits each sequence of a token store into windows, and counts them.
 *
 *    WINDOWS_EACH    Special tokens in every window. A sequence of L tokens is split into pieces of up to
 *                    M = window - 2 tokens (window - 1 with one special token, as in the recipe for text). Pieces
 *                    begin every M - overlap tokens; the last one is the first that reaches the sequence's end.
 *    WINDOWS_ENDS    Special tokens per sequence, as in Megatron-LM: BOS + sequence + EOS is split, with M = window.
 *    WINDOWS_FIRST   The first window of WINDOWS_EACH; the rest of the sequence is dropped (truncation in the ESM-2
 *                    recipe).
 *
 * A sequence without tokens has no window. */
#ifndef DATA_WINDOWS_LAYOUT_H
#define DATA_WINDOWS_LAYOUT_H

#include "data/window_source.h"

enum windows_mode {
    WINDOWS_EACH, /* BOS and EOS around every window */
    WINDOWS_ENDS, /* BOS and EOS at the sequence's ends only */
    WINDOWS_FIRST /* only the first window of WINDOWS_EACH */
};

struct windows_layout {
    int64_t window;  /* tokens of a window, special tokens included */
    int64_t overlap; /* tokens that neighbouring windows share */
    enum windows_mode mode;
    bool no_bos, no_eos; /* omit this special token */
};

/* Returns the number of special tokens of a window or a sequence: 0, 1 or 2. */
int64_t windows_specials(const struct windows_layout *layout);

/* windows_code returns mode, no_bos and no_eos as one number, for files; windows_layout_from makes the layout from
 * it. */
int64_t windows_code(const struct windows_layout *layout);
struct windows_layout windows_layout_from(int64_t window, int64_t overlap, int64_t code);

/* Return the windows, and the tokens in them (special tokens included), of a sequence of `length` tokens. */
int64_t windows_count(const struct windows_layout *layout, int64_t length);
int64_t windows_tokens(const struct windows_layout *layout, int64_t length);
/* Returns window k of a sequence. Its start counts from the sequence's start; the caller sets number and sequence. */
struct token_window windows_at(const struct windows_layout *layout, int64_t length, int64_t k);

/* Checks the layout. ERROR_USER: a window too small (data.window); an overlap that is negative, too large, or combined
 * with WINDOWS_FIRST (data.overlap). */
int windows_check_layout(const struct windows_layout *layout);

#endif
