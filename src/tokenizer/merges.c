#include "tokenizer/merges.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

enum { SHORT = 48, FIRST_SLOTS = 1 << 10 };

static const uint64_t no_pair = UINT64_MAX;
static const uint32_t no_rank = UINT32_MAX;

/* Result of merging a pair. */
struct merge {
    uint32_t rank; /* no_rank: the pair cannot be merged */
    int32_t id;
};

struct merge_slot {
    uint64_t pair; /* left << 32 | right, or no_pair */
    struct merge merge;
};

struct merges {
    int32_t byte_ids[256];
    struct merge of_bytes[256 * 256]; /* merges of tokens of one byte, by left byte * 256 + right byte */
    struct merge_slot *slots;         /* [mask + 1], at most half of them used */
    uint64_t mask;
    int64_t used;
};

/* -- The table --------------------------------------------------------------------------------------------------- */

static uint64_t pair_of(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

/* Returns the slot of a pair, or the unused slot where it belongs. */
static struct merge_slot *slot_of(const struct merges *merges, uint64_t pair)
{
    uint64_t at = (pair * 0x9e3779b97f4a7c15u ^ pair >> 29) * 0xbf58476d1ce4e5b9u >> 32 & merges->mask;
    while (merges->slots[at].pair != pair && merges->slots[at].pair != no_pair)
        at = (at + 1) & merges->mask;
    return &merges->slots[at];
}

static struct merge find(const struct merges *merges, int32_t left, int32_t right)
{
    return slot_of(merges, pair_of(left, right))->merge;
}

static void make_slots(struct merges *merges, int64_t count)
{
    merges->slots = memory_grow(NULL, count * (int64_t)sizeof *merges->slots);
    merges->mask = (uint64_t)count - 1;
    for (int64_t i = 0; i < count; i++)
        merges->slots[i] = (struct merge_slot){no_pair, {no_rank, -1}};
}

static void double_slots(struct merges *merges)
{
    struct merge_slot *old = merges->slots;
    int64_t count = (int64_t)merges->mask + 1;
    make_slots(merges, 2 * count);
    for (int64_t i = 0; i < count; i++)
        if (old[i].pair != no_pair)
            *slot_of(merges, old[i].pair) = old[i];
    free(old);
}

struct merges *merges_open(const int32_t byte_ids[256])
{
    struct merges *merges = memory_allocate(sizeof *merges);
    memcpy(merges->byte_ids, byte_ids, sizeof merges->byte_ids);
    make_slots(merges, FIRST_SLOTS);
    return merges;
}

void merges_close(struct merges *merges)
{
    if (merges == NULL)
        return;
    free(merges->slots);
    memory_free(merges);
}

void merges_set(struct merges *merges, int32_t left, int32_t right, uint32_t rank, int32_t id)
{
    if (2 * (merges->used + 1) > (int64_t)merges->mask)
        double_slots(merges);
    struct merge_slot *slot = slot_of(merges, pair_of(left, right));
    merges->used += slot->pair == no_pair;
    *slot = (struct merge_slot){pair_of(left, right), {rank, id}};
}

void merges_finish(struct merges *merges)
{
    for (int i = 0; i < 256 * 256; i++)
        merges->of_bytes[i] = find(merges, merges->byte_ids[i >> 8], merges->byte_ids[i & 255]);
}

/* -- Short pieces: searches all pairs for the best one each time ------------------------------------------------- */

/* pairs[SHORT]: the merges of ids i and i + 1. */
static int64_t run_short(const struct merges *merges, struct merge *pairs, int count, int32_t *ids)
{
    while (count > 1) {
        int best = 0;
        for (int i = 1; i + 1 < count; i++)
            if (pairs[i].rank < pairs[best].rank)
                best = i;
        if (pairs[best].rank == no_rank)
            break;
        ids[best] = pairs[best].id;
        count--;
        for (int i = best + 1; i < count; i++) {
            ids[i] = ids[i + 1];
            pairs[i - 1] = pairs[i];
        }
        if (best > 0)
            pairs[best - 1] = find(merges, ids[best - 1], ids[best]);
        if (best + 1 < count)
            pairs[best] = find(merges, ids[best], ids[best + 1]);
    }
    return count;
}

/* -- Long pieces: a heap of pairs, and a linked list of tokens --------------------------------------------------- */

/* A token is identified by the index of its first symbol. */
struct merge_list {
    int32_t *ids, *next, *previous; /* ids: -1 for a symbol merged into an earlier token; next: `count` at the end;
                                       previous: -1 at the start */
    int32_t count;
    uint64_t *heap; /* rank << 32 | first symbol of the left token; includes outdated entries */
    int64_t heaped;
};

static void heap_add(struct merge_list *list, uint64_t entry)
{
    int64_t at = list->heaped++;
    for (; at > 0 && list->heap[(at - 1) / 2] > entry; at = (at - 1) / 2)
        list->heap[at] = list->heap[(at - 1) / 2];
    list->heap[at] = entry;
}

static uint64_t heap_take(struct merge_list *list)
{
    uint64_t least = list->heap[0], moved = list->heap[--list->heaped];
    int64_t at = 0, child;
    while ((child = 2 * at + 1) < list->heaped) {
        if (child + 1 < list->heaped && list->heap[child + 1] < list->heap[child])
            child++;
        if (list->heap[child] >= moved)
            break;
        list->heap[at] = list->heap[child];
        at = child;
    }
    list->heap[at] = moved;
    return least;
}

/* Returns the merge of the token at `at` and the next one. */
static struct merge merge_at(const struct merges *merges, const struct merge_list *list, int32_t at)
{
    if (at < 0 || list->ids[at] < 0 || list->next[at] == list->count)
        return (struct merge){no_rank, -1};
    return find(merges, list->ids[at], list->ids[list->next[at]]);
}

static void add_pair(const struct merges *merges, struct merge_list *list, int32_t at)
{
    struct merge merge = merge_at(merges, list, at);
    if (merge.rank != no_rank)
        heap_add(list, (uint64_t)merge.rank << 32 | (uint32_t)at);
}

static void merge_all(const struct merges *merges, struct merge_list *list)
{
    while (list->heaped > 0) {
        uint64_t entry = heap_take(list);
        int32_t at = (int32_t)(entry & UINT32_MAX);
        struct merge merge = merge_at(merges, list, at);
        if (merge.rank == no_rank || merge.rank != entry >> 32)
            continue;
        int32_t gone = list->next[at], behind = list->next[gone];
        list->ids[at] = merge.id;
        list->ids[gone] = -1;
        list->next[at] = behind;
        if (behind < list->count)
            list->previous[behind] = at;
        add_pair(merges, list, list->previous[at]);
        add_pair(merges, list, at);
    }
}

static int64_t run_long(const struct merges *merges, int32_t count, int32_t *ids)
{
    /* each merge removes one pair from the heap and adds at most two */
    uint64_t *heap = memory_grow(NULL, (int64_t)count * 2 * (int64_t)sizeof *heap);
    int32_t *links = memory_grow(NULL, (int64_t)count * 2 * (int64_t)sizeof *links);
    struct merge_list list = {.ids = ids, .next = links, .previous = links + count, .count = count, .heap = heap};
    for (int32_t i = 0; i < count; i++) {
        list.next[i] = i + 1;
        list.previous[i] = i - 1;
    }
    for (int32_t i = 0; i + 1 < count; i++)
        add_pair(merges, &list, i);
    merge_all(merges, &list);
    int64_t kept = 0;
    for (int32_t i = 0; i < count; i = list.next[i])
        ids[kept++] = ids[i];
    free(heap);
    free(links);
    return kept;
}

int64_t merges_run(const struct merges *merges, int32_t *ids, int64_t count)
{
    struct merge pairs[SHORT];
    if (count > SHORT)
        return run_long(merges, (int32_t)count, ids);
    for (int i = 0; i + 1 < (int)count; i++)
        pairs[i] = find(merges, ids[i], ids[i + 1]);
    return run_short(merges, pairs, (int)count, ids);
}

int64_t merges_apply(const struct merges *merges, const unsigned char *piece, int64_t bytes, int32_t *ids)
{
    struct merge pairs[SHORT];
    for (int64_t i = 0; i < bytes; i++)
        ids[i] = merges->byte_ids[piece[i]];
    if (bytes > SHORT)
        return run_long(merges, (int32_t)bytes, ids);
    for (int i = 0; i + 1 < (int)bytes; i++)
        pairs[i] = merges->of_bytes[piece[i] << 8 | piece[i + 1]];
    return run_short(merges, pairs, (int)bytes, ids);
}
