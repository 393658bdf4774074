#include "bridge/tokenizer_json.h"
#include "base/memory.h"
#include "base/range.h"
#include "tokenizer/bpe.h"
#include "tokenizer/splitter_known.h"

#include <stdlib.h>
#include <string.h>

/* -- Bytes as characters ------------------------------------------------------------------------------------------- */

/* Returns the character for a byte in GPT-2's alphabet: a printable character of Latin-1 is its own byte; the others
 * are U+0100 and following, in order. */
static int code_point_of(uint8_t byte)
{
    int others = 0;
    for (int b = 0; b <= byte; b++) {
        const bool printable = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        if (b == byte && printable)
            return b;
        others += !printable;
    }
    return 0x100 + others - 1;
}

/* Returns bytes as text of this alphabet; freed with free(). */
static char *spell(const char *bytes, int64_t count)
{
    char *text = memory_grow(NULL, 2 * count + 1), *out = text;
    for (int64_t i = 0; i < count; i++) {
        const int point = code_point_of((uint8_t)bytes[i]);
        if (point >= 0x80)
            *out++ = (char)(0xc0 | point >> 6);
        *out++ = (char)(point >= 0x80 ? 0x80 | (point & 0x3f) : point);
    }
    *out = '\0';
    return text;
}

/* -- The model ----------------------------------------------------------------------------------------------------- */

static bool is_text(const struct bpe *bpe, int32_t id)
{
    int32_t bytes;
    bpe_token(bpe, id, &bytes);
    return bytes > 0 && !bpe_is_special(bpe, id);
}

static json_t *vocabulary(const struct bpe *bpe)
{
    json_t *out = json_object();
    for (int32_t id = 0; id < bpe_vocabulary(bpe); id++) {
        int32_t bytes;
        const char *token = bpe_token(bpe, id, &bytes);
        char *text = is_text(bpe, id) ? spell(token, bytes) : NULL;
        if (text != NULL)
            json_object_set_new(out, text, json_integer(id));
        free(text);
    }
    return out;
}

struct halves {
    int32_t left, right, cut;
};

static int compare(const void *a, const void *b)
{
    const struct halves *x = a, *y = b;
    return x->left != y->left ? (x->left > y->left) - (x->left < y->left)
                              : (x->right > y->right) - (x->right < y->right);
}

/* Adds all pairs of tokens that merge to this token, in the order of their ranks (doc/formats_input.md, "Tokenizer
 * files").
 */
static void put_merges(json_t *out, const struct bpe *bpe, int32_t id, struct halves *halves)
{
    int32_t bytes;
    const char *token = bpe_token(bpe, id, &bytes);
    size_t count = 0;
    for (int32_t cut = 1; cut < bytes; cut++) {
        const int32_t left = bpe_find(bpe, token, cut), right = bpe_find(bpe, token + cut, bytes - cut);
        if (left >= 0 && right >= 0 && is_text(bpe, left) && is_text(bpe, right))
            halves[count++] = (struct halves){left, right, cut};
    }
    qsort(halves, count, sizeof *halves, compare);
    for (size_t i = 0; i < count; i++) {
        char *left = spell(token, halves[i].cut), *right = spell(token + halves[i].cut, bytes - halves[i].cut);
        char *both = memory_format("%s %s", left, right);
        json_array_append_new(out, json_string(both));
        free(both);
        free(right);
        free(left);
    }
}

static json_t *merges(const struct bpe *bpe)
{
    int32_t longest = 1;
    for (int32_t id = 0; id < bpe_vocabulary(bpe); id++) {
        int32_t bytes;
        bpe_token(bpe, id, &bytes);
        longest = MAX(bytes, longest);
    }
    struct halves *halves = memory_allocate(longest * (int64_t)sizeof *halves);
    json_t *out = json_array();
    for (int32_t id = 0; id < bpe_vocabulary(bpe); id++)
        if (is_text(bpe, id))
            put_merges(out, bpe, id, halves);
    memory_free(halves);
    return out;
}

static json_t *model(const struct bpe *bpe)
{
    return json_pack("{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b, s:o, s:o}", "type", "BPE", "dropout", "unk_token",
                     "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0, "byte_fallback", 0,
                     "ignore_merges", 1, "vocab", vocabulary(bpe), "merges", merges(bpe));
}

/* -- Other parts of tokenizer.json --------------------------------------------------------------------------------- */

static json_t *text_of(const struct bpe *bpe, int32_t id)
{
    int32_t bytes;
    const char *token = bpe_token(bpe, id, &bytes);
    return json_stringn(token, (size_t)bytes);
}

static json_t *added_tokens(const struct bpe *bpe)
{
    json_t *out = json_array();
    for (int32_t id = 0; id < bpe_vocabulary(bpe); id++)
        if (bpe_is_special(bpe, id))
            json_array_append_new(out, json_pack("{s:i, s:o, s:b, s:b, s:b, s:b, s:b}", "id", (int)id, "content",
                                                 text_of(bpe, id), "single_word", 0, "lstrip", 0, "rstrip", 0,
                                                 "normalized", 0, "special", 1));
    return out;
}

static json_t *byte_level(void)
{
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1, "use_regex",
                     0);
}

static json_t *pre_tokenizer(void)
{
    return json_pack("{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, o]}", "type", "Sequence", "pretokenizers", "type", "Split",
                     "pattern", "Regex", splitter_llama3, "behavior", "Isolated", "invert", 0, byte_level());
}

static json_t *part(const char *kind, json_t *id, int type)
{
    return json_pack("{s:{s:o, s:i}}", kind, "id", id, "type_id", type);
}

static json_t *post_processor(const struct bpe *bpe)
{
    const int32_t bos = bpe_role(bpe, BPE_BOS);
    if (!bpe_begins(bpe) || bos < 0)
        return byte_level();
    json_t *first = text_of(bpe, bos), *tokens = json_object();
    json_object_set_new(tokens, json_string_value(first),
                        json_pack("{s:O, s:[i], s:[O]}", "id", first, "ids", (int)bos, "tokens", first));
    json_t *one =
        json_pack("[o, o]", part("SpecialToken", json_incref(first), 0), part("Sequence", json_string("A"), 0));
    json_t *two =
        json_pack("[o, o, o, o]", part("SpecialToken", json_incref(first), 0), part("Sequence", json_string("A"), 0),
                  part("SpecialToken", json_incref(first), 1), part("Sequence", json_string("B"), 1));
    json_t *template = json_pack("{s:s, s:o, s:o, s:o}", "type", "TemplateProcessing", "single", one, "pair", two,
                                 "special_tokens", tokens);
    json_decref(first);
    return json_pack("{s:s, s:[o, o]}", "type", "Sequence", "processors", byte_level(), template);
}

json_t *tokenizer_json(const struct bpe *bpe)
{
    json_t *out = json_pack("{s:s, s:n, s:n, s:o, s:n}", "version", "1.0", "truncation", "padding", "added_tokens",
                            added_tokens(bpe), "normalizer");
    json_object_set_new(out, "pre_tokenizer", pre_tokenizer());
    json_object_set_new(out, "post_processor", post_processor(bpe));
    json_object_set_new(out, "decoder", byte_level());
    json_object_set_new(out, "model", model(bpe));
    return out;
}
