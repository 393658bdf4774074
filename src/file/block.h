/* The side file of a checkpoint: the hash of each range (hash block) of the file when it was written. The ranges cover
 * the file from its first byte to its last, HDF5's own data included. Text:
 *   cistron-blocks 2 <bytes of the file>
 *   <offset> <length> <xxh3-64 in hexadecimal>[ t]  one line for each block, by offset; t: of a tensor
 *   end <xxh3-64 of all that stands above> */
#ifndef FILE_BLOCK_H
#define FILE_BLOCK_H

#include <stdbool.h>
#include <stdint.h>

enum { BLOCK_SIDE_BYTES = 256 << 20 }; /* the most of a side file: a line is 60 bytes, a block mostly 4 MiB */

struct hash_block {
    int64_t offset, length; /* bytes */
    uint64_t hash;
    bool tensor; /* bytes of a tensor, which HDF5 never parses; files of version 1 do not say it */
};

struct block_list {
    struct hash_block *blocks; /* owned */
    int64_t count, capacity;
};

void block_list_add(struct block_list *list, struct hash_block block);
void block_list_destroy(struct block_list *list);
/* By offset. */
void block_list_sort(struct block_list *list);

/* Hash of a range of a file; errors of file_read. */
int block_hash_range(int descriptor, const char *path, int64_t offset, int64_t length, uint64_t *hash);

/* Sorts by offset, and adds as blocks of no tensor the hashes of all ranges of the file (of `bytes` bytes) that the
 * list does not have. */
int block_list_complete(struct block_list *list, int descriptor, const char *path, int64_t bytes);

/* Writes the side file and flushes it to the disk. ERROR_ENVIRONMENT. */
int block_list_write(const struct block_list *list, const char *path, int64_t bytes);
/* Reads the side file and checks it: ERROR_USER when it is damaged or too large. */
int block_list_read(struct block_list *list, const char *path, int64_t *bytes);

/* The ending of a side file. */
#define BLOCK_SIDE ".xxh3"
/* "<path>.xxh3"; freed with free(). */
char *block_side_path(const char *path);

/* disk_check_output, for an output that is not a checkpoint: it never replaces a checkpoint. ERROR_USER. */
int block_check_output(const char *path, int how, const char *const inputs[], int64_t count);

#endif
