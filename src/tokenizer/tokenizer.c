#include "tokenizer/tokenizer.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/range.h"
#include "file/path.h"
#include "tokenizer/bpe.h"
#include "tokenizer/json_place.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

/* -- Opening ------------------------------------------------------------------------------------------------------- */

/* Names the tokenizer: equal ids and equal roles, but for the mask token, give equal names, whatever else the files
 * contain. (Stores of versions that knew no mask token of text are still read.) */
static void name_bpe(struct tokenizer *tokenizer)
{
    const uint64_t what[] = {bpe_digest(tokenizer->bpe), (uint64_t)tokenizer->vocabulary, (uint64_t)tokenizer->bos,
                             (uint64_t)tokenizer->eos,   (uint64_t)tokenizer->pad,        (uint64_t)tokenizer->unk};
    snprintf(tokenizer->name, sizeof tokenizer->name, "%s-%016" PRIx64, bpe_model(tokenizer->bpe),
             (uint64_t)XXH3_64bits(what, sizeof what));
}

static int read_ends(struct tokenizer *tokenizer, const struct tokenizer_bundle *bundle, const char *where)
{
    char *name = memory_format("%s: %s", where, bundle_names[BUNDLE_GENERATION]);
    const struct bpe_file file = {bundle->files[BUNDLE_GENERATION].data, bundle->files[BUNDLE_GENERATION].bytes, name};
    json_t *object = NULL;
    int outside, code = file.data != NULL ? place_parse(&object, &file) : ERROR_NONE;
    if (code == ERROR_NONE && object != NULL)
        code = end_tokens_read(&tokenizer->ends, object, name, tokenizer->vocabulary, &outside);
    json_decref(object);
    free(name);
    return code;
}

int tokenizer_open_bundle(const struct tokenizer **out, const struct tokenizer_bundle *bundle, const char *where)
{
    const enum bundle_kind kind = bundle->files[BUNDLE_JSON].data != NULL ? BUNDLE_JSON : BUNDLE_MODEL;
    const struct bpe_file file = {bundle->files[kind].data, bundle->files[kind].bytes, where};
    char *config_name = memory_format("%s: %s", where, bundle_names[BUNDLE_CONFIG]);
    const struct bpe_file config = {bundle->files[BUNDLE_CONFIG].data, bundle->files[BUNDLE_CONFIG].bytes, config_name};
    struct tokenizer *tokenizer = memory_allocate(sizeof *tokenizer);
    *out = NULL;
    int code = bpe_open(&tokenizer->bpe, &file, config.data != NULL ? &config : NULL);
    free(config_name);
    if (code == ERROR_NONE) {
        tokenizer->vocabulary = bpe_vocabulary(tokenizer->bpe);
        code = read_ends(tokenizer, bundle, where);
    }
    if (code != ERROR_NONE) {
        bpe_close(tokenizer->bpe);
        memory_free(tokenizer);
        return code;
    }
    const struct bpe *bpe = tokenizer->bpe;
    tokenizer->bos = bpe_role(bpe, BPE_BOS);
    tokenizer->eos = bpe_role(bpe, BPE_EOS);
    tokenizer->pad = bpe_role(bpe, BPE_PAD);
    tokenizer->unk = bpe_role(bpe, BPE_UNK);
    tokenizer->mask = bpe_role(bpe, BPE_MASK);
    tokenizer->bundle = bundle_copy(bundle);
    name_bpe(tokenizer);
    *out = tokenizer;
    return ERROR_NONE;
}

int tokenizer_open(const struct tokenizer **tokenizer, const char *where)
{
    struct stat status;
    *tokenizer = tokenizer_find(where);
    if (*tokenizer != NULL)
        return ERROR_NONE;
    if (stat(where, &status) != 0)
        return error_user("tokenizer %s: unknown, and not a file or folder%s; known: %s", where, path_seen_from(where),
                          tokenizer_names());
    struct tokenizer_bundle bundle;
    int code = bundle_read(&bundle, where);
    if (code == ERROR_NONE)
        code = tokenizer_open_bundle(tokenizer, &bundle, where);
    bundle_destroy(&bundle);
    return code;
}

void tokenizer_close(const struct tokenizer *tokenizer)
{
    if (tokenizer == NULL || tokenizer->bpe == NULL)
        return;
    struct tokenizer *own = (struct tokenizer *)tokenizer;
    bpe_close(own->bpe);
    bundle_destroy(&own->bundle);
    memory_free(own);
}

/* -- Text and ids -------------------------------------------------------------------------------------------------- */

struct encoder {
    const struct tokenizer *tokenizer;
    struct bpe_encoder *bpe; /* for text tokenizers; otherwise `ids` is used */
    int32_t *ids;            /* [capacity] */
    int64_t capacity;
};

