#include "core/tuned_kernels.h"
#include "base/error.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

static const char magic[8] = "cistcho1";

static int64_t bytes_of(int64_t count)
{
    return (int64_t)sizeof(struct tuning_head) + count * (int64_t)sizeof(struct tuning_entry);
}

static uint64_t checksum_of(const void *from, int64_t bytes)
{
    const int64_t skipped = offsetof(struct tuning_head, count);
    return XXH3_64bits((const char *)from + skipped, (size_t)(bytes - skipped));
}

/* Returns entry i of a table's bytes, which may be unaligned. */
static struct tuning_entry entry_of(const void *from, int64_t i)
{
    struct tuning_entry entry;
    memcpy(&entry, (const char *)from + bytes_of(i), sizeof entry);
    return entry;
}

/* The checksum detects accidents; sizes are checked too because a file may be malicious. */
static bool entries_are_good(const void *from, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        const struct tuning_entry entry = entry_of(from, i);
        if (entry.key_bytes < 0 || entry.key_bytes > TUNING_KEY_BYTES || entry.value_bytes < 0 ||
            entry.value_bytes > TUNING_VALUE_BYTES)
            return false;
    }
    return true;
}

/* Copies the head of a table's bytes, which may be unaligned. Returns false if the bytes are damaged. */
static bool read_head(struct tuning_head *head, const void *from, int64_t bytes)
{
    if (bytes < bytes_of(0))
        return false;
    memcpy(head, from, sizeof *head);
    return memcmp(head->magic, magic, sizeof magic) == 0 && head->count >= 0 && head->count <= TUNING_ENTRIES &&
           bytes == bytes_of(head->count) && head->checksum == checksum_of(from, bytes) &&
           memchr(head->identity, '\0', TUNING_IDENTITY_BYTES) != NULL && entries_are_good(from, head->count);
}

void tuning_table_create(struct tuning_table *table, const char *identity)
{
    memset(table, 0, sizeof *table);
    memcpy(table->head.magic, magic, sizeof magic);
    snprintf(table->head.identity, sizeof table->head.identity, "%s", identity);
}

/* -- Entries ----------------------------------------------------------------------------------------------------- */

/* Returns the index of a key's entry; head.count if there is none. */
static int64_t place_of(const struct tuning_table *table, int kind, const void *key, int64_t key_bytes)
{
    for (int64_t i = 0; i < table->head.count; i++) {
        const struct tuning_entry *entry = &table->entries[i];
        if (entry->kind == kind && entry->key_bytes == key_bytes && memcmp(entry->key, key, (size_t)key_bytes) == 0)
            return i;
    }
    return table->head.count;
}

/* Returns the index of an unused entry of a full table; TUNING_ENTRIES: none. */
static int64_t unused_place(const struct tuning_table *table)
{
    int64_t i = 0;
    while (i < TUNING_ENTRIES && table->used[i])
        i++;
    return i;
}

bool tuning_table_find(struct tuning_table *table, int kind, const void *key, int64_t key_bytes, void *value,
                       int64_t value_bytes)
{
    int64_t i = key_bytes <= TUNING_KEY_BYTES ? place_of(table, kind, key, key_bytes) : table->head.count;
    if (i == table->head.count || table->entries[i].value_bytes != value_bytes)
        return false;
    table->used[i] = true;
    memcpy(value, table->entries[i].value, (size_t)value_bytes);
    return true;
}

void tuning_table_keep(struct tuning_table *table, int kind, const void *key, int64_t key_bytes, const void *value,
                       int64_t value_bytes)
{
    if (key_bytes > TUNING_KEY_BYTES || value_bytes > TUNING_VALUE_BYTES)
        error_fatal("bug: a choice of kind %d has a key of %lld and a value of %lld bytes", kind, (long long)key_bytes,
                    (long long)value_bytes);
    int64_t i = place_of(table, kind, key, key_bytes);
    if (i == TUNING_ENTRIES)
        i = unused_place(table);
    if (i == TUNING_ENTRIES)
        return;
    if (i == table->head.count)
        table->head.count++;
    struct tuning_entry *entry = &table->entries[i];
    memset(entry, 0, sizeof *entry);
    entry->kind = kind;
    entry->key_bytes = (int32_t)key_bytes;
    entry->value_bytes = (int32_t)value_bytes;
    memcpy(entry->key, key, (size_t)key_bytes);
    memcpy(entry->value, value, (size_t)value_bytes);
    table->used[i] = true;
}

