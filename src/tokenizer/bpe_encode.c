#include "base/error.h"
#include "base/memory.h"
#include "tokenizer/bpe_private.h"
#include "tokenizer/nfc.h"
#include "tokenizer/utf8.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The cache: words of up to CACHED_BYTES bytes that are up to CACHED_IDS tokens, each in the one slot of its hash, the
 * latest first. Nearly all words of English are such. */
enum { CACHE_BITS = 16, CACHED_BYTES = 15, CACHED_IDS = 4 };

struct cached {
    uint64_t key[2];         /* the bytes, and their count in the last one; 0 is free */
    int32_t ids[CACHED_IDS]; /* the first of -1 ends them */
};

struct bpe_encoder {
    const struct bpe *bpe;
    struct splitter_room *room;
    struct cached *cache;
    int32_t *ids; /* [ids_room] */
    int64_t count, ids_room;
    bool specials;
    struct nfc nfc;
    unsigned char *prefixed; /* a text with a space before it */
    int64_t prefixed_room;
};

struct bpe_encoder *bpe_encoder_open(const struct bpe *bpe)
{
    struct bpe_encoder *encoder = memory_allocate(sizeof *encoder);
    encoder->bpe = bpe;
    encoder->room = splitter_room_open();
    encoder->cache = memory_allocate((int64_t)sizeof *encoder->cache << CACHE_BITS);
    return encoder;
}

void bpe_encoder_close(struct bpe_encoder *encoder)
{
    if (encoder == NULL)
        return;
    splitter_room_close(encoder->room);
    memory_free(encoder->cache);
    free(encoder->ids);
    nfc_free(&encoder->nfc);
    free(encoder->prefixed);
    memory_free(encoder);
}

/* -- Pieces ------------------------------------------------------------------------------------------------------ */

static void make_room(struct bpe_encoder *encoder, int64_t ids)
{
    if (encoder->count + ids <= encoder->ids_room)
        return;
    encoder->ids_room = 2 * (encoder->count + ids);
    encoder->ids = memory_grow(encoder->ids, encoder->ids_room * (int64_t)sizeof *encoder->ids);
}

static void add_id(struct bpe_encoder *encoder, int32_t id)
{
    make_room(encoder, 1);
    encoder->ids[encoder->count++] = id;
}

/* The ids of a piece, added without a look at the cache; returns how many. */
static int64_t add_piece(struct bpe_encoder *encoder, const unsigned char *piece, int64_t bytes)
{
    const struct bpe *bpe = encoder->bpe;
    int32_t id = bpe->whole ? tokens_find(&bpe->tokens, piece, bytes, TOKEN_TEXT) : -1;
    if (id >= 0) {
        add_id(encoder, id);
        return 1;
    }
    make_room(encoder, bytes);
    int64_t count = merges_apply(bpe->merges, piece, bytes, encoder->ids + encoder->count);
    encoder->count += count;
    return count;
}

static uint64_t load(const unsigned char *text, int64_t bytes)
{
    uint64_t word = 0;
    memcpy(&word, text, (size_t)bytes);
    return word;
}

/* Loads that overlap, of sizes that the compiler knows, cost less than a copy of `bytes` bytes. */
static void make_key(uint64_t key[2], const unsigned char *piece, int64_t bytes)
{
    key[1] = (uint64_t)bytes << 56;
    if (bytes >= 8) {
        key[0] = load(piece, 8);
        key[1] |= bytes > 8 ? load(piece + bytes - 8, 8) >> 8 * (16 - bytes) : 0;
    } else if (bytes >= 4) {
        key[0] = load(piece, 4) | load(piece + bytes - 4, 4) << 8 * (bytes - 4);
    } else {
        key[0] = (uint64_t)piece[0] | (uint64_t)piece[bytes / 2] << 8 * (bytes / 2) |
                 (uint64_t)piece[bytes - 1] << 8 * (bytes - 1);
    }
}