struct encoder *encoder_open(const struct tokenizer *tokenizer)
{
    struct encoder *encoder = memory_allocate(sizeof *encoder);
    encoder->tokenizer = tokenizer;
    encoder->bpe = tokenizer->bpe != NULL ? bpe_encoder_open(tokenizer->bpe) : NULL;
    return encoder;
}

void encoder_close(struct encoder *encoder)
{
    if (encoder == NULL)
        return;
    bpe_encoder_close(encoder->bpe);
    memory_free(encoder->ids);
    memory_free(encoder);
}

static void encode_characters(struct encoder *encoder, const char *text, int64_t bytes)
{
    enum { PART = 1024 };
    uint8_t part[PART];
    if (bytes > encoder->capacity) {
        encoder->capacity = bytes;
        encoder->ids = memory_extend(encoder->ids, 0, bytes * (int64_t)sizeof *encoder->ids);
    }
    for (int64_t at = 0; at < bytes; at += PART) {
        const int64_t count = MIN(bytes - at, PART);
        encoder->tokenizer->encode_characters(text + at, count, part);
        for (int64_t i = 0; i < count; i++)
            encoder->ids[at + i] = part[i];
    }
}

int encoder_encode(struct encoder *encoder, const char *text, int64_t bytes, bool specials, const int32_t **ids,
                   int64_t *count)
{
    if (encoder->bpe != NULL)
        return bpe_encode(encoder->bpe, text, bytes, specials, ids, count);
    encode_characters(encoder, text, bytes);
    *ids = encoder->ids;
    *count = bytes;
    return ERROR_NONE;
}

void encoder_take_specials(struct encoder *encoder, encoder_special *take, void *self)
{
    if (encoder->bpe != NULL)
        bpe_take_specials(encoder->bpe, take, self);
}

#define FOUR(n) (char)(n), (char)((n) + 1), (char)((n) + 2), (char)((n) + 3)
#define SIXTEEN(n) FOUR(n), FOUR((n) + 4), FOUR((n) + 8), FOUR((n) + 12)
#define SIXTY_FOUR(n) SIXTEEN(n), SIXTEEN((n) + 16), SIXTEEN((n) + 32), SIXTEEN((n) + 48)

const char *tokenizer_decode(const struct tokenizer *tokenizer, int32_t id, int64_t *count)
{
    static const char bytes[] = {SIXTY_FOUR(0), SIXTY_FOUR(64), SIXTY_FOUR(128), SIXTY_FOUR(192)};
    *count = 0;
    if (id < 0 || id >= tokenizer->vocabulary || tokenizer_is_special(tokenizer, id))
        return "";
    if (tokenizer->bpe != NULL) {
        int32_t length;
        const char *text = bpe_text(tokenizer->bpe, id, &length);
        *count = length;
        return text;
    }
    const char *text = tokenizer->texts != NULL ? tokenizer->texts[id] : &bytes[id];
    *count = tokenizer->texts != NULL && text[1] != '\0' ? 0 : 1;
    return text;
}

const char *tokenizer_decode_first(const struct tokenizer *tokenizer, int32_t id, int64_t *count)
{
    const char *text = tokenizer_decode(tokenizer, id, count);
    const bool added = *count > 0 && *text == ' ' && tokenizer->bpe != NULL && bpe_prepends(tokenizer->bpe);
    *count -= added;
    return text + added;
}

const char *tokenizer_special(const struct tokenizer *tokenizer, int32_t id, int64_t *count)
{
    int32_t bytes;
    const char *text = bpe_token(tokenizer->bpe, id, &bytes);
    *count = bytes;
    return text;
}

/* -- What an id is ------------------------------------------------------------------------------------------------- */

bool tokenizer_is_special(const struct tokenizer *tokenizer, int32_t id)
{
    return id == tokenizer->eos || id == tokenizer->pad || id == tokenizer->bos || id == tokenizer->unk ||
           id == tokenizer->mask || (tokenizer->bpe != NULL && bpe_is_special(tokenizer->bpe, id));
}

int32_t tokenizer_padding(const struct tokenizer *tokenizer)
{
    return tokenizer->pad >= 0 ? tokenizer->pad : tokenizer->eos >= 0 ? tokenizer->eos : 0;
}

bool tokenizer_is_text(const struct tokenizer *tokenizer)
{
    return tokenizer->encode_characters == NULL;
}

const char *tokenizer_token_noun(const struct tokenizer *tokenizer)
{
    return tokenizer_is_text(tokenizer) ? "tokens" : tokenizer->bases ? "bases" : "residues";
}
