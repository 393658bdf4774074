#include "base/error.h"
#include "base/memory.h"
#include "tokenizer/bpe_private.h"
#include "tokenizer/utf8.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Cache of words of up to CACHED_BYTES bytes and CACHED_IDS tokens, which nearly all English words are. A word is
 * stored in the slot of its hash, replacing the previous one. */
enum { CACHE_BITS = 16, CACHED_BYTES = 15, CACHED_IDS = 4 };

struct cached {
    uint64_t key[2];         /* the bytes, and their number in the last byte; 0: unused */
    int32_t ids[CACHED_IDS]; /* ends at the first -1 */
};

struct bpe_encoder {
    const struct bpe *bpe;
    struct splitter_scratch *scratch;
    struct cached *cache;
    int32_t *ids; /* [ids_capacity] */
    int64_t count, ids_capacity;
    bool specials;
    int64_t *met, *met_normalized; /* number of special tokens in the texts, as added_run counts them */
    struct normalized_text normalized;
    struct unigram_scratch unigram;
    struct text_buffer spaced; /* buffer for a text with U+2581 in place of blanks */
    unsigned char *prefixed;   /* buffer for a text with a leading space */
    int64_t prefixed_capacity;
    const unsigned char *text, *end; /* the text being encoded */
    const unsigned char *section;    /* the part of it that is being normalized */
    const unsigned char *first;      /* the beginning of the whole text, normalized; NULL: in an earlier section */
    const unsigned char *unprefixed; /* source of the copy in `prefixed` */
    unsigned char *fused;            /* buffer for a piece with fused unknown bytes */
    int64_t fused_capacity;
};

struct bpe_encoder *bpe_encoder_open(const struct bpe *bpe)
{
    struct bpe_encoder *encoder = memory_allocate(sizeof *encoder);
    encoder->bpe = bpe;
    encoder->scratch = splitter_scratch_open();
    encoder->cache = memory_allocate((int64_t)sizeof *encoder->cache << CACHE_BITS);
    encoder->met = memory_allocate(added_count(bpe->added) * (int64_t)sizeof *encoder->met);
    encoder->met_normalized = memory_allocate(added_count(bpe->added_normalized) * (int64_t)sizeof *encoder->met);
    return encoder;
}

void bpe_encoder_close(struct bpe_encoder *encoder)
{
    if (encoder == NULL)
        return;
    splitter_scratch_close(encoder->scratch);
    memory_free(encoder->cache);
    memory_free(encoder->met);
    memory_free(encoder->met_normalized);
    free(encoder->ids);
    normalized_text_free(&encoder->normalized);
    unigram_scratch_free(&encoder->unigram);
    free(encoder->spaced.text);
    free(encoder->prefixed);
    free(encoder->fused);
    memory_free(encoder);
}

/* -- Pieces ------------------------------------------------------------------------------------------------------ */

static void reserve(struct bpe_encoder *encoder, int64_t ids)
{
    if (encoder->count + ids <= encoder->ids_capacity)
        return;
    encoder->ids_capacity = 2 * (encoder->count + ids);
    encoder->ids = memory_grow(encoder->ids, encoder->ids_capacity * (int64_t)sizeof *encoder->ids);
}

static void add_id(struct bpe_encoder *encoder, int32_t id)
{
    reserve(encoder, 1);
    encoder->ids[encoder->count++] = id;
}

static bool lies_in(const unsigned char *at, const unsigned char *block, int64_t bytes)
{
    return block != NULL && (uintptr_t)at >= (uintptr_t)block && (uintptr_t)at < (uintptr_t)block + (uintptr_t)bytes;
}

/* Records the error that the byte at `at`, in the text or in a copy of it, has no token. Returns ERROR_USER. */
static int refuse_byte(const struct bpe_encoder *encoder, const unsigned char *at)
{
    const unsigned byte = *at;
    if (lies_in(at, encoder->prefixed, encoder->prefixed_capacity))
        at = encoder->unprefixed + (at == encoder->prefixed ? 0 : at - encoder->prefixed - 1);
    const bool normalized = !lies_in(at, encoder->text, encoder->end - encoder->text);
    if (normalized)
        at = encoder->section;
    return error_user("%s: byte 0x%02x of the text, %s %" PRId64 ", has no token in the vocabulary", encoder->bpe->name,
                      byte, normalized ? "normalized, after offset" : "at offset", at - encoder->text);
}