/* -- Bytes ------------------------------------------------------------------------------------------------------- */

const void *tuning_table_bytes(struct tuning_table *table, int64_t *bytes)
{
    *bytes = bytes_of(table->head.count);
    table->head.checksum = checksum_of(table, *bytes);
    return table;
}

bool tuning_table_load(struct tuning_table *table, const void *from, int64_t bytes)
{
    struct tuning_head head;
    if (!read_head(&head, from, bytes) || strcmp(head.identity, table->head.identity) != 0)
        return false;
    memmove(table, from, (size_t)bytes); /* the bytes may be the table itself */
    memset(table->used, 0, sizeof table->used);
    return true;
}

static void keep_entry(struct tuning_table *table, const struct tuning_entry *entry)
{
    tuning_table_keep(table, entry->kind, entry->key, entry->key_bytes, entry->value, entry->value_bytes);
}

bool tuning_table_add(struct tuning_table *table, const void *from, int64_t bytes)
{
    struct tuning_head head;
    if (!read_head(&head, from, bytes) || strcmp(head.identity, table->head.identity) != 0)
        return false;
    bool used[TUNING_ENTRIES];
    memcpy(used, table->used, sizeof used);
    for (int64_t i = 0; i < head.count; i++) {
        const struct tuning_entry entry = entry_of(from, i);
        keep_entry(table, &entry);
    }
    memcpy(table->used, used, sizeof used); /* marked by tuning_table_keep, so that added entries did not replace each
                                               other in a full table */
    return true;
}

bool tuning_table_begins(const void *from, int64_t bytes)
{
    return memcmp(from, magic, bytes < (int64_t)sizeof magic ? (size_t)bytes : sizeof magic) == 0;
}

int64_t tuning_table_count(const void *from, int64_t bytes)
{
    struct tuning_head head;
    return read_head(&head, from, bytes) ? head.count : -1;
}

/* Returns whether entry i differs from that of `others`, which has `known` entries. */
static bool is_new(const void *from, int64_t i, const void *others, int64_t known)
{
    return i >= known || memcmp((const char *)from + bytes_of(i), (const char *)others + bytes_of(i),
                                sizeof(struct tuning_entry)) != 0;
}

void tuning_table_create_new(struct tuning_table *table, const void *from, int64_t bytes, const void *others,
                             int64_t other_bytes)
{
    int64_t count = tuning_table_count(from, bytes), known = tuning_table_count(others, other_bytes);
    char identity[TUNING_IDENTITY_BYTES];
    tuning_table_identity(identity, from, bytes);
    tuning_table_create(table, identity);
    for (int64_t i = 0; i < count; i++) {
        const struct tuning_entry entry = entry_of(from, i);
        if (is_new(from, i, others, known))
            keep_entry(table, &entry);
    }
}

void tuning_table_identity(char identity[TUNING_IDENTITY_BYTES], const void *from, int64_t bytes)
{
    struct tuning_head head;
    bool good = read_head(&head, from, bytes);
    memcpy(identity, good ? head.identity : (char[TUNING_IDENTITY_BYTES]){0}, TUNING_IDENTITY_BYTES);
}

/* -- Shares ------------------------------------------------------------------------------------------------------ */

bool tuning_share_has(const struct tuning_share *share, int kind, const void *key, int64_t key_bytes)
{
    if (share->ranks == 0)
        return true;
    const uint64_t hash = XXH3_64bits_withSeed(key, (size_t)key_bytes, (uint64_t)kind);
    return (int)(hash % (uint64_t)share->ranks) == share->rank;
}
