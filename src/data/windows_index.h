/* The number of each sequence's first window, in a side file or in memory.
 * The counts lie cumulated in a side file STORE.windows-<window>-<overlap>-<each|ends|first>, with -no_bos or -no_eos
 * behind it where these are left out: a header (struct
 * windows_header) and u64 first[sequences + 1], first[i] being the number of sequence i's first window. It is made
 * once, when the store is read whole and compared with its checksum, and mapped: one copy a node, flat private memory.
 * It is good for the very file that it was made of, and its own hash is compared at each start, by one rank of a node.
 */
#ifndef DATA_WINDOWS_INDEX_H
#define DATA_WINDOWS_INDEX_H

#include "file/mapping.h"
#include "data/token_store.h"
#include "data/windows_layout.h"

#include <stdbool.h>
#include <stdint.h>

struct windows_header {
    char magic[8];
    uint64_t checksum;            /* of the store */
    int64_t window, overlap, cut; /* the layout; windows_code */
    int64_t sequences;
    int64_t store_bytes, store_modified; /* which file it was made of: its size, nanoseconds since 1970, */
    uint64_t store_inode;                /* its number in the file system */
    int64_t windows, tokens;             /* totals; tokens with specials */
    uint64_t hash;                       /* xxh3 of first[] and of all this before it */
};

struct windows_index {
    const struct token_store *store; /* borrowed; set before anything is obtained */
    struct windows_header header;
    const uint64_t *first; /* [sequences + 1], in the map or in `table` */
    struct file_mapping *map;
    uint64_t *table; /* where no side file can be had */
};

/* Windows and tokens of a store go to *header, by reading its offsets; no side file is made. ERROR_USER: offsets that
 * are not monotone; ERROR_REQUEUE: a signal came. */
int windows_index_measure(const struct token_store *store, const struct windows_layout *layout,
                          struct windows_header *header);

/* Gives index->first and ->header from the side file, which must be of this very file and undamaged: its hash is
 * compared. If there is none, it is made, and for that the whole store is read and compared with its checksum; if it
 * cannot be made, index->first stays NULL. A process that is killed while it makes one leaves PATH.tmp, whose lock the
 * kernel releases; the next process here takes it over. Errors: those of token_store_verify and of
 * windows_index_measure. */
int windows_index_obtain(struct windows_index *index, const struct windows_layout *layout);

/* The same from a side file that is of a store with this checksum and layout, without comparing its hash unless `hash`;
 * it is not made. False where there is none. */
bool windows_index_map(struct windows_index *index, const struct windows_layout *layout, bool hash);

/* The same as a table in this process's memory. Errors of windows_index_measure. */
int windows_index_tabulate(struct windows_index *index, const struct windows_layout *layout);

/* Frees what it holds; an empty index may be closed too. */
void windows_index_close(struct windows_index *index);

#endif
