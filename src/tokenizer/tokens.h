/* The tokens of a vocabulary: a map from ids to bytes, and back. */
#ifndef TOKENIZER_TOKENS_H
#define TOKENIZER_TOKENS_H

#include <stdint.h>

enum {
    TOKENS_MOST = 1 << 22 /* limit of ids; models have up to 2^18 */,
    TOKENS_BYTES_MOST = 1 << 16 /* limit of one token */
};

/* Kinds of a token, which may be combined. */
enum token_kind {
    TOKEN_TEXT = 1,    /* in the model: bytes of text */
    TOKEN_ODD = 2,     /* in the model, but not text: has characters that stand for no byte */
    TOKEN_ADDED = 4,   /* found in the text before the model encodes it */
    TOKEN_SPECIAL = 8, /* an added token that does not stand for text */
    TOKEN_BYTE = 16    /* "<0x41>": stands for a byte of a character without a token */
};

struct text_token {
    int64_t begin; /* in `text` */
    int32_t bytes;
    uint8_t kinds; /* 0: unused id */
};

struct text_tokens {
    struct text_token *tokens; /* [count] by id */
    int32_t count;
    int64_t capacity, used; /* allocated tokens; used bytes of text */
    int64_t text_capacity;
    char *text;
    int32_t *slots; /* hash table of ids, -1: unused slot; made by tokens_index */
    uint64_t mask;  /* number of slots, less one */
};

/* Adds a token; {0} is an empty vocabulary. The id must be unused and in 0 .. TOKENS_MOST - 1, the bytes at most
 * TOKENS_BYTES_MOST. */
void tokens_add(struct text_tokens *tokens, int32_t id, const char *text, int64_t bytes, enum token_kind kind);
void tokens_free(struct text_tokens *tokens);

static inline const char *tokens_text(const struct text_tokens *tokens, int32_t id)
{
    return tokens->text + tokens->tokens[id].begin;
}

/* Returns whether the id has a token. */
static inline int tokens_has(const struct text_tokens *tokens, int64_t id)
{
    return id >= 0 && id < tokens->count && tokens->tokens[id].kinds != 0;
}

/* Makes the hash table. Call it after the last tokens_add and before tokens_find. */
void tokens_index(struct text_tokens *tokens);
/* Returns the id of a token with these bytes and one of `kinds`; -1: none. */
int32_t tokens_find(const struct text_tokens *tokens, const void *text, int64_t bytes, unsigned kinds);

#endif