static int take_piece(void *context, const unsigned char *piece, int64_t bytes)
{
    struct bpe_encoder *encoder = context;
    uint64_t key[2];
    if (bytes > MERGES_BYTES_MOST)
        return error_user("%s: a text has a word of %" PRId64 " bytes; at most %d are allowed", encoder->bpe->name,
                          bytes, MERGES_BYTES_MOST);
    if (bytes > CACHED_BYTES) {
        add_piece(encoder, piece, bytes);
        return ERROR_NONE;
    }
    make_key(key, piece, bytes);
    uint64_t hash = (key[0] ^ key[1] * 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    struct cached *cached = &encoder->cache[(hash ^ hash >> 32) >> (32 - CACHE_BITS) & ((1u << CACHE_BITS) - 1)];
    if (cached->key[0] == key[0] && cached->key[1] == key[1]) {
        make_room(encoder, CACHED_IDS);
        for (int i = 0; i < CACHED_IDS && cached->ids[i] >= 0; i++)
            encoder->ids[encoder->count++] = cached->ids[i];
        return ERROR_NONE;
    }
    int64_t count = add_piece(encoder, piece, bytes);
    if (count <= CACHED_IDS) {
        memcpy(cached->key, key, sizeof key);
        memset(cached->ids, -1, sizeof cached->ids);
        memcpy(cached->ids, encoder->ids + encoder->count - count, (size_t)count * sizeof *encoder->ids);
    }
    return ERROR_NONE;
}

/* -- Stages of the pre-tokenizer --------------------------------------------------------------------------------- */

struct level {
    struct bpe_encoder *encoder;
    int stage;
};

/* A text with a space before it, if it has none. */
static const unsigned char *prefix(struct bpe_encoder *encoder, const unsigned char *text, int64_t *bytes)
{
    if (*text == ' ')
        return text;
    if (encoder->prefixed_room <= *bytes) {
        encoder->prefixed_room = 2 * (*bytes + 1);
        encoder->prefixed = memory_grow(encoder->prefixed, encoder->prefixed_room);
    }
    encoder->prefixed[0] = ' ';
    memcpy(encoder->prefixed + 1, text, (size_t)*bytes);
    ++*bytes;
    return encoder->prefixed;
}

static int take_text(void *context, const unsigned char *text, int64_t bytes)
{
    const struct level *level = context;
    struct bpe_encoder *encoder = level->encoder;
    const struct bpe *bpe = encoder->bpe;
    struct level next = {encoder, level->stage + 1};
    if (level->stage == bpe->prefixed_stage)
        text = prefix(encoder, text, &bytes);
    if (level->stage == bpe->stage_count)
        return take_piece(encoder, text, bytes);
    if (next.stage == bpe->stage_count && next.stage != bpe->prefixed_stage)
        return splitter_run(bpe->stages[level->stage], encoder->room, text, bytes, take_piece, encoder);
    return splitter_run(bpe->stages[level->stage], encoder->room, text, bytes, take_text, &next);
}

/* -- Texts ------------------------------------------------------------------------------------------------------- */

static int take_normalized(void *context, const unsigned char *text, int64_t bytes, int32_t id)
{
    struct bpe_encoder *encoder = context;
    if (id >= 0) {
        add_id(encoder, id);
        return ERROR_NONE;
    }
    return take_text(&(struct level){encoder, 0}, text, bytes);
}

static int take_raw(void *context, const unsigned char *text, int64_t bytes, int32_t id)
{
    struct bpe_encoder *encoder = context;
    const struct bpe *bpe = encoder->bpe;
    if (id >= 0) {
        add_id(encoder, id);
        return ERROR_NONE;
    }
    if (bpe->nfc)
        text = nfc_normalize(&encoder->nfc, text, bytes, &bytes);
    return added_run(bpe->added_normalized, text, bytes, encoder->specials, take_normalized, encoder);
}

int bpe_encode(struct bpe_encoder *encoder, const char *text, int64_t bytes, bool specials, const int32_t **ids,
               int64_t *count)
{
    const unsigned char *at = (const unsigned char *)text, *end = at + bytes;
    int code = ERROR_NONE;
    encoder->count = 0;
    encoder->specials = specials;
    while (code == ERROR_NONE && at < end) {
        int64_t valid = utf8_valid(at, end - at);
        if (valid == 0)
            add_id(encoder, encoder->bpe->byte_ids[*at++]);
        else
            code = added_run(encoder->bpe->added, at, valid, specials, take_raw, encoder);
        at += valid;
    }
    *ids = encoder->ids;
    *count = code == ERROR_NONE ? encoder->count : 0;
    return code;
}
