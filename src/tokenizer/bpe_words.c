/* WordPiece and tables of words. */
#include "base/memory.h"
#include "base/range.h"
#include "tokenizer/bpe_private.h"

#include <stdlib.h>
#include <string.h>

static int64_t count_characters(const unsigned char *piece, int64_t bytes)
{
    int64_t count = 0;
    for (int64_t i = 0; i < bytes; i++)
        count += (piece[i] & 0xc0) != 0x80;
    return count;
}

/* Returns the longest token that begins at `at`, and writes its end; -1: none. */
static int32_t longest(const struct bpe *bpe, const unsigned char *piece, int64_t at, int64_t bytes, int64_t *end)
{
    char text[TOKENS_BYTES_MOST];
    const int64_t prefix = at > 0 && bpe->continuing != NULL ? (int64_t)strlen(bpe->continuing) : 0;
    if (prefix > 0)
        memcpy(text, bpe->continuing, (size_t)prefix);
    *end = MIN(bytes, at + TOKENS_BYTES_MOST - prefix);
    memcpy(text + prefix, piece + at, (size_t)(*end - at));
    for (; *end > at; --*end) {
        if (*end < bytes && (piece[*end] & 0xc0) == 0x80)
            continue;
        const int32_t id = tokens_find(&bpe->tokens, text, prefix + *end - at, TOKEN_TEXT);
        if (id >= 0)
            return id;
    }
    return -1;
}

int64_t bpe_words_apply(const struct bpe *bpe, const unsigned char *piece, int64_t bytes, int32_t *ids)
{
    int64_t count = 0;
    ids[0] = bpe->unknown;
    if (bpe->model == TEXT_WORDS) {
        const int32_t id = tokens_find(&bpe->tokens, piece, bytes, TOKEN_TEXT);
        ids[0] = id >= 0 ? id : bpe->unknown;
        return 1;
    }
    if (count_characters(piece, bytes) > bpe->most_characters)
        return 1;
    for (int64_t at = 0, end; at < bytes; at = end) {
        const int32_t id = longest(bpe, piece, at, bytes, &end);
        if (id < 0) {
            ids[0] = bpe->unknown;
            return 1;
        }
        ids[count++] = id;
    }
    return count;
}
