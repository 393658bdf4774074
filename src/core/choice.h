/* Which of several kernels an executor uses for a product or an attention: found by timing, or the first that a library
 * names. A table from keys (what makes two pieces of work the same) to values. As bytes it goes into a file for later
 * runs, into a checkpoint, and to other ranks, so that all compute alike. */
#ifndef CORE_CHOICE_H
#define CORE_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

enum { CHOICE_KEY_BYTES = 128, CHOICE_VALUE_BYTES = 64, CHOICE_IDENTITY_BYTES = 128, CHOICE_ENTRIES = 1024 };

/* Keys are compared as bytes, so they have no padding that is not zero. */
struct choice_entry {
    int32_t kind, key_bytes, value_bytes, reserved;
    char key[CHOICE_KEY_BYTES], value[CHOICE_VALUE_BYTES]; /* zero behind their ends */
};

struct choice_table {
    struct choice_head {
        char magic[8];
        uint64_t checksum; /* of all that follows */
        int64_t count;
        char identity[CHOICE_IDENTITY_BYTES];
    } head;
    struct choice_entry entries[CHOICE_ENTRIES];
    bool used[CHOICE_ENTRIES]; /* by this process; the last member: it does not leave */
};

/* An empty table, good for one kind of device and the versions of libraries: a text such as "NVIDIA H200, cuBLASLt
 * 130100", cut where it is too long. */
void choice_table_create(struct choice_table *table, const char *identity);

/* The value of a key; false: not there, or of another size. */
bool choice_table_find(struct choice_table *table, int kind, const void *key, int64_t key_bytes, void *value,
                       int64_t value_bytes);
/* Adds a value, or replaces the key's. In a full table it replaces an entry that this process has not used; if it has
 * used all, nothing is kept, and the caller chooses again at the next use. Fatal: a key or a value is too large. */
void choice_table_keep(struct choice_table *table, int kind, const void *key, int64_t key_bytes, const void *value,
                       int64_t value_bytes);

/* All of it, valid until the next change. */
const void *choice_table_bytes(struct choice_table *table, int64_t *bytes);
/* Replaces all entries by those of such bytes. Returns false, and changes nothing, if they are damaged or of another
 * identity. */
bool choice_table_take(struct choice_table *table, const void *from, int64_t bytes);
/* Keeps each choice of such bytes beside its own, or in place of its own of the same key; none is used by that. False
 * as above. */
bool choice_table_add(struct choice_table *table, const void *from, int64_t bytes);
/* Makes a table of those choices that are not in `others` (NULL, 0: nothing is) at the same place. Of damaged bytes: an
 * empty one. */
void choice_table_create_new(struct choice_table *table, const void *from, int64_t bytes, const void *others,
                             int64_t other_bytes);

/* Which keys a process times where several do it together: each key is one rank's. ranks 0: all keys are this one's;
 * rank -1: none is. */
struct choice_share {
    int rank, ranks;
};

bool choice_is_mine(const struct choice_share *share, int kind, const void *key, int64_t key_bytes);

/* Do bytes begin as a table's, which may be damaged or cut off? None do. */
bool choice_begins(const void *from, int64_t bytes);
/* Of bytes that left a table: how many choices they hold, what they are good for. -1, "": they are damaged. */
int64_t choice_count(const void *from, int64_t bytes);
void choice_identity(char identity[CHOICE_IDENTITY_BYTES], const void *from, int64_t bytes);

#endif
