/* A tree of texts by their bytes, to find all of them that begin at a place of a text. */
#ifndef TOKENIZER_TOKEN_TRIE_H
#define TOKENIZER_TOKEN_TRIE_H

#include <stdint.h>

struct token_trie;

struct token_trie *token_trie_open(void);
/* Accepts NULL. */
void token_trie_close(struct token_trie *trie);
/* Adds a text of at least one byte, with a value of 0 or more. Replaces the value of an equal text. */
void token_trie_add(struct token_trie *trie, const void *text, int64_t bytes, int32_t value);

enum { TOKEN_TRIE_ROOT = 0 };
/* Returns the node that a byte leads to; -1: no text continues so. */
int32_t token_trie_child(const struct token_trie *trie, int32_t node, unsigned char byte);
/* Returns the value of the text that ends in this node; -1: none does. */
int32_t token_trie_value(const struct token_trie *trie, int32_t node);

/* Returns the length of the longest text that begins text[bytes], and its value; 0: none does. trie is NULL: empty. */
int64_t token_trie_longest(const struct token_trie *trie, const unsigned char *text, int64_t bytes, int32_t *value);

#endif
