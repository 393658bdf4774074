/* Tuned kernels: which of several kernels an executor uses for a GEMM or attention, found by timing or suggested by a
 * library. A table maps keys (whatever selects a kernel, such as shapes and types) to values. Its bytes go into the
 * tuning cache and checkpoints, and to other ranks, so that all compute the same. */
#ifndef CORE_TUNED_KERNELS_H
#define CORE_TUNED_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

enum { TUNING_KEY_BYTES = 128, TUNING_VALUE_BYTES = 64, TUNING_IDENTITY_BYTES = 128, TUNING_ENTRIES = 1024 };

/* Keys are compared as bytes, so their padding must be zero. */
struct tuning_entry {
    int32_t kind, key_bytes, value_bytes, reserved;
    char key[TUNING_KEY_BYTES], value[TUNING_VALUE_BYTES]; /* zero after key_bytes and value_bytes */
};

struct tuning_table {
    struct tuning_head {
        char magic[8];
        uint64_t checksum; /* checksum of everything after this member */
        int64_t count;
        char identity[TUNING_IDENTITY_BYTES];
    } head;
    struct tuning_entry entries[TUNING_ENTRIES];
    bool used[TUNING_ENTRIES]; /* used by this process; not part of the table's bytes */
};

/* Makes an empty table. identity names the device and library versions that it is valid for, such as "NVIDIA H200,
 * cuBLASLt 130100"; it is truncated if too long. */
void tuning_table_create(struct tuning_table *table, const char *identity);

/* Copies a key's value to `value`. Returns false if the key is missing or its value has another size. */
bool tuning_table_find(struct tuning_table *table, int kind, const void *key, int64_t key_bytes, void *value,
                       int64_t value_bytes);
/* Adds a value, or replaces the key's value. In a full table it replaces an entry that this process has not used; if
 * all are used, nothing is stored, and the caller chooses again at the next use. Fatal: a key or a value is too large.
 */
void tuning_table_keep(struct tuning_table *table, int kind, const void *key, int64_t key_bytes, const void *value,
                       int64_t value_bytes);

/* Returns the table's bytes, valid until the next change. */
const void *tuning_table_bytes(struct tuning_table *table, int64_t *bytes);
/* Replaces all entries by those of a table's bytes. Returns false, and changes nothing, if they are damaged or of
 * another identity. */
bool tuning_table_load(struct tuning_table *table, const void *from, int64_t bytes);
/* Adds the entries of a table's bytes; they replace entries with the same key, and do not count as used. Returns false,
 * and changes nothing, if the bytes are damaged or of another identity. */
bool tuning_table_add(struct tuning_table *table, const void *from, int64_t bytes);
/* Makes a table of the entries of `from` that differ from those at the same index in `others` (NULL, 0: an empty
 * table). Damaged bytes make an empty table. */
void tuning_table_create_new(struct tuning_table *table, const void *from, int64_t bytes, const void *others,
                             int64_t other_bytes);

/* Divides the timing of kernels among ranks: each key is timed by one rank. ranks 0: this rank times all keys; rank -1:
 * this rank times none. */
struct tuning_share {
    int rank, ranks;
};

/* Returns whether this rank times the kernels of a key. */
bool tuning_share_has(const struct tuning_share *share, int kind, const void *key, int64_t key_bytes);

/* Returns whether bytes begin as a table does; the table may be damaged or truncated. Returns true for 0 bytes. */
bool tuning_table_begins(const void *from, int64_t bytes);
/* tuning_table_count returns the number of entries in a table's bytes, tuning_table_identity writes their identity; -1
 * and "" if they are damaged. */
int64_t tuning_table_count(const void *from, int64_t bytes);
void tuning_table_identity(char identity[TUNING_IDENTITY_BYTES], const void *from, int64_t bytes);

#endif
