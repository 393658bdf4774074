/* Reads "model" of a tokenizer.json: the vocabulary, and how a piece becomes tokens. */
#include "base/error.h"
#include "base/memory.h"
#include "tokenizer/bpe_private.h"
#include "tokenizer/json_members.h"

#include <stdlib.h>
#include <string.h>

static int read_vocabulary(struct bpe *bpe, const struct json_place *model)
{
    struct json_place vocabulary = place_member(model, "vocab");
    const char *text;
    json_t *value;
    if (!json_is_object(vocabulary.value))
        return place_refuse(&vocabulary, "an object of tokens and ids");
    json_object_foreach((json_t *)vocabulary.value, text, value)
    {
        char bytes[TOKENS_BYTES_MOST];
        int64_t length = (int64_t)strlen(text);
        json_int_t id = json_integer_value(value);
        if (length > TOKENS_BYTES_MOST)
            return place_fault(&vocabulary, "a token has %lld bytes; at most %d are allowed", (long long)length,
                               TOKENS_BYTES_MOST);
        if (!json_is_integer(value) || id < 0 || id >= TOKENS_MOST)
            return place_fault(&vocabulary, "the id of \"%.60s\" must be a whole number from 0 to %d", text,
                               TOKENS_MOST - 1);
        if (tokens_has(&bpe->tokens, id))
            return place_fault(&vocabulary, "id %lld occurs twice, once for \"%.60s\"", (long long)id, text);
        int64_t count = bpe->model == TEXT_BPE ? member_decode_bytes(bytes, text, length) : -1;
        if (count >= 0)
            tokens_add(&bpe->tokens, (int32_t)id, bytes, count, TOKEN_TEXT);
        else if (bpe->model != TEXT_BPE)
            tokens_add(&bpe->tokens, (int32_t)id, text, length, TOKEN_TEXT);
        else
            tokens_add(&bpe->tokens, (int32_t)id, text, length, TOKEN_ODD);
    }
    tokens_index(&bpe->tokens);
    return ERROR_NONE;
}

/* Splits a merge, ["a", "b"] or "a b", into its two texts. */
static bool merge_texts(const json_t *merge, const char **left, int64_t *left_length, const char **right)
{
    const char *whole = json_string_value(merge);
    if (whole != NULL) {
        const char *space = strchr(whole, ' ');
        *left = whole;
        *left_length = space == NULL ? 0 : space - whole;
        *right = space == NULL ? "" : space + 1;
        return space != NULL && strchr(*right, ' ') == NULL;
    }
    *left = json_string_value(json_array_get(merge, 0));
    *right = json_string_value(json_array_get(merge, 1));
    *left_length = *left == NULL ? 0 : (int64_t)strlen(*left);
    return json_array_size(merge) == 2 && *left != NULL && *right != NULL;
}

static int read_merge(struct bpe *bpe, const struct json_place *place, uint32_t rank)
{
    char bytes[2 * TOKENS_BYTES_MOST];
    const char *left, *right;
    int64_t left_length;
    if (!merge_texts(place->value, &left, &left_length, &right))
        return place_refuse(place, "two tokens, [\"a\", \"b\"] or \"a b\"");
    int64_t right_length = (int64_t)strlen(right), left_bytes = -1, right_bytes = -1;
    if (left_length <= TOKENS_BYTES_MOST && right_length <= TOKENS_BYTES_MOST) {
        left_bytes = member_decode_bytes(bytes, left, left_length);
        right_bytes = left_bytes < 0 ? -1 : member_decode_bytes(bytes + left_bytes, right, right_length);
    }
    int32_t ids[3] = {-1, -1, -1};
    if (right_bytes >= 0) {
        ids[0] = tokens_find(&bpe->tokens, bytes, left_bytes, TOKEN_TEXT);
        ids[1] = tokens_find(&bpe->tokens, bytes + left_bytes, right_bytes, TOKEN_TEXT);
        ids[2] = tokens_find(&bpe->tokens, bytes, left_bytes + right_bytes, TOKEN_TEXT);
    }
    if (ids[0] < 0 || ids[1] < 0 || ids[2] < 0)
        return place_fault(place, "\"%.*s\" and \"%.60s\": both, and what they make, must be tokens of model.vocab",
                           left_length > 60 ? 60 : (int)left_length, left, right);
    merges_set(bpe->merges, ids[0], ids[1], rank, ids[2]);
    return ERROR_NONE;
}

static int read_merges(struct bpe *bpe, const struct json_place *model)
{
    struct json_place merges = place_member(model, "merges");
    if (!json_is_array(merges.value))
        return place_refuse(&merges, "an array");
    int code = ERROR_NONE;
    bpe_begin_merges(bpe);
    for (size_t i = 0; code == ERROR_NONE && i < json_array_size(merges.value); i++) {
        struct json_place merge = place_element(&merges, i);
        code = read_merge(bpe, &merge, (uint32_t)i);
    }
    return code;
}

