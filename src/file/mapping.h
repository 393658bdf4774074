/* Memory-mapped files: read-only, with one copy in memory for all processes of a node. If the file is truncated or its
 * disk fails while it is mapped, reading it raises SIGBUS, and the program ends with error_lost, which names the file.
 */
#ifndef FILE_MAPPING_H
#define FILE_MAPPING_H

#include <stdint.h>

struct file_mapping {
    char *path;
    const unsigned char *data; /* [bytes] */
    int64_t bytes;             /* > 0 */
    int64_t modified;          /* time of the last change, in nanoseconds since 1970 */
    uint64_t device, inode;    /* identify the file */
    struct file_mapping *next; /* list of all open mappings */
};

/* Maps a file; free it with mapping_close. Not thread-safe, nor is mapping_close. `what`: kind of file, for messages.
 * ERROR_USER: the file is missing, empty, or not a regular file. ERROR_ENVIRONMENT: it cannot be mapped. */
int mapping_open(struct file_mapping **mapping, const char *path, const char *what);

/* Compares the mapped file with the file now at its path, by modification time, size and inode. Local. */
enum mapping_state {
    MAPPING_SAME,     /* unchanged */
    MAPPING_REPLACED, /* there is another file or none; the mapping still has the old content */
    MAPPING_CHANGED   /* the same file, changed since it was opened */
};
enum mapping_state mapping_state(const struct file_mapping *mapping);

/* mapping: may be NULL. */
void mapping_close(struct file_mapping *mapping);

#endif
