/* The tokens of a vocabulary: bytes of ids and ids of bytes. */
#ifndef TOKENIZER_TOKENS_H
#define TOKENIZER_TOKENS_H

#include <stdint.h>

enum { TOKENS_MOST = 1 << 22 /* ids; models have up to 2^18 */, TOKENS_BYTES_MOST = 1 << 16 /* of one token */ };

/* What a token is; more than one may hold. */
enum token_kind {
    TOKEN_TEXT = 1,   /* of the model: bytes of text */
    TOKEN_ODD = 2,    /* of the model, but no such text: has characters that stand for no byte */
    TOKEN_ADDED = 4,  /* found in the text before the model sees it */
    TOKEN_SPECIAL = 8 /* one of those, which stands for no part of the text */
};

struct text_token {
    int64_t begin; /* in `text` */
    int32_t bytes;
    uint8_t kinds; /* 0: the id stands for nothing */
};

struct text_tokens {
    struct text_token *tokens; /* [count] by id */
    int32_t count;
    int64_t room, used; /* of tokens; of text */
    int64_t text_room;
    char *text;
    int32_t *slots; /* ids by hash, -1 for none; made by tokens_index */
    uint64_t mask;  /* slots - 1 */
};

/* {0} is empty. Adds a token; the id is 0 .. TOKENS_MOST - 1 and free, the bytes are at most TOKENS_BYTES_MOST. */
void tokens_add(struct text_tokens *tokens, int32_t id, const char *text, int64_t bytes, enum token_kind kind);
void tokens_free(struct text_tokens *tokens);

static inline const char *tokens_text(const struct text_tokens *tokens, int32_t id)
{
    return tokens->text + tokens->tokens[id].begin;
}

/* Is there a token of this id? */
static inline int tokens_has(const struct text_tokens *tokens, int64_t id)
{
    return id >= 0 && id < tokens->count && tokens->tokens[id].kinds != 0;
}

/* To be called after the last token was added, before tokens_find. */
void tokens_index(struct text_tokens *tokens);
/* The id with these bytes that is one of `kinds`; -1 when there is none. */
int32_t tokens_find(const struct text_tokens *tokens, const void *text, int64_t bytes, unsigned kinds);

#endif
