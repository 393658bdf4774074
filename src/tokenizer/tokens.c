#include "tokenizer/tokens.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static void reserve(struct text_tokens *tokens, int32_t id, int64_t bytes)
{
    if (id >= tokens->capacity) {
        tokens->capacity = id < 1024 ? 2048 : (int64_t)id * 2;
        tokens->tokens = memory_grow(tokens->tokens, tokens->capacity * (int64_t)sizeof *tokens->tokens);
    }
    if (tokens->used + bytes > tokens->text_capacity) {
        tokens->text_capacity = (tokens->used + bytes) * 2;
        tokens->text = memory_grow(tokens->text, tokens->text_capacity);
    }
}

void tokens_add(struct text_tokens *tokens, int32_t id, const char *text, int64_t bytes, enum token_kind kind)
{
    reserve(tokens, id, bytes);
    for (; tokens->count <= id; tokens->count++)
        tokens->tokens[tokens->count] = (struct text_token){0};
    if (bytes > 0)
        memcpy(tokens->text + tokens->used, text, (size_t)bytes);
    tokens->tokens[id] = (struct text_token){tokens->used, (int32_t)bytes, (uint8_t)kind};
    tokens->used += bytes;
}

void tokens_free(struct text_tokens *tokens)
{
    free(tokens->tokens);
    free(tokens->text);
    free(tokens->slots);
}

void tokens_index(struct text_tokens *tokens)
{
    int64_t slots = 16;
    while (slots < 2 * (int64_t)tokens->count)
        slots *= 2;
    free(tokens->slots);
    tokens->slots = memory_grow(NULL, slots * (int64_t)sizeof *tokens->slots);
    tokens->mask = (uint64_t)slots - 1;
    for (int64_t i = 0; i < slots; i++)
        tokens->slots[i] = -1;
    for (int32_t id = 0; id < tokens->count; id++) {
        if (!tokens_has(tokens, id))
            continue;
        uint64_t at = XXH3_64bits(tokens_text(tokens, id), (size_t)tokens->tokens[id].bytes) & tokens->mask;
        while (tokens->slots[at] >= 0)
            at = (at + 1) & tokens->mask;
        tokens->slots[at] = id;
    }
}

int32_t tokens_find(const struct text_tokens *tokens, const void *text, int64_t bytes, unsigned kinds)
{
    int32_t id;
    for (uint64_t at = XXH3_64bits(text, (size_t)bytes) & tokens->mask; (id = tokens->slots[at]) >= 0;
         at = (at + 1) & tokens->mask) {
        const struct text_token *token = &tokens->tokens[id];
        if ((token->kinds & kinds) && token->bytes == bytes &&
            memcmp(tokens->text + token->begin, text, (size_t)bytes) == 0)
            return id;
    }
    return -1;
}
