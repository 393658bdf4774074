/* Window index of a token store: the number of each sequence's first window, in a side file or in memory.
 *
 * The side file is STORE.windows-<window>-<overlap>-<each|ends|first>, followed by -no_bos or -no_eos if those tokens
 * are omitted. It has a header (struct windows_header) and u64 first[sequences + 1]; first[i] is the number of sequence
 * i's first window. It is made once, when the whole store is read and compared with its checksum, and then mapped: one
 * copy per node, and constant private memory. It is valid only for the store file that it was made from. One rank per
 * node compares the index with its own hash at each start. */
#ifndef DATA_WINDOWS_INDEX_H
#define DATA_WINDOWS_INDEX_H

#include "file/mapping.h"
#include "data/token_store.h"
#include "data/windows_layout.h"

#include <stdbool.h>
#include <stdint.h>

struct windows_header {
    char magic[8];
    uint64_t checksum;             /* checksum of the store */
    int64_t window, overlap, code; /* the layout; code is windows_code */
    int64_t sequences;
    int64_t store_bytes, store_modified; /* of the store file: size in bytes, time of modification in ns since 1970 */
    uint64_t store_inode;                /* of the store file */
    int64_t windows, tokens;             /* totals; special tokens included */
    uint64_t hash;                       /* xxh3 of first[] and of the header's members before this one */
};

struct windows_index {
    const struct token_store *store; /* borrowed; set before the other functions are called */
    struct windows_header header;
    const uint64_t *first; /* [sequences + 1], in the map or in `table` */
    struct file_mapping *map;
    uint64_t *table; /* used if there can be no side file */
};

/* Counts the windows and tokens of a store from its offsets into *header, without a side file. ERROR_USER: offsets that
 * are not monotone; ERROR_REQUEUE: a signal stopped it. */
int windows_index_measure(const struct token_store *store, const struct windows_layout *layout,
                          struct windows_header *header);

/* Sets index->first and index->header from the side file of this very store file, after comparing its hash. If there is
 * no valid side file, makes one, which includes reading the whole store and comparing it with its checksum; if it
 * cannot be written, index->first stays NULL. A process that is killed meanwhile leaves PATH.tmp, whose lock the kernel
 * releases; the next process takes it over. Errors: as in token_store_verify and windows_index_measure. */
int windows_index_obtain(struct windows_index *index, const struct windows_layout *layout);

/* Sets index->first and index->header from an existing side file of a store with the same checksum and layout, and
 * compares its hash if `hash`. Returns false if there is none. */
bool windows_index_map(struct windows_index *index, const struct windows_layout *layout, bool hash);

/* Sets index->first and index->header from a table in this process's memory. Errors: as in windows_index_measure. */
int windows_index_tabulate(struct windows_index *index, const struct windows_layout *layout);

/* Unmaps or frees the index; it may be empty. */
void windows_index_close(struct windows_index *index);

#endif
