#include "prepare/count_table.h"
#include "base/memory.h"
#include "base/range.h"

#include <stdbool.h>
#include <stdlib.h>

enum {
    MOST_ORDER = 12,
    ARRAY_BITS = 2 * (MOST_ORDER + 1), /* cells of the largest array */
    ARRAY_SYMBOLS = 256,
    KEY_BITS = 58, /* of symbols; the rest of a key is for the order, and one bit for totals */
    FIRST_SLOTS = 1 << 16
};

struct count_slot {
    uint64_t key; /* 0: unused */
    int64_t count;
};

struct count_table {
    int64_t symbols;
    int order, bits;                 /* bits of a symbol */
    int64_t *counts[MOST_ORDER + 1]; /* array of each order: [context << bits | symbol]; NULL: `slots` */
    struct count_slot *slots;        /* [mask + 1], at most half of them used */
    uint64_t mask;
    int64_t used;
};

static int bits_of(int64_t symbols)
{
    int bits = 0;
    while ((int64_t)1 << bits < symbols)
        bits++;
    return bits;
}

int count_table_max_order(int64_t symbols)
{
    const int bits = MAX(bits_of(symbols), 1);
    return MIN((symbols <= ARRAY_SYMBOLS ? ARRAY_BITS : KEY_BITS) / bits - 1, MOST_ORDER);
}

static uint64_t low_bits(int bits)
{
    return ((uint64_t)1 << bits) - 1;
}

/* -- Hash table ---------------------------------------------------------------------------------------------------- */

/* Keys of the counts of a symbol, and of all symbols, after a context. */
static uint64_t key_of(const struct count_table *table, int length, uint64_t context, int64_t symbol, bool total)
{
    const uint64_t cell = (context & low_bits(table->bits * length)) << table->bits | (uint64_t)symbol;
    return cell << (64 - KEY_BITS) | (uint64_t)(length + 1) << 1 | total;
}

static struct count_slot *slot_of(const struct count_table *table, uint64_t key)
{
    uint64_t at = (key ^ key >> 31) * 0x9e3779b97f4a7c15u >> 20 & table->mask;
    while (table->slots[at].key != key && table->slots[at].key != 0)
        at = (at + 1) & table->mask;
    return &table->slots[at];
}

static void make_slots(struct count_table *table, int64_t slots)
{
    table->slots = memory_allocate(slots * (int64_t)sizeof *table->slots);
    table->mask = (uint64_t)slots - 1;
}

static void count_key(struct count_table *table, uint64_t key)
{
    struct count_slot *old = table->slots;
    const int64_t slots = (int64_t)table->mask + 1;
    if (2 * table->used >= slots) {
        make_slots(table, 2 * slots);
        for (int64_t i = 0; i < slots; i++)
            if (old[i].key != 0)
                *slot_of(table, old[i].key) = old[i];
        memory_free(old);
    }
    struct count_slot *slot = slot_of(table, key);
    table->used += slot->key == 0;
    slot->key = key;
    slot->count++;
}

/* ------------------------------------------------------------------------------------------------------------------ */

struct count_table *count_table_open(int64_t symbols, int order)
{
    struct count_table *table = memory_allocate(sizeof *table);
    table->symbols = symbols;
    table->order = order;
    table->bits = bits_of(symbols);
    if (symbols > ARRAY_SYMBOLS)
        make_slots(table, FIRST_SLOTS);
    for (int k = 0; k <= order && symbols <= ARRAY_SYMBOLS; k++)
        table->counts[k] = memory_allocate(((int64_t)1 << table->bits * (k + 1)) * (int64_t)sizeof(int64_t));
    return table;
}

void count_table_close(struct count_table *table)
{
    if (table == NULL)
        return;
    for (int k = 0; k <= table->order; k++)
        memory_free(table->counts[k]);
    memory_free(table->slots);
    memory_free(table);
}

uint64_t count_table_extend(const struct count_table *table, uint64_t context, int64_t symbol)
{
    return (context << table->bits | (uint64_t)symbol) & low_bits(table->bits * table->order);
}

void count_table_add(struct count_table *table, int length, uint64_t context, int64_t symbol)
{
    for (int k = 0; k <= length; k++) {
        const uint64_t end = context & low_bits(table->bits * k);
        if (table->slots == NULL) {
            table->counts[k][end << table->bits | (uint64_t)symbol]++;
            continue;
        }
        count_key(table, key_of(table, k, end, symbol, false));
        count_key(table, key_of(table, k, end, 0, true));
    }
}

int64_t count_table_get(const struct count_table *table, int length, uint64_t context, int64_t symbol)
{
    return table->slots == NULL ? table->counts[length][context << table->bits | (uint64_t)symbol]
                                : slot_of(table, key_of(table, length, context, symbol, false))->count;
}

int64_t count_table_total(const struct count_table *table, int length, uint64_t context)
{
    if (table->slots != NULL)
        return slot_of(table, key_of(table, length, context, 0, true))->count;
    int64_t total = 0;
    for (int64_t symbol = 0; symbol < table->symbols; symbol++)
        total += table->counts[length][context << table->bits | (uint64_t)symbol];
    return total;
}