/* Checks that members with unsupported features are absent, null, or have no effect. */
static int check_model(const struct json_place *model)
{
    struct json_place dropout = place_member(model, "dropout");
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    if (!place_absent(&dropout) && !(json_is_number(dropout.value) && json_number_value(dropout.value) == 0))
        return place_refuse(&dropout, "null or 0: with dropout a text has several encodings");
    for (int i = 0; i < 2; i++) {
        struct json_place affix = place_member(model, affixes[i]);
        if (!place_absent(&affix) && !place_is(&affix, ""))
            return place_refuse(&affix, "null or empty");
    }
    struct json_place fallback = place_member(model, "byte_fallback");
    if (!place_absent(&fallback) && !json_is_false(fallback.value))
        return place_refuse(&fallback, "false: only byte-level BPE is supported");
    return ERROR_NONE;
}

/* Reads unk_token, which may be written in characters that stand for bytes. */
static int read_unknown(struct bpe *bpe, const struct json_place *model)
{
    char bytes[TOKENS_BYTES_MOST];
    struct json_place unknown = place_member(model, "unk_token");
    if (place_absent(&unknown))
        return ERROR_NONE;
    const char *name = json_string_value(unknown.value);
    const int64_t length = name == NULL ? 0 : (int64_t)strlen(name);
    if (name == NULL || length > TOKENS_BYTES_MOST)
        return place_refuse(&unknown, "a token or null");
    const int64_t count = bpe->model == TEXT_BPE ? member_decode_bytes(bytes, name, length) : -1;
    if (bpe->model != TEXT_BPE)
        bpe->unknown = tokens_find(&bpe->tokens, name, length, TOKEN_TEXT);
    else
        bpe->unknown = count < 0 ? tokens_find(&bpe->tokens, name, length, TOKEN_ODD)
                                 : tokens_find(&bpe->tokens, bytes, count, TOKEN_TEXT);
    bpe->roles[BPE_UNK] = bpe->unknown;
    return ERROR_NONE;
}

/* Reads the members that WordPiece alone has. */
static int read_wordpiece(struct bpe *bpe, const struct json_place *model)
{
    enum { PREFIX_MOST = 64, CHARACTERS_MOST = 4096, CHARACTERS = 100 /* the default */ };
    struct json_place prefix = place_member(model, "continuing_subword_prefix");
    struct json_place most = place_member(model, "max_input_chars_per_word");
    const char *text = place_absent(&prefix) ? "##" : json_string_value(prefix.value);
    if (text == NULL || strlen(text) > PREFIX_MOST)
        return place_refuse(&prefix, "a text of at most 64 bytes");
    const json_int_t characters = place_absent(&most) ? CHARACTERS : json_integer_value(most.value);
    if (characters < 1 || characters > CHARACTERS_MOST)
        return place_refuse(&most, "a whole number from 1 to 4096");
    bpe->continuing = memory_string(text);
    bpe->most_characters = characters;
    return ERROR_NONE;
}

/* Reads the model of a tokenizer of words. Without a token for unknown words, some texts would have no ids. */
static int read_words(struct bpe *bpe, const struct json_place *model)
{
    int code = bpe->model == TEXT_WORDPIECE ? read_wordpiece(bpe, model) : ERROR_NONE;
    if (code == ERROR_NONE)
        code = read_vocabulary(bpe, model);
    if (code == ERROR_NONE)
        code = read_unknown(bpe, model);
    struct json_place unknown = place_member(model, "unk_token");
    if (code == ERROR_NONE && bpe->unknown < 0)
        return place_refuse(&unknown, "a token of model.vocab");
    if (code != ERROR_NONE)
        return code;
    for (int i = 0; i < 256; i++)
        bpe->byte_ids[i] = bpe->unknown;
    bpe->merges = merges_open(bpe->byte_ids); /* without merges */
    if (bpe->model == TEXT_WORDPIECE)
        bpe_words_texts(bpe);
    return ERROR_NONE;
}

/* Sets the kind of the model, on which the other members depend. */
int member_read_kind(struct bpe *bpe, const struct json_place *root)
{
    struct json_place model = place_member(root, "model"), type = place_member(&model, "type");
    if (!json_is_object(model.value))
        return place_refuse(&model, "an object");
    bpe->model = place_is(&type, "WordPiece") ? TEXT_WORDPIECE : place_is(&type, "WordLevel") ? TEXT_WORDS : TEXT_BPE;
    if (bpe->model == TEXT_BPE && !place_is(&type, "BPE") &&
        !(type.value == NULL && json_object_get(model.value, "merges") != NULL))
        return place_refuse(&type, "\"BPE\" (byte-level), \"WordPiece\" or \"WordLevel\"");
    return ERROR_NONE;
}

int member_read_model(struct bpe *bpe, const struct json_place *root)
{
    struct json_place model = place_member(root, "model");
    if (bpe->model != TEXT_BPE)
        return read_words(bpe, &model);
    int code = check_model(&model);
    if (code == ERROR_NONE)
        code = place_bool(&bpe->whole, &model, "ignore_merges", false);
    if (code == ERROR_NONE)
        code = place_bool(&bpe->fuses_unknown, &model, "fuse_unk", false);
    if (code == ERROR_NONE)
        code = read_vocabulary(bpe, &model);
    if (code == ERROR_NONE)
        code = read_unknown(bpe, &model);
    return code == ERROR_NONE ? read_merges(bpe, &model) : code;
}
