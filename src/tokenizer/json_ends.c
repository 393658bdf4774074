/* Reads "post_processor" of a tokenizer.json: the special tokens around a text. */
#include "base/error.h"
#include "tokenizer/bpe_private.h"
#include "tokenizer/json_members.h"

#include <string.h>

/* Reads the id of a special token in a template. */
static int template_id(int32_t *id, const struct bpe *bpe, const struct json_place *template,
                       const struct json_place *piece)
{
    struct json_place special = place_member(piece, "SpecialToken"), name = place_member(&special, "id");
    struct json_place all = place_member(template, "special_tokens");
    const char *text = json_string_value(name.value);
    if (text == NULL)
        return place_refuse(&name, "the name of a special token");
    struct json_place token = place_member(&all, text), ids = place_member(&token, "ids");
    const json_t *only = json_array_get(ids.value, 0);
    if (json_array_size(ids.value) != 1 || !json_is_integer(only) ||
        !tokens_has(&bpe->tokens, json_integer_value(only)))
        return place_refuse(&ids, "one id of the vocabulary");
    *id = (int32_t)json_integer_value(only);
    return ERROR_NONE;
}

/* Reads the TemplateProcessing of a single text: at most one token before it and one after it. */
static int read_template(struct bpe *bpe, const struct json_place *template)
{
    struct json_place single = place_member(template, "single");
    bool behind = false;
    if (!json_is_array(single.value))
        return place_refuse(&single, "an array");
    for (size_t i = 0; i < json_array_size(single.value); i++) {
        struct json_place piece = place_element(&single, i);
        if (json_object_get(piece.value, "Sequence") != NULL) {
            if (behind)
                return place_refuse(&piece, "the only Sequence");
            behind = true;
            continue;
        }
        bool *there = behind ? &bpe->ends : &bpe->begins;
        if (*there)
            return place_refuse(&single, "at most one special token before the text and one after it");
        *there = true;
        int code = template_id(&bpe->roles[behind ? BPE_EOS : BPE_BOS], bpe, template, &piece);
        if (code != ERROR_NONE)
            return code;
    }
    return behind ? ERROR_NONE : place_refuse(&single, "a template with a Sequence");
}

/* Reads a token of BertProcessing or RobertaProcessing, such as "cls": ["[CLS]", 101]. */
static int read_pair(int32_t *id, const struct bpe *bpe, const struct json_place *part, const char *name)
{
    struct json_place pair = place_member(part, name);
    const json_t *given = json_array_get(pair.value, 1);
    if (json_array_size(pair.value) != 2 || !json_is_integer(given) ||
        !tokens_has(&bpe->tokens, json_integer_value(given)))
        return place_refuse(&pair, "a token and its id");
    *id = (int32_t)json_integer_value(given);
    return ERROR_NONE;
}

/* Reads the post-processors of BERT and RoBERTa: a token before the text and one after it. */
static int read_ends(struct bpe *bpe, const struct json_place *part)
{
    int code = read_pair(&bpe->roles[BPE_BOS], bpe, part, "cls");
    bpe->begins = bpe->ends = true;
    return code == ERROR_NONE ? read_pair(&bpe->roles[BPE_EOS], bpe, part, "sep") : code;
}

int member_read_ends(struct bpe *bpe, const struct json_place *part)
{
    if (strcmp(member_type(part), "ByteLevel") == 0) /* it trims offsets, which are not used here */
        return ERROR_NONE;
    if (strcmp(member_type(part), "TemplateProcessing") == 0)
        return read_template(bpe, part);
    if (strcmp(member_type(part), "BertProcessing") == 0 || strcmp(member_type(part), "RobertaProcessing") == 0)
        return read_ends(bpe, part);
    return member_refuse_type(part, "TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel or Sequence");
}
