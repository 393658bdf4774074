/* Reads "added_tokens" of a tokenizer.json. */
#include "base/error.h"
#include "base/memory.h"
#include "tokenizer/bpe_private.h"
#include "tokenizer/json_members.h"

#include <stdlib.h>
#include <string.h>

static int read_added_token(const struct json_place *place, struct added_token *token, bool *normalized)
{
    struct json_place id = place_member(place, "id"), content = place_member(place, "content");
    const char *text = json_string_value(content.value);
    token->text = NULL;
    if (!json_is_integer(id.value) || json_integer_value(id.value) < 0 || json_integer_value(id.value) >= TOKENS_MOST)
        return place_fault(&id, "must be a whole number from 0 to %d", TOKENS_MOST - 1);
    if (text == NULL || text[0] == '\0' || strlen(text) > ADDED_BYTES_MOST)
        return place_fault(&content, "must be a text of 1 to %d bytes", ADDED_BYTES_MOST);
    *token = (struct added_token){.bytes = (int64_t)strlen(text), .id = (int32_t)json_integer_value(id.value)};
    int code = place_bool(&token->special, place, "special", false);
    if (code == ERROR_NONE)
        code = place_bool(&token->single_word, place, "single_word", false);
    if (code == ERROR_NONE)
        code = place_bool(&token->lstrip, place, "lstrip", false);
    if (code == ERROR_NONE)
        code = place_bool(&token->rstrip, place, "rstrip", false);
    if (code == ERROR_NONE)
        code = place_bool(normalized, place, "normalized", !token->special);
    token->text = code == ERROR_NONE ? memory_string(text) : NULL;
    return code;
}

/* Checks that an added token is new, or in the model under the same id. check_twice finds two added tokens with the
 * same text. */
static int check_added(struct bpe *bpe, const struct json_place *place, const struct added_token *token)
{
    char bytes[ADDED_BYTES_MOST];
    const bool plain = bpe->model != TEXT_BPE;
    int64_t count = plain ? -1 : member_decode_bytes(bytes, token->text, token->bytes);
    int32_t own = plain       ? tokens_find(&bpe->tokens, token->text, token->bytes, TOKEN_TEXT)
                  : count < 0 ? tokens_find(&bpe->tokens, token->text, token->bytes, TOKEN_ODD)
                              : tokens_find(&bpe->tokens, bytes, count, TOKEN_TEXT);
    if (own >= 0 && own != token->id)
        return place_fault(place, "\"%s\" has id %d here and %d in model.vocab", token->text, (int)token->id, (int)own);
    if (own < 0 && tokens_has(&bpe->tokens, token->id))
        return place_fault(place, "id %d of \"%s\" is another token's", (int)token->id, token->text);
    return ERROR_NONE;
}

/* All added tokens, before they are divided into two sets. */
struct added_list {
    struct added_token *tokens;
    bool *normalized;
    int64_t count;
};

static int read_added_list(struct bpe *bpe, const struct json_place *place, struct added_list *list)
{
    int code = ERROR_NONE;
    for (size_t i = 0; code == ERROR_NONE && i < json_array_size(place->value); i++) {
        struct json_place token = place_element(place, i);
        struct added_token *read = &list->tokens[list->count];
        code = read_added_token(&token, read, &list->normalized[list->count]);
        list->count += read->text != NULL;
        if (code == ERROR_NONE)
            code = check_added(bpe, &token, read);
        if (code != ERROR_NONE)
            break;
        if (!tokens_has(&bpe->tokens, read->id))
            tokens_add(&bpe->tokens, read->id, read->text, read->bytes, TOKEN_ADDED);
        bpe->tokens.tokens[read->id].kinds |= TOKEN_ADDED | (read->special ? TOKEN_SPECIAL : 0);
    }
    return code;
}

/* Checks that no text has two ids. */
static int check_twice(const struct bpe *bpe, const struct json_place *place, const struct added_list *list)
{
    for (int64_t i = 0; i < list->count; i++) {
        const struct added_token *token = &list->tokens[i];
        int32_t first = tokens_find(&bpe->tokens, token->text, token->bytes, TOKEN_ADDED);
        if (first >= 0 && first != token->id)
            return place_fault(place, "\"%s\" occurs twice, as %d and %d", token->text, (int)first, (int)token->id);
    }
    return ERROR_NONE;
}

/* Divides the list into two sets, which take ownership of the tokens: those found in the original text, and those found
 * in normalized text, which are normalized themselves. */
static void open_sets(struct bpe *bpe, struct added_list *list)
{
    struct added_token *chosen = memory_grow(NULL, (list->count + 1) * (int64_t)sizeof *chosen);
    for (int normalized = 0; normalized < 2; normalized++) {
        int64_t count = 0;
        for (int64_t i = 0; i < list->count; i++)
            if (list->normalized[i] == normalized)
                chosen[count++] = list->tokens[i];
        *(normalized ? &bpe->added_normalized : &bpe->added) = added_open(chosen, count);
    }
    free(chosen);
    list->count = 0;
}

/* Normalizes the tokens that are found in normalized text. */
static void normalize_list(const struct text_normalizer *normalizer, struct added_list *list)
{
    struct normalized_text buffers = {0};
    for (int64_t i = 0; i < list->count; i++) {
        struct added_token *token = &list->tokens[i];
        int64_t bytes;
        if (!list->normalized[i])
            continue;
        const unsigned char *text =
            normalizer_run(normalizer, &buffers, (const unsigned char *)token->text, token->bytes, &bytes);
        if (bytes == 0 || text == (const unsigned char *)token->text) /* an empty one would be everywhere */
            continue;
        token->text = memory_grow(token->text, bytes);
        token->bytes = bytes;
        memcpy(token->text, text, (size_t)bytes);
    }
    normalized_text_free(&buffers);
}

int member_read_added(struct bpe *bpe, const struct json_place *root)
{
    struct json_place place = place_member(root, "added_tokens");
    if (!place_absent(&place) && !json_is_array(place.value))
        return place_refuse(&place, "an array");
    int64_t most = (int64_t)json_array_size(place.value) + 1;
    struct added_list list = {.tokens = memory_grow(NULL, most * (int64_t)sizeof *list.tokens),
                              .normalized = memory_grow(NULL, most * (int64_t)sizeof *list.normalized)};
    int code = read_added_list(bpe, &place, &list);
    if (code == ERROR_NONE) {
        tokens_index(&bpe->tokens);
        code = check_twice(bpe, &place, &list);
    }
    if (code == ERROR_NONE) {
        normalize_list(&bpe->normalizer, &list);
        open_sets(bpe, &list);
    }
    for (int64_t i = 0; i < list.count; i++)
        free(list.tokens[i].text);
    free(list.tokens);
    free(list.normalized);
    return code;
}
