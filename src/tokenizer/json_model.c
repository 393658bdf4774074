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

/* Reads the vocabulary of Unigram, an array of tokens with their scores: ids are places in it. */
static int read_scored(struct bpe *bpe, const struct json_place *model)
{
    struct json_place vocabulary = place_member(model, "vocab");
    const size_t count = json_array_size(vocabulary.value);
    if (count == 0 || count > TOKENS_MOST)
        return place_refuse(&vocabulary, "an array of tokens and scores");
    bpe->scores = memory_grow(NULL, (int64_t)count * (int64_t)sizeof *bpe->scores);
    for (size_t i = 0; i < count; i++) {
        struct json_place pair = place_element(&vocabulary, i);
        const char *text = json_string_value(json_array_get(pair.value, 0));
        const json_t *score = json_array_get(pair.value, 1);
        if (json_array_size(pair.value) != 2 || text == NULL || !json_is_number(score) ||
            strlen(text) > TOKENS_BYTES_MOST)
            return place_refuse(&pair, "a token and its score");
        tokens_add(&bpe->tokens, (int32_t)i, text, (int64_t)strlen(text), TOKEN_TEXT);
        bpe->scores[i] = json_number_value(score);
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
    const bool plain = bpe->model == TEXT_CHARACTERS;
    int64_t right_length = (int64_t)strlen(right), left_bytes = -1, right_bytes = -1;
    if (plain && left_length <= TOKENS_BYTES_MOST && right_length <= TOKENS_BYTES_MOST) {
        memcpy(bytes, left, (size_t)(left_bytes = left_length));
        memcpy(bytes + left_bytes, right, (size_t)(right_bytes = right_length));
    } else if (left_length <= TOKENS_BYTES_MOST && right_length <= TOKENS_BYTES_MOST) {
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
    if (bpe->model == TEXT_CHARACTERS)
        bpe_begin_characters(bpe);
    else
        bpe_begin_merges(bpe);
    for (size_t i = 0; code == ERROR_NONE && i < json_array_size(merges.value); i++) {
        struct json_place merge = place_element(&merges, i);
        code = read_merge(bpe, &merge, (uint32_t)i);
    }
    return code;
}

/* Checks that members with unsupported features are absent, null, or have no effect. */
static int check_model(const struct bpe *bpe, const struct json_place *model)
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
    if (bpe->model == TEXT_BPE && !place_absent(&fallback) && !json_is_false(fallback.value))
        return place_refuse(&fallback, "false: the pre_tokenizer is ByteLevel");
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
    return ERROR_NONE;
}

/* Reads byte_fallback: all bytes have a token, or none has. Needs the vocabulary and `unknown`. */
static int read_fallback(struct bpe *bpe, const struct json_place *model)
{
    struct json_place place = place_member(model, "byte_fallback");
    bool wanted;
    int code = place_bool(&wanted, model, "byte_fallback", false);
    for (int i = 0; i < 256; i++)
        bpe->byte_ids[i] = bpe->unknown;
    if (code != ERROR_NONE || !wanted)
        return code;
    const int found = bpe_find_bytes(bpe);
    bpe->falls_back = found == 256;
    return found == 0 || found == 256
               ? ERROR_NONE
               : place_fault(&place,
                             "true needs a token for each byte in model.vocab; %d of <0x00> to <0xFF> are there",
                             found);
}

static int read_unigram(struct bpe *bpe, const struct json_place *model)
{
    struct json_place unknown = place_member(model, "unk_id");
    int code = read_scored(bpe, model);
    if (code != ERROR_NONE)
        return code;
    if (!json_is_integer(unknown.value) || !tokens_has(&bpe->tokens, json_integer_value(unknown.value)))
        return place_refuse(&unknown, "the place of a token of model.vocab");
    bpe->unknown = bpe->roles[BPE_UNK] = (int32_t)json_integer_value(unknown.value);
    return read_fallback(bpe, model);
}

static int read_bpe(struct bpe *bpe, const struct json_place *model)
{
    int code = check_model(bpe, model);
    if (code == ERROR_NONE)
        code = place_bool(&bpe->whole, model, "ignore_merges", false);
    if (code == ERROR_NONE)
        code = place_bool(&bpe->fuses_unknown, model, "fuse_unk", false);
    if (code == ERROR_NONE)
        code = read_vocabulary(bpe, model);
    if (code == ERROR_NONE)
        code = read_unknown(bpe, model);
    if (code == ERROR_NONE && bpe->model == TEXT_CHARACTERS)
        code = read_fallback(bpe, model);
    if (code == ERROR_NONE)
        code = read_merges(bpe, model);
    return code == ERROR_NONE && bpe->model == TEXT_CHARACTERS ? bpe_split_words(bpe) : code;
}

int member_read_model(struct bpe *bpe, const struct json_place *root)
{
    struct json_place model = place_member(root, "model");
    switch (bpe->model) {
    case TEXT_BPE:
    case TEXT_CHARACTERS:
        return read_bpe(bpe, &model);
    case TEXT_UNIGRAM:
        return read_unigram(bpe, &model);
    default:
        return read_words(bpe, &model);
    }
}

/* Returns whether pre_tokenizer has a ByteLevel. */
static bool has_byte_level(const json_t *splitter)
{
    const json_t *parts = json_object_get(splitter, "pretokenizers"), *part;
    const char *type = json_string_value(json_object_get(splitter, "type"));
    bool found = type != NULL && strcmp(type, "ByteLevel") == 0;
    for (size_t i = 0; !found && (part = json_array_get(parts, i)) != NULL; i++)
        found = has_byte_level(part);
    return found;
}

int member_read_kind(struct bpe *bpe, const struct json_place *root)
{
    struct json_place model = place_member(root, "model"), type = place_member(&model, "type");
    static const char *const types[] = {[TEXT_BPE] = "BPE",
                                        [TEXT_CHARACTERS] = NULL, /* also BPE */
                                        [TEXT_UNIGRAM] = "Unigram",
                                        [TEXT_WORDPIECE] = "WordPiece",
                                        [TEXT_WORDS] = "WordLevel"};
    enum { KINDS = sizeof types / sizeof *types };
    if (!json_is_object(model.value))
        return place_refuse(&model, "an object");
    int kind = 0;
    while (kind < KINDS && (types[kind] == NULL || !place_is(&type, types[kind])))
        kind++;
    if (kind == KINDS && type.value == NULL && json_object_get(model.value, "merges") != NULL)
        kind = TEXT_BPE;
    if (kind == KINDS)
        return place_refuse(&type, "\"BPE\", \"Unigram\", \"WordPiece\" or \"WordLevel\"");
    bpe->model = (enum text_model)kind;
    if (bpe->model == TEXT_BPE && !has_byte_level(json_object_get(root->value, "pre_tokenizer")))
        bpe->model = TEXT_CHARACTERS;
    return ERROR_NONE;
}
