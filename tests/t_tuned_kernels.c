/* The tuning cache keeps entries, through bytes and back. Every flipped bit, every other length and false sizes are
 * refused; a full table keeps the entries of this process; entries of another process are added; each key has one rank
 * that times it. */
#include "check.h"

#include "core/tuned_kernels.h"

#include <stdint.h>
#include <stdlib.h>

static struct tuning_table table, other;

static int64_t value_of(struct tuning_table *from, int kind, int64_t key)
{
    int64_t value = -1;
    return tuning_table_find(from, kind, &key, sizeof key, &value, sizeof value) ? value : -1;
}

static void keep(struct tuning_table *to, int kind, int64_t key, int64_t value)
{
    tuning_table_keep(to, kind, &key, sizeof key, &value, sizeof value);
}

static int64_t count_new(const void *from, int64_t bytes, const void *others, int64_t other_bytes)
{
    static struct tuning_table news;
    tuning_table_create_new(&news, from, bytes, others, other_bytes);
    return news.head.count;
}

static void test_records(void)
{
    char longest[TUNING_KEY_BYTES], value[TUNING_VALUE_BYTES], found[TUNING_VALUE_BYTES];
    tuning_table_create(&table, "a device");
    CHECK(value_of(&table, 1, 5) == -1);
    keep(&table, 1, 5, 50);
    keep(&table, 2, 5, 51);
    keep(&table, 1, 6, 60);
    CHECK(value_of(&table, 1, 5) == 50 && value_of(&table, 2, 5) == 51 && value_of(&table, 1, 6) == 60);
    keep(&table, 2, 5, 52);
    CHECK(value_of(&table, 1, 5) == 50 && value_of(&table, 2, 5) == 52 && table.head.count == 3);
    /* a key that begins like another, a value of another size */
    const int64_t key = 5;
    CHECK(!tuning_table_find(&table, 1, &key, 4, found, 8));
    CHECK(!tuning_table_find(&table, 1, &key, 8, found, 4));
    memset(longest, 1, sizeof longest);
    memset(value, 2, sizeof value);
    tuning_table_keep(&table, 1, longest, sizeof longest, value, sizeof value);
    CHECK(tuning_table_find(&table, 1, longest, sizeof longest, found, sizeof found) &&
          memcmp(found, value, sizeof value) == 0);
    CHECK(!tuning_table_find(&table, 1, longest, sizeof longest - 1, found, sizeof found));
}

/* Any bit that differs, any length: refused as a whole, and what was there stays. */
static void test_damage(const char *bytes, int64_t count)
{
    char *damaged = malloc((size_t)count + 8);
    int taken = 0;
    for (int64_t bit = 0; bit < 8 * count; bit++) {
        memcpy(damaged, bytes, (size_t)count);
        damaged[bit / 8] ^= (char)(1 << bit % 8);
        taken += tuning_table_load(&other, damaged, count) || tuning_table_count(damaged, count) >= 0;
    }
    memcpy(damaged, bytes, (size_t)count);
    memset(damaged + count, 0, 8);
    for (int64_t length = 0; length <= count + 8; length++)
        taken +=
            length != count && (tuning_table_load(&other, damaged, length) || tuning_table_count(damaged, length) >= 0);
    CHECK(taken == 0);
    CHECK(other.head.count == 1 && value_of(&other, 1, 7) == 70);
    /* from where nothing is aligned */
    memcpy(damaged + 1, bytes, (size_t)count);
    CHECK(tuning_table_count(damaged + 1, count) == table.head.count);
    CHECK(tuning_table_load(&other, damaged + 1, count));
    free(damaged);
}

