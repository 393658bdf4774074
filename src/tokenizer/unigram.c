#include "tokenizer/unigram.h"
#include "base/memory.h"
#include "tokenizer/token_trie.h"
#include "tokenizer/utf8.h"

#include <stdlib.h>

struct unigram {
    struct token_trie *trie; /* value: number of the token */
    struct {
        double score;
        int32_t id;
    } * tokens; /* [count] */
    int64_t count, capacity;
    double unknown;
    bool single;
};

/* The best division of the text before a place. */
struct unigram_node {
    double score;
    int64_t begin; /* of its last token; -1: no division ends here */
    int32_t id;
};

struct unigram *unigram_open(bool single)
{
    struct unigram *unigram = memory_allocate(sizeof *unigram);
    unigram->trie = token_trie_open();
    unigram->single = single;
    return unigram;
}

void unigram_close(struct unigram *unigram)
{
    if (unigram == NULL)
        return;
    token_trie_close(unigram->trie);
    free(unigram->tokens);
    memory_free(unigram);
}

void unigram_add(struct unigram *unigram, const char *text, int64_t bytes, int32_t id, double score)
{
    if (unigram->count == unigram->capacity) {
        unigram->capacity = 2 * unigram->capacity + 1024;
        unigram->tokens = memory_grow(unigram->tokens, unigram->capacity * (int64_t)sizeof *unigram->tokens);
    }
    unigram->tokens[unigram->count].id = id;
    unigram->tokens[unigram->count].score = score;
    token_trie_add(unigram->trie, text, bytes, (int32_t)unigram->count++);
}

void unigram_set_unknown(struct unigram *unigram, double score)
{
    unigram->unknown = score;
}

void unigram_scratch_free(struct unigram_scratch *scratch)
{
    free(scratch->nodes);
    free(scratch->tokens);
}

static void reserve(struct unigram_scratch *scratch, int64_t nodes)
{
    if (nodes <= scratch->capacity)
        return;
    scratch->capacity = 2 * nodes;
    scratch->nodes = memory_grow(scratch->nodes, scratch->capacity * (int64_t)sizeof *scratch->nodes);
    scratch->tokens = memory_grow(scratch->tokens, scratch->capacity * (int64_t)sizeof *scratch->tokens);
}

/* Ends a token at `node`, if its division is better than the one that is there. */
static void offer(const struct unigram *unigram, struct unigram_node *node, double sum, int64_t begin, int32_t id)
{
    const double score = unigram->single ? (double)(float)sum : sum;
    if (node->begin < 0 || score > node->score)
        *node = (struct unigram_node){score, begin, id};
}

/* Offers all tokens that begin at `at`. */
static void offer_tokens(const struct unigram *unigram, struct unigram_node *nodes, const unsigned char *text,
                         int64_t bytes, int64_t at, int length)
{
    const double before = nodes[at].score;
    bool known = false;
    int32_t node = TOKEN_TRIE_ROOT;
    for (int64_t end = at; end < bytes && (node = token_trie_child(unigram->trie, node, text[end])) >= 0;) {
        const int32_t token = token_trie_value(unigram->trie, node);
        end++;
        if (token < 0)
            continue;
        offer(unigram, &nodes[end], unigram->tokens[token].score + before, at, unigram->tokens[token].id);
        known |= end == at + length;
    }
    if (!known)
        offer(unigram, &nodes[at + length], unigram->unknown + before, at, -1);
}

const struct unigram_token *unigram_apply(const struct unigram *unigram, struct unigram_scratch *scratch,
                                          const unsigned char *text, int64_t bytes, int64_t *count)
{
    reserve(scratch, bytes + 1);
    struct unigram_node *nodes = scratch->nodes;
    for (int64_t i = 0; i <= bytes; i++)
        nodes[i] = (struct unigram_node){0, -1, -1};
    int length;
    for (int64_t at = 0; at < bytes; at += length) {
        utf8_read(text + at, &length);
        offer_tokens(unigram, nodes, text, bytes, at, length);
    }
    int64_t first = scratch->capacity; /* tokens are found from the last one on */
    for (int64_t end = bytes; end > 0; end = nodes[end].begin)
        scratch->tokens[--first] = (struct unigram_token){nodes[end].begin, nodes[end].id};
    *count = scratch->capacity - first;
    return scratch->tokens + first;
}
