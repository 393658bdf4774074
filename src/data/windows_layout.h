/* Windows of a token store: which stretch of which sequence window number w is, and how many there are.
 * With specials in every window (the recipe), a sequence of L tokens is cut into stretches of up to M = window - 2
 * tokens (window - 1 with one special token, as the recipe for text has it) that begin every M - overlap tokens and end
 * with the first one that reaches the sequence's end; each gets BOS and EOS. With specials per sequence (Megatron's),
 * BOS + sequence + EOS is cut the same way with M = window. Or only the first window with specials is taken, and what a
 * sequence has beyond it is left out (the ESM-2 recipe's truncation). A sequence without tokens has no window. */
#ifndef DATA_WINDOWS_LAYOUT_H
#define DATA_WINDOWS_LAYOUT_H

#include "data/window_source.h"

enum windows_cut {
    WINDOWS_EACH, /* BOS and EOS around every window */
    WINDOWS_ENDS, /* BOS and EOS at the sequence's ends only */
    WINDOWS_FIRST /* the first of WINDOWS_EACH alone */
};

struct windows_layout {
    int64_t window;  /* tokens of a window, specials included */
    int64_t overlap; /* tokens that neighbours share */
    enum windows_cut cut;
    bool no_bos, no_eos; /* that special token is left out */
};

/* BOS and EOS that a window or a sequence gets: 0, 1 or 2. */
int64_t windows_specials(const struct windows_layout *layout);

/* Cut and specials as one number, for files, and back. */
int64_t windows_code(const struct windows_layout *layout);
struct windows_layout windows_layout_from(int64_t window, int64_t overlap, int64_t code);

/* Windows and tokens in them (specials included) of a sequence of `length` tokens. */
int64_t windows_count(const struct windows_layout *layout, int64_t length);
int64_t windows_tokens(const struct windows_layout *layout, int64_t length);
/* The k-th of these windows: its start counts from the sequence's; number and sequence are left to the caller. */
struct token_window windows_cut(const struct windows_layout *layout, int64_t length, int64_t k);

/* ERROR_USER: a window too small (data.window), an overlap that leaves no progress or has no neighbour
 * (data.overlap). */
int windows_check_layout(const struct windows_layout *layout);

#endif