static void test_bytes(void)
{
    int64_t count, others;
    char identity[TUNING_IDENTITY_BYTES];
    tuning_table_create(&other, "another device");
    keep(&other, 1, 7, 70);
    const char *bytes = tuning_table_bytes(&table, &count);
    CHECK(!tuning_table_load(&other, bytes, count));
    CHECK(value_of(&other, 1, 7) == 70);
    tuning_table_identity(identity, bytes, count);
    CHECK_STRING(identity, "a device");
    tuning_table_identity(identity, bytes, count - 1);
    CHECK_STRING(identity, "");
    tuning_table_create(&other, "a device");
    keep(&other, 1, 7, 70);
    test_damage(bytes, count);
    CHECK(other.head.count == table.head.count && value_of(&other, 1, 7) == -1 && value_of(&other, 2, 5) == 52);
    CHECK(tuning_table_load(&table, bytes, count)); /* its own */
    CHECK(value_of(&table, 2, 5) == 52);

    CHECK(tuning_table_count(bytes, count) == 4);
    CHECK(count_new(bytes, count, NULL, 0) == 4 && count_new(bytes, count, bytes, count) == 0);
    CHECK(count_new(NULL, 0, bytes, count) == 0);
    keep(&other, 1, 5, 55);
    keep(&other, 3, 5, 56);
    const void *changed = tuning_table_bytes(&other, &others);
    CHECK(count_new(changed, others, bytes, count) == 2);
}

/* A file fills up with what other runs needed: their places are taken, never those of this process. Once that has used
 * them all, no more is kept. */
static void test_full(void)
{
    int64_t count;
    bool all = true;
    tuning_table_create(&table, "a device");
    for (int64_t i = 0; i < TUNING_ENTRIES; i++)
        keep(&table, 1, i, -2 - i);
    const void *bytes = tuning_table_bytes(&table, &count);
    CHECK(count <= (int64_t)sizeof table);
    tuning_table_create(&other, "a device");
    CHECK(tuning_table_load(&other, bytes, count));
    for (int64_t i = 0; i < TUNING_ENTRIES; i += 2)
        all &= value_of(&other, 1, i) == -2 - i;
    for (int64_t i = 0; i < TUNING_ENTRIES / 2; i++)
        keep(&other, 2, i, i);
    for (int64_t i = 0; i < TUNING_ENTRIES / 2; i++)
        all &= value_of(&other, 1, 2 * i) == -2 - 2 * i && value_of(&other, 2, i) == i &&
               value_of(&other, 1, 2 * i + 1) == -1;
    CHECK(all && other.head.count == TUNING_ENTRIES);
    CHECK(count_new(tuning_table_bytes(&other, &count), count, tuning_table_bytes(&table, &count), count) ==
          TUNING_ENTRIES / 2);
    keep(&other, 3, 1, 1);
    keep(&other, 2, 1, 100);
    CHECK(value_of(&other, 3, 1) == -1 && value_of(&other, 2, 1) == 100 && value_of(&other, 2, 0) == 0);
}

/* What another process has found: its new choices come beside the own ones, and win. */
static void test_add(void)
{
    static struct tuning_table news;
    int64_t before_bytes, after_bytes, news_bytes;
    char before[sizeof(struct tuning_head) + 2 * sizeof(struct tuning_entry)];
    tuning_table_create(&table, "a device");
    keep(&table, 1, 5, 50);
    keep(&table, 1, 6, 60);
    const void *bytes = tuning_table_bytes(&table, &before_bytes);
    CHECK(before_bytes == (int64_t)sizeof before);
    memcpy(before, bytes, sizeof before);
    keep(&table, 1, 6, 61);
    keep(&table, 2, 5, 52);
    const void *after = tuning_table_bytes(&table, &after_bytes);
    tuning_table_create_new(&news, after, after_bytes, before, before_bytes);
    CHECK(news.head.count == 2 && value_of(&news, 1, 6) == 61 && value_of(&news, 2, 5) == 52);
    bytes = tuning_table_bytes(&news, &news_bytes);
    tuning_table_create(&other, "another device");
    CHECK(!tuning_table_add(&other, bytes, news_bytes) && other.head.count == 0);
    tuning_table_create(&other, "a device");
    keep(&other, 1, 6, 66);
    keep(&other, 1, 7, 77);
    CHECK(!tuning_table_add(&other, bytes, news_bytes - 1) && other.head.count == 2);
    CHECK(tuning_table_add(&other, bytes, news_bytes) && other.head.count == 3);
    CHECK(value_of(&other, 1, 6) == 61 && value_of(&other, 1, 7) == 77 && value_of(&other, 2, 5) == 52);
    tuning_table_create_new(&news, after, after_bytes, after, after_bytes);
    CHECK(news.head.count == 0);
    tuning_table_create_new(&news, after, after_bytes - 1, before, before_bytes);
    CHECK(news.head.count == 0);
}