/* Returns a copy of the piece in which only the first of adjacent bytes without tokens is kept. */
static const unsigned char *fuse(struct bpe_encoder *encoder, const unsigned char *piece, int64_t *bytes)
{
    const bool *lacking = encoder->bpe->lacking;
    if (encoder->fused_capacity < *bytes) {
        encoder->fused_capacity = 2 * *bytes;
        encoder->fused = memory_grow(encoder->fused, encoder->fused_capacity);
    }
    int64_t count = 0;
    for (int64_t i = 0; i < *bytes; i++)
        if (i == 0 || !lacking[piece[i]] || !lacking[piece[i - 1]])
            encoder->fused[count++] = piece[i];
    *bytes = count;
    return encoder->fused;
}

/* Appends the ids of a piece, without using the cache. */
static int add_piece(struct bpe_encoder *encoder, const unsigned char *piece, int64_t bytes)
{
    const struct bpe *bpe = encoder->bpe;
    reserve(encoder, bytes);
    int32_t *ids = encoder->ids + encoder->count;
    if (bpe->model == TEXT_UNIGRAM) {
        encoder->count += bpe_unigram_apply(bpe, &encoder->unigram, piece, bytes, ids);
        return ERROR_NONE;
    }
    if (bpe->model == TEXT_WORDPIECE || bpe->model == TEXT_WORDS) {
        encoder->count += bpe_words_apply(bpe, piece, bytes, ids);
        return ERROR_NONE;
    }
    int32_t id = bpe->whole ? tokens_find(&bpe->tokens, piece, bytes, TOKEN_TEXT) : -1;
    if (id >= 0) {
        add_id(encoder, id);
        return ERROR_NONE;
    }
    if (bpe->model == TEXT_CHARACTERS) {
        const unsigned char *lacking;
        const int64_t count = bpe_characters_apply(bpe, piece, bytes, ids, &lacking);
        encoder->count += count > 0 ? count : 0;
        return count < 0 ? refuse_byte(encoder, lacking) : ERROR_NONE;
    }
    for (int64_t i = 0; i < bytes && bpe->first_lacking >= 0 && bpe->unknown < 0; i++)
        if (bpe->lacking[piece[i]])
            return refuse_byte(encoder, piece + i);
    if (bpe->first_lacking >= 0 && bpe->fuses_unknown)
        piece = fuse(encoder, piece, &bytes);
    encoder->count += merges_apply(bpe->merges, piece, bytes, ids);
    return ERROR_NONE;
}

static uint64_t load(const unsigned char *text, int64_t bytes)
{
    uint64_t word = 0;
    memcpy(&word, text, (size_t)bytes);
    return word;
}

/* Overlapping loads of constant sizes are faster than a copy of `bytes` bytes. */
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
    if (bytes > CACHED_BYTES)
        return add_piece(encoder, piece, bytes);
    make_key(key, piece, bytes);
    uint64_t hash = (key[0] ^ key[1] * 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    struct cached *cached = &encoder->cache[(hash ^ hash >> 32) >> (32 - CACHE_BITS) & ((1u << CACHE_BITS) - 1)];
    if (cached->key[0] == key[0] && cached->key[1] == key[1]) {
        reserve(encoder, CACHED_IDS);
        for (int i = 0; i < CACHED_IDS && cached->ids[i] >= 0; i++)
            encoder->ids[encoder->count++] = cached->ids[i];
        return ERROR_NONE;
    }
    const int64_t before = encoder->count;
    int code = add_piece(encoder, piece, bytes);
    const int64_t count = encoder->count - before;
    if (code == ERROR_NONE && count <= CACHED_IDS) {
        memcpy(cached->key, key, sizeof key);
        memset(cached->ids, -1, sizeof cached->ids);
        memcpy(cached->ids, encoder->ids + before, (size_t)count * sizeof *encoder->ids);
    }
    return code;
}

/* -- Stages of the pre-tokenizer --------------------------------------------------------------------------------- */

struct level {
    struct bpe_encoder *encoder;
    int stage;
};

