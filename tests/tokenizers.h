/* Opens BPE tokenizers for tests, from the tokenizer.json of tokenizer_files.h or variants of it. */
#ifndef TESTS_TOKENIZERS_H
#define TESTS_TOKENIZERS_H

#include "base/error.h"
#include "base/memory.h"
#include "tokenizer/bpe.h"
#include "tokenizer_files.h"

#include <stdlib.h>
#include <string.h>

/* Returns the file with `from` replaced by `to`; freed with free(). */
static inline char *json_with(const char *from, const char *to)
{
    static char text[1 << 14];
    char *end = text;
    put_json(&end);
    char *at = from == NULL ? end : strstr(text, from);
    if (at == NULL)
        error_fatal("the file has no %s", from);
    return memory_format("%.*s%s%s", (int)(at - text), text, to == NULL ? "" : to,
                         at + (from == NULL ? 0 : strlen(from)));
}

static inline int open_text(struct bpe **bpe, const char *text, const char *config)
{
    error_clear();
    return bpe_open(bpe, &(struct bpe_file){text, (int64_t)strlen(text), "T"},
                    config == NULL ? NULL : &(struct bpe_file){config, (int64_t)strlen(config), "C"});
}

static inline struct bpe *open_changed(const char *from, const char *to)
{
    struct bpe *bpe;
    char *text = json_with(from, to);
    if (open_text(&bpe, text, NULL) != ERROR_NONE)
        error_fatal("%s", error_message());
    free(text);
    return bpe;
}

/* Returns the tokens of a text, separated by |; special tokens appear as their names. */
static inline const char *tokens_of(const struct bpe *bpe, const char *text, bool specials)
{
    static char out[1 << 12];
    char *end = out;
    const int32_t *ids;
    int64_t count;
    struct bpe_encoder *encoder = bpe_encoder_open(bpe);
    for (int pass = 0; pass < 2; pass++) /* the second pass uses the cache */
        if (bpe_encode(encoder, text, (int64_t)strlen(text), specials, &ids, &count) != ERROR_NONE)
            error_fatal("%s", error_message());
    out[0] = '\0';
    for (int64_t i = 0; i < count; i++) {
        int32_t bytes;
        const char *token = bpe_token(bpe, ids[i], &bytes);
        put(&end, "%s%.*s", i == 0 ? "" : "|", bytes, token);
    }
    bpe_encoder_close(encoder);
    return out;
}

/* SplitMix64 (Steele, Lea & Flood, 2014) */
static inline uint64_t draw(uint64_t below)
{
    static uint64_t state;
    uint64_t x = state += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (x ^ x >> 31) % below;
}

/* Members of a tokenizer.json: a split by a pattern, and the pre_tokenizer that tokenizer_files.h writes. */
#define ISOLATED(pattern)                                                                                              \
    "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":"          \
    "\"" pattern "\"},\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"ByteLevel\",\"add_prefix_space\":false," \
    "\"use_regex\":false}]}"
#define PRE_TOKENIZER "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true}"

#endif