/* Choices that are added to a full table take places that this process has not used, each its own, and are then unused
 * themselves. */
static void test_add_to_full(void)
{
    static struct tuning_table news;
    int64_t count;
    tuning_table_create(&table, "a device");
    for (int64_t i = 0; i < TUNING_ENTRIES; i++)
        keep(&table, 1, i, i);
    CHECK(tuning_table_load(&table, tuning_table_bytes(&table, &count), count));
    for (int64_t i = 3; i < TUNING_ENTRIES; i++)
        CHECK(value_of(&table, 1, i) == i);
    for (int kind = 2; kind <= 3; kind++) {
        tuning_table_create(&news, "a device");
        for (int64_t i = 0; i < 3; i++)
            keep(&news, kind, i, i);
        const void *bytes = tuning_table_bytes(&news, &count);
        CHECK(tuning_table_add(&table, bytes, count) && table.head.count == TUNING_ENTRIES);
        other = table; /* looking uses */
        CHECK(value_of(&other, kind, 0) == 0 && value_of(&other, kind, 1) == 1 && value_of(&other, kind, 2) == 2);
    }
    CHECK(value_of(&other, 2, 0) == -1 && value_of(&other, 1, 3) == 3);
}

/* Whoever writes a file can make its checksum right. */
static void test_hostile(void)
{
    static const int32_t sizes[] = {-1, TUNING_KEY_BYTES + 1, INT32_MAX, INT32_MIN};
    int64_t count;
    for (size_t i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++) {
        tuning_table_create(&table, "a device");
        tuning_table_create(&other, "a device");
        keep(&table, 1, 5, 50);
        *(i % 2 ? &table.entries[0].key_bytes : &table.entries[0].value_bytes) = sizes[i / 2];
        const void *bytes = tuning_table_bytes(&table, &count);
        CHECK(!tuning_table_load(&other, bytes, count) && !tuning_table_add(&other, bytes, count));
        CHECK(tuning_table_count(bytes, count) == -1 && count_new(bytes, count, NULL, 0) == 0 && other.head.count == 0);
    }
    tuning_table_create(&table, "a device");
    table.head.count = TUNING_ENTRIES + 1;
    CHECK(!tuning_table_load(&other, &table, sizeof table) && tuning_table_count(&table, sizeof table) == -1);
}

/* Each key is one rank's, and of each kind another's; of many keys no rank has far more than its share. */
static void test_shares(void)
{
    enum { RANKS = 5, KEYS = 1000 };
    int keys[RANKS] = {0}, once = 0, moved = 0;
    for (int64_t key = 0; key < KEYS; key++) {
        int owners = 0;
        for (int r = 0; r < RANKS; r++) {
            const struct tuning_share share = {r, RANKS};
            const bool mine = tuning_share_has(&share, 1, &key, sizeof key);
            owners += mine;
            keys[r] += mine;
            moved += mine != tuning_share_has(&share, 2, &key, sizeof key);
        }
        once += owners == 1;
        CHECK(tuning_share_has(&(struct tuning_share){0, 0}, 1, &key, sizeof key));
        CHECK(tuning_share_has(&(struct tuning_share){0, 1}, 1, &key, sizeof key));
        CHECK(!tuning_share_has(&(struct tuning_share){-1, RANKS}, 1, &key, sizeof key));
    }
    CHECK(once == KEYS && moved > KEYS);
    for (int r = 0; r < RANKS; r++)
        CHECK(keys[r] > KEYS / RANKS / 2 && keys[r] < 2 * KEYS / RANKS);
}

/* A name that is too long is cut, and still one. */
static void test_identity(void)
{
    char name[2 * TUNING_IDENTITY_BYTES], identity[TUNING_IDENTITY_BYTES];
    int64_t count;
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    tuning_table_create(&table, name);
    const void *bytes = tuning_table_bytes(&table, &count);
    tuning_table_identity(identity, bytes, count);
    CHECK(strlen(identity) == TUNING_IDENTITY_BYTES - 1 && tuning_table_load(&table, bytes, count));
}

int main(void)
{
    test_records();
    test_bytes();
    test_full();
    test_add();
    test_add_to_full();
    test_hostile();
    test_shares();
    test_identity();
    return check_end();
}