/* Returns the text with a leading space, added if missing. */
static const unsigned char *prefix(struct bpe_encoder *encoder, const unsigned char *text, int64_t *bytes)
{
    if (*text == ' ')
        return text;
    if (encoder->prefixed_capacity <= *bytes) {
        encoder->prefixed_capacity = 2 * (*bytes + 1);
        encoder->prefixed = memory_grow(encoder->prefixed, encoder->prefixed_capacity);
    }
    encoder->unprefixed = text;
    encoder->prefixed[0] = ' ';
    memcpy(encoder->prefixed + 1, text, (size_t)*bytes);
    ++*bytes;
    return encoder->prefixed;
}

/* Returns the text with U+2581 in place of blanks, and before it where Metaspace wants that. */
static const unsigned char *metaspace(struct bpe_encoder *encoder, const unsigned char *text, int64_t *bytes)
{
    enum { MARK = sizeof SPM_BLANK - 1 };
    const struct bpe *bpe = encoder->bpe;
    const bool marked = *text == ' ' || (*bytes >= MARK && memcmp(text, SPM_BLANK, MARK) == 0);
    const bool wanted = bpe->metaspace_prefix == METASPACE_ALWAYS ||
                        (bpe->metaspace_prefix == METASPACE_FIRST && text == encoder->first);
    encoder->spaced.used = 0;
    if (wanted && !marked)
        text_buffer_add(&encoder->spaced, SPM_BLANK, MARK);
    for (const unsigned char *end = text + *bytes, *blank; text < end; text = blank + 1) {
        blank = memchr(text, ' ', (size_t)(end - text));
        text_buffer_add(&encoder->spaced, text, (blank != NULL ? blank : end) - text);
        if (blank == NULL)
            break;
        text_buffer_add(&encoder->spaced, SPM_BLANK, MARK);
    }
    *bytes = encoder->spaced.used;
    return encoder->spaced.text;
}

static int take_text(void *context, const unsigned char *text, int64_t bytes)
{
    const struct level *level = context;
    struct bpe_encoder *encoder = level->encoder;
    const struct bpe *bpe = encoder->bpe;
    struct level next = {encoder, level->stage + 1};
    if (level->stage == bpe->prefixed_stage)
        text = prefix(encoder, text, &bytes);
    if (level->stage == bpe->metaspace_stage)
        text = metaspace(encoder, text, &bytes);
    if (level->stage == bpe->stage_count)
        return take_piece(encoder, text, bytes);
    if (next.stage == bpe->stage_count && next.stage != bpe->prefixed_stage && next.stage != bpe->metaspace_stage)
        return splitter_run(bpe->stages[level->stage], encoder->scratch, text, bytes, take_piece, encoder);
    return splitter_run(bpe->stages[level->stage], encoder->scratch, text, bytes, take_text, &next);
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
    encoder->section = text;
    text = normalizer_run(&bpe->normalizer, &encoder->normalized, text, bytes, &bytes);
    encoder->first = encoder->section == encoder->text && !encoder->normalized.stripped ? text : NULL;
    return added_run(bpe->added_normalized, text, bytes, encoder->specials, encoder->met_normalized, take_normalized,
                     encoder);
}

int bpe_encode(struct bpe_encoder *encoder, const char *text, int64_t bytes, bool specials, const int32_t **ids,
               int64_t *count)
{
    const unsigned char *at = (const unsigned char *)text, *end = at + bytes;
    int code = ERROR_NONE;
    encoder->count = 0;
    encoder->specials = specials;
    encoder->text = at;
    encoder->end = end;
    while (code == ERROR_NONE && at < end) {
        const int64_t valid = utf8_valid(at, end - at);
        if (valid > 0)
            code = added_run(encoder->bpe->added, at, valid, specials, encoder->met, take_raw, encoder);
        else if (encoder->bpe->byte_ids[*at] < 0)
            code = refuse_byte(encoder, at);
        else
            add_id(encoder, encoder->bpe->byte_ids[*at]);
        at += valid > 0 ? valid : 1;
    }
    *ids = encoder->ids;
    *count = code == ERROR_NONE ? encoder->count : 0;
    return code;
}

static void take_met(const struct added *added, int64_t *met, bpe_special *take, void *self)
{
    for (int64_t i = 0; i < added_count(added); i++) {
        if (met[i] > 0)
            take(self, added_id(added, i), met[i]);
        met[i] = 0;
    }
}

void bpe_take_specials(struct bpe_encoder *encoder, bpe_special *take, void *self)
{
    take_met(encoder->bpe->added, encoder->met, take, self);
    take_met(encoder->bpe->added_normalized, encoder->met_normalized, take, self);
}
