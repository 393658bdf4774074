/* Windows of a token store: which stretch of which sequence window number w is, and how many there are.
 * With specials in every window (the recipe), a sequence of L tokens is cut into stretches of up to M = window - 2
 * tokens that begin every M - overlap tokens and end with the first one that reaches the sequence's end; each gets BOS
 * and EOS. With specials per sequence (Megatron's), BOS + sequence + EOS is cut the same way with M = window.
 * Or only the first window with specials is taken, and what a sequence has beyond it is left out (the ESM-2 recipe's
 * truncation). A sequence without tokens has no window.
 *
 * The counts lie cumulated in a side file STORE.windows-<window>-<overlap>-<each|ends|first>: a header (struct
 * windows_header) and u64 first[sequences + 1], first[i] being the number of sequence i's first window. It is made
 * once, when the store is read whole and compared with its checksum, and mapped: one copy a node, flat private memory.
 * It is good for the very file that it was made of, and its own hash is compared at each start, by one rank of a node.
 */
#ifndef DATA_WINDOWS_H
#define DATA_WINDOWS_H

#include "comm/comm.h"
#include "data/token_store.h"
#include "data/window_source.h"

#include <stdbool.h>
#include <stdint.h>

enum windows_cut {
    WINDOWS_EACH, /* BOS and EOS around every window */
    WINDOWS_ENDS, /* BOS and EOS at the sequence's ends only */
    WINDOWS_FIRST /* the first of WINDOWS_EACH alone */
};

struct windows_layout {
    int64_t window;  /* tokens of a window, specials included */
    int64_t overlap; /* tokens that neighbours share */
    enum windows_cut cut;
};

struct windows_header {
    char magic[8];
    uint64_t checksum;            /* of the store */
    int64_t window, overlap, cut; /* the layout */
    int64_t sequences;
    int64_t store_bytes, store_modified; /* which file it was made of: its size, nanoseconds since 1970, */
    uint64_t store_inode;                /* its number in the file system */
    int64_t windows, tokens;             /* totals; tokens with specials */
    uint64_t hash;                       /* xxh3 of first[] and of all this before it */
};

struct windows {
    struct window_source source;
    const struct token_store *store;
    struct windows_header header;
    const uint64_t *first; /* [sequences + 1], in the map or in `table` */
    struct mapping *map;
    uint64_t *table; /* where no side file can be had */
};

/* Windows and tokens in them (specials included) of a sequence of `length` tokens. */
int64_t windows_count(const struct windows_layout *layout, int64_t length);
int64_t windows_tokens(const struct windows_layout *layout, int64_t length);
/* The k-th of these windows: its start counts from the sequence's; number and sequence are left to the caller. */
struct window windows_cut(const struct windows_layout *layout, int64_t length, int64_t k);

/* ERROR_USER: a window too small (data.window), an overlap that leaves no progress or has no neighbour
 * (data.overlap). */
int windows_check_layout(const struct windows_layout *layout);

/* Windows and tokens of a whole store, by reading its offsets; no side file is made. Local. Errors as windows_open. */
int windows_measure(const struct token_store *store, const struct windows_layout *layout, int64_t *windows,
                    int64_t *tokens);

/* Collective over world: rank 0 makes the side file where there is none that fits, ranks that see other folders make
 * theirs, then all map it; where a folder cannot be written each rank makes a private table, with a warning, and the
 * store is not compared with its checksum. Borrows the store. The same code on all ranks; user errors: an overlap that
 * leaves no progress (data.overlap), a window too small, a damaged store (token_store_verify). ERROR_REQUEUE: a signal
 * came meanwhile (base/signals.h); nothing is left behind. */
int windows_open(struct windows **windows, const struct token_store *store, const struct windows_layout *layout,
                 struct comm *world);
void windows_close(struct windows *windows);

/* Window number w of the store's order. *hint is a sequence number, any at first, that makes walks in store order
 * cheap; it is updated. What was changed since windows_open and would lead beyond the store is fatal. */
struct window windows_locate(const struct windows *windows, int64_t w, int64_t *hint);

#endif
