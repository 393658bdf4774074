/* Mapped files: read-only, and one copy in memory for all processes of a node. If the file is cut short or its disk
 * fails while it is mapped, reading it raises SIGBUS; the program then ends by error_lost, which names the file. */
#ifndef FILE_MAPPING_H
#define FILE_MAPPING_H

#include <stdint.h>

struct file_mapping {
    char *path;
    const unsigned char *data; /* [bytes] */
    int64_t bytes;             /* > 0 */
    int64_t modified;          /* when the file was changed last, in nanoseconds since 1970 */
    uint64_t device, inode;    /* which file it is */
    struct file_mapping *next; /* of all that are open */
};

/* Files are opened and closed by one thread at a time. Errors: ERROR_USER: there is no such
 * file, it is empty or no regular file; ERROR_ENVIRONMENT: it cannot be mapped. `what` is its kind, for messages. */
int mapping_open(struct file_mapping **mapping, const char *path, const char *what);

/* What lies at the path now, by its time of change, size and inode. Local. */
enum mapping_state {
    MAPPING_SAME,     /* what was opened */
    MAPPING_REPLACED, /* another file, or none: what was opened is mapped as before */
    MAPPING_CHANGED   /* the same file, written to since it was opened */
};
enum mapping_state mapping_state(const struct file_mapping *mapping);

/* NULL is fine. */
void mapping_close(struct file_mapping *mapping);

#endif
