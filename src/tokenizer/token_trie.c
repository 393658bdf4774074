#include "tokenizer/token_trie.h"
#include "base/memory.h"

#include <stdlib.h>

enum { FIRST_SLOTS = 1 << 10, BYTE_BITS = 8 };

static const uint64_t no_edge = UINT64_MAX;

struct edge {
    uint64_t key; /* node << 8 | byte, or no_edge */
    int32_t child;
};

struct token_trie {
    struct edge *edges; /* hash table [mask + 1], at most half of it used */
    uint64_t mask;
    int32_t *values; /* [nodes] */
    int64_t nodes, capacity;
};

static struct edge *edge_of(const struct token_trie *trie, uint64_t key)
{
    uint64_t at = (key * 0x9e3779b97f4a7c15u) >> 32 & trie->mask;
    while (trie->edges[at].key != key && trie->edges[at].key != no_edge)
        at = (at + 1) & trie->mask;
    return &trie->edges[at];
}

static void make_edges(struct token_trie *trie, int64_t slots)
{
    trie->edges = memory_grow(NULL, slots * (int64_t)sizeof *trie->edges);
    trie->mask = (uint64_t)slots - 1;
    for (int64_t i = 0; i < slots; i++)
        trie->edges[i] = (struct edge){no_edge, -1};
}

static void double_edges(struct token_trie *trie)
{
    struct edge *old = trie->edges;
    const int64_t slots = (int64_t)trie->mask + 1;
    make_edges(trie, 2 * slots);
    for (int64_t i = 0; i < slots; i++)
        if (old[i].key != no_edge)
            *edge_of(trie, old[i].key) = old[i];
    free(old);
}

static int32_t add_node(struct token_trie *trie)
{
    if (trie->nodes == trie->capacity) {
        trie->capacity = 2 * trie->capacity + FIRST_SLOTS;
        trie->values = memory_grow(trie->values, trie->capacity * (int64_t)sizeof *trie->values);
    }
    trie->values[trie->nodes] = -1;
    return (int32_t)trie->nodes++;
}

struct token_trie *token_trie_open(void)
{
    struct token_trie *trie = memory_allocate(sizeof *trie);
    make_edges(trie, FIRST_SLOTS);
    add_node(trie);
    return trie;
}

void token_trie_close(struct token_trie *trie)
{
    if (trie == NULL)
        return;
    free(trie->edges);
    free(trie->values);
    memory_free(trie);
}

void token_trie_add(struct token_trie *trie, const void *text, int64_t bytes, int32_t value)
{
    const unsigned char *at = text;
    int32_t node = TOKEN_TRIE_ROOT;
    for (int64_t i = 0; i < bytes; i++) {
        if (2 * trie->nodes > (int64_t)trie->mask)
            double_edges(trie);
        struct edge *edge = edge_of(trie, (uint64_t)node << BYTE_BITS | at[i]);
        if (edge->child < 0)
            *edge = (struct edge){(uint64_t)node << BYTE_BITS | at[i], add_node(trie)};
        node = edge->child;
    }
    trie->values[node] = value;
}

int32_t token_trie_child(const struct token_trie *trie, int32_t node, unsigned char byte)
{
    return edge_of(trie, (uint64_t)node << BYTE_BITS | byte)->child;
}

int32_t token_trie_value(const struct token_trie *trie, int32_t node)
{
    return trie->values[node];
}

int64_t token_trie_longest(const struct token_trie *trie, const unsigned char *text, int64_t bytes, int32_t *value)
{
    int64_t longest = 0;
    int32_t node = TOKEN_TRIE_ROOT;
    for (int64_t i = 0; trie != NULL && i < bytes && (node = token_trie_child(trie, node, text[i])) >= 0; i++)
        if (trie->values[node] >= 0) {
            longest = i + 1;
            *value = trie->values[node];
        }
    return longest;
}
