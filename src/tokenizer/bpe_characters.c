/* Merges of characters, as Llama 2's: each character of a piece begins as a token. A character without a token becomes
 * the tokens of its bytes, or the unknown token. */
#include "base/error.h"
#include "base/memory.h"
#include "tokenizer/bpe_private.h"
#include "tokenizer/utf8.h"

#include <stdio.h>
#include <string.h>

int bpe_find_bytes(struct bpe *bpe)
{
    int found = 0;
    for (int byte = 0; byte < 256; byte++) {
        char name[sizeof "<0x00>"];
        snprintf(name, sizeof name, "<0x%02X>", (unsigned)byte);
        const int32_t id = tokens_find(&bpe->tokens, name, (int64_t)strlen(name), ~0u);
        bpe->byte_ids[byte] = id >= 0 ? id : bpe->unknown;
        if (id >= 0)
            bpe->tokens.tokens[id].kinds = TOKEN_BYTE;
        found += id >= 0;
    }
    return found;
}

void bpe_begin_characters(struct bpe *bpe)
{
    bpe->character_ids = memory_grow(NULL, UTF8_CODE_POINTS * (int64_t)sizeof *bpe->character_ids);
    memset(bpe->character_ids, -1, UTF8_CODE_POINTS * sizeof *bpe->character_ids);
    for (int32_t id = 0; id < bpe->tokens.count; id++) {
        const struct text_token *token = &bpe->tokens.tokens[id];
        const unsigned char *text = (const unsigned char *)tokens_text(&bpe->tokens, id);
        int length = 0;
        const uint32_t code = (token->kinds & TOKEN_TEXT) && token->bytes > 0 ? utf8_read(text, &length) : 0;
        if (length > 0 && length == token->bytes)
            bpe->character_ids[code] = id;
    }
    bpe->merges = merges_open(bpe->byte_ids);
}

/* Returns whether a token has U+2581 after another character. */
static bool spans_words(const struct bpe *bpe)
{
    enum { MARK = sizeof SPM_BLANK - 1 };
    bool spans = false;
    for (int32_t id = 0; id < bpe->tokens.count && !spans; id++) {
        const struct text_token *token = &bpe->tokens.tokens[id];
        const char *text = tokens_text(&bpe->tokens, id), *end = text + token->bytes;
        while ((token->kinds & TOKEN_TEXT) && end - text >= MARK && memcmp(text, SPM_BLANK, MARK) == 0)
            text += MARK;
        spans = (token->kinds & TOKEN_TEXT) && memmem(text, (size_t)(end - text), SPM_BLANK, MARK) != NULL;
    }
    return spans;
}

int bpe_split_words(struct bpe *bpe)
{
    const struct splitter_settings words = {
        .pattern = SPM_BLANK "*[^" SPM_BLANK "]+|" SPM_BLANK "+", .behavior = SPLIT_ISOLATED, .where = bpe->name};
    const bool known = bpe->character_ids[0x2581] >= 0;
    return known && !bpe->whole && !spans_words(bpe) ? bpe_add_stage(bpe, &words) : ERROR_NONE;
}

int64_t bpe_put_unknown(const struct bpe *bpe, const unsigned char *text, int64_t bytes, int32_t *ids)
{
    if (!bpe->falls_back) {
        ids[0] = bpe->unknown;
        return 1;
    }
    for (int64_t i = 0; i < bytes; i++)
        ids[i] = bpe->byte_ids[text[i]];
    return bytes;
}

/* Writes the symbol that begins the text; returns its bytes. */
static int64_t begin_symbol(const struct bpe *bpe, const unsigned char *text, int64_t bytes, int32_t *symbol)
{
    int32_t whole;
    int length;
    const int64_t used = token_trie_longest(bpe->symbols, text, bytes, &whole);
    if (used > 0) {
        *symbol = BPE_WHOLE_SYMBOLS + whole;
        return used;
    }
    const uint32_t code = utf8_read(text, &length);
    const int32_t id = bpe->character_ids[code];
    *symbol = id >= 0 ? id : BPE_CHARACTER_SYMBOLS + (int32_t)code;
    return length;
}

/* Turns symbols[count], which lie at the end of ids[bytes], into ids at its beginning. Returns the number of ids. Each
 * symbol becomes at most as many ids as it has bytes, so no symbol is overwritten before it is read. */
static int64_t put_ids(const struct bpe *bpe, const int32_t *symbols, int64_t count, int32_t *ids)
{
    int64_t used = 0;
    bool after_unknown = false;
    for (int64_t i = 0; i < count; i++) {
        const int32_t symbol = symbols[i];
        const bool unknown = symbol >= BPE_CHARACTER_SYMBOLS && symbol < BPE_WHOLE_SYMBOLS;
        unsigned char character[UTF8_MOST];
        if (!unknown)
            ids[used++] = symbol < BPE_CHARACTER_SYMBOLS ? symbol : symbol - BPE_WHOLE_SYMBOLS;
        else if (bpe->falls_back || !bpe->fuses_unknown || !after_unknown)
            used += bpe_put_unknown(bpe, character, utf8_write(character, (uint32_t)(symbol - BPE_CHARACTER_SYMBOLS)),
                                    ids + used);
        after_unknown = unknown;
    }
    return used;
}

int64_t bpe_characters_apply(const struct bpe *bpe, const unsigned char *piece, int64_t bytes, int32_t *ids,
                             const unsigned char **lacking)
{
    int64_t count = 0, used;
    for (int64_t at = 0; at < bytes; at += used) {
        used = begin_symbol(bpe, piece + at, bytes - at, &ids[count]);
        *lacking = piece + at;
        if (bpe->unknown < 0 && !bpe->falls_back && ids[count] >= BPE_CHARACTER_SYMBOLS)
            return -1;
        count++;
    }
    count = merges_run(bpe->merges, ids, count);
    memmove(ids + bytes - count, ids, (size_t)count * sizeof *ids);
    return put_ids(bpe, ids + bytes - count, count, ids);
}
