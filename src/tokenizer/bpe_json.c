/* Reads tokenizer.json of Hugging Face's tokenizers. Unsupported features are rejected, naming the member. Source:
 * tokenizers 0.23, docs and files of its models. */
#include "base/error.h"
#include "base/memory.h"
#include "tokenizer/bpe_private.h"
#include "tokenizer/json_place.h"
#include "tokenizer/nfc.h"
#include "tokenizer/splitter_known.h"
#include "tokenizer/utf8.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* -- Parts --------------------------------------------------------------------------------------------------------- */

/* Returns "type" of an object; "" if missing. */
static const char *type_of(const struct json_place *place)
{
    const char *type = json_string_value(json_object_get(place->value, "type"));
    return type == NULL ? "" : type;
}

static int refuse_type(const struct json_place *of, const char *allowed)
{
    struct json_place type = place_member(of, "type");
    return place_refuse(&type, allowed);
}

/* Calls `read` for each part: an object is one part, a Sequence has the parts in its array `parts`, null has none. */
typedef int part_reader(struct bpe *bpe, const struct json_place *part);
static int read_parts(struct bpe *bpe, const struct json_place *place, const char *parts, part_reader *read)
{
    if (place_absent(place))
        return ERROR_NONE;
    if (!json_is_object(place->value))
        return place_refuse(place, "an object or null");
    if (strcmp(type_of(place), "Sequence") != 0)
        return read(bpe, place);
    struct json_place list = place_member(place, parts);
    int code = json_is_array(list.value) ? ERROR_NONE : place_refuse(&list, "an array");
    for (size_t i = 0; code == ERROR_NONE && i < json_array_size(list.value); i++) {
        struct json_place part = place_element(&list, i);
        code = read_parts(bpe, &part, parts, read);
    }
    return code;
}

/* -- Bytes as characters ----------------------------------------------------------------------------------------- */

/* Returns the byte that a character stands for, -1: none. In byte-level files, bytes that are printable in Latin-1
 * stand for themselves; all other bytes, in order, are written as U+0100 and following. Source: encoder.py of GPT-2. */
static int character_byte(uint32_t character)
{
    enum { FIRST = 0x21, MIDDLE = 0x7f, MIDDLE_END = 0xa1, HYPHEN = 0xad /* soft hyphen */ };
    if (character >= 0x100) {
        uint32_t index = character - 0x100;
        if (index < FIRST)
            return (int)index;
        index -= FIRST;
        return index < MIDDLE_END - MIDDLE ? (int)index + MIDDLE : index == MIDDLE_END - MIDDLE ? HYPHEN : -1;
    }
    bool printable = character >= FIRST && (character < MIDDLE || character >= MIDDLE_END) && character != HYPHEN;
    return printable ? (int)character : -1;
}

/* Converts a text to the bytes that its characters stand for, out[length]. Returns their number; -1: a character stands
 * for no byte. */
static int64_t decode_bytes(char *out, const char *text, int64_t length)
{
    int64_t used = 0;
    for (int64_t at = 0; at < length;) {
        int read, byte = character_byte(utf8_read((const unsigned char *)text + at, &read));
        if (byte < 0)
            return -1;
        out[used++] = (char)byte;
        at += read;
    }
    return used;
}

/* -- model ------------------------------------------------------------------------------------------------------- */

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
        int64_t count = bpe->model == TEXT_BPE ? decode_bytes(bytes, text, length) : -1;
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
        left_bytes = decode_bytes(bytes, left, left_length);
        right_bytes = left_bytes < 0 ? -1 : decode_bytes(bytes + left_bytes, right, right_length);
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
    const int64_t count = bpe->model == TEXT_BPE ? decode_bytes(bytes, name, length) : -1;
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
static int read_kind(struct bpe *bpe, const struct json_place *root)
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

static int read_model(struct bpe *bpe, const struct json_place *root)
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

/* -- normalizer, pre_tokenizer, decoder -------------------------------------------------------------------------- */

/* Reads BertNormalizer. Accents are stripped where lower case is made, unless strip_accents says otherwise. */
static int read_bert(struct bpe *bpe, const struct json_place *part)
{
    struct bert_normalizer *to = &bpe->normalizer;
    struct json_place strip = place_member(part, "strip_accents");
    int code = place_bool(&to->clean, part, "clean_text", true);
    if (code == ERROR_NONE)
        code = place_bool(&to->chinese, part, "handle_chinese_chars", true);
    if (code == ERROR_NONE)
        code = place_bool(&to->lower, part, "lowercase", true);
    to->strip = to->lower;
    if (code == ERROR_NONE && !place_absent(&strip))
        code = place_bool(&to->strip, part, "strip_accents", false);
    bpe->bert = true;
    return code;
}

static int read_normalizer(struct bpe *bpe, const struct json_place *part)
{
    if (bpe->model != TEXT_BPE && !bpe->bert && strcmp(type_of(part), "BertNormalizer") == 0)
        return read_bert(bpe, part);
    if (bpe->model != TEXT_BPE && !bpe->bert && strcmp(type_of(part), "Lowercase") == 0) {
        bpe->bert = bpe->normalizer.lower = true;
        return ERROR_NONE;
    }
    if (bpe->model != TEXT_BPE)
        return refuse_type(part, "one BertNormalizer or Lowercase, or normalizer null");
    bpe->nfc = true;
    return strcmp(type_of(part), "NFC") == 0 ? ERROR_NONE : refuse_type(part, "\"NFC\", or normalizer null");
}

static int add_stage(struct bpe *bpe, const struct json_place *place, struct splitter_settings settings)
{
    char where[PLACE_TEXT];
    place_text(where, place);
    settings.where = where;
    return bpe_add_stage(bpe, &settings);
}

/* Adds a stage in which matches, and texts between them, are pieces. */
static int add_isolated(struct bpe *bpe, const struct json_place *place, const char *pattern)
{
    return add_stage(bpe, place, (struct splitter_settings){.pattern = pattern, .behavior = SPLIT_ISOLATED});
}

/* Reads ByteLevel, always the last stage. It maps bytes to characters, which here only concerns how the vocabulary is
 * written. */
static int read_byte_level(struct bpe *bpe, const struct json_place *part)
{
    bool prefixed, split;
    int code = place_bool(&prefixed, part, "add_prefix_space", true);
    if (code == ERROR_NONE)
        code = place_bool(&split, part, "use_regex", true);
    if (code != ERROR_NONE)
        return code;
    if (prefixed)
        bpe->prefixed_stage = bpe->stage_count;
    return split ? add_isolated(bpe, part, splitter_gpt2) : ERROR_NONE;
}

static int read_split(struct bpe *bpe, const struct json_place *part)
{
    static const char *const behaviors[SPLIT_BEHAVIORS] = {"Removed", "Isolated", "MergedWithPrevious",
                                                           "MergedWithNext", "Contiguous"};
    struct json_place pattern = place_member(part, "pattern"), behavior = place_member(part, "behavior");
    struct json_place regex = place_member(&pattern, "Regex"), literal = place_member(&pattern, "String");
    const struct json_place *given = literal.value != NULL ? &literal : &regex;
    struct splitter_settings settings = {
        .pattern = json_string_value(given->value), .literal = literal.value != NULL, .behavior = SPLIT_BEHAVIORS};
    if (settings.pattern == NULL || settings.pattern[0] == '\0')
        return place_refuse(&pattern, "{\"Regex\": \"...\"} or {\"String\": \"...\"}");
    for (int i = 0; i < SPLIT_BEHAVIORS; i++)
        if (place_is(&behavior, behaviors[i]))
            settings.behavior = (enum splitter_behavior)i;
    if (settings.behavior == SPLIT_BEHAVIORS)
        return place_refuse(&behavior, "Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
    int code = place_bool(&settings.invert, part, "invert", false);
    return code == ERROR_NONE ? add_stage(bpe, given, settings) : code;
}

static int read_digits(struct bpe *bpe, const struct json_place *part)
{
    bool individual;
    int code = place_bool(&individual, part, "individual_digits", false);
    return code == ERROR_NONE ? add_isolated(bpe, part, individual ? "\\p{N}" : "\\p{N}+") : code;
}

static int add_removed(struct bpe *bpe, const struct json_place *place, const char *pattern)
{
    return add_stage(bpe, place, (struct splitter_settings){.pattern = pattern, .behavior = SPLIT_REMOVED});
}

static int read_blanks(struct bpe *bpe, const struct json_place *part)
{
    return add_removed(bpe, part, "\\s");
}

static int read_bert_words(struct bpe *bpe, const struct json_place *part)
{
    int code = read_blanks(bpe, part);
    return code == ERROR_NONE ? add_isolated(bpe, part, "[!-/:-@\\[-`{-~\\p{P}]") : code;
}

/* Reads a part of the pre-tokenizer of a tokenizer of words. */
static int read_word_splitter(struct bpe *bpe, const struct json_place *part)
{
    static const struct {
        const char *type;
        part_reader *read;
    } types[] = {{"BertPreTokenizer", read_bert_words},
                 {"WhitespaceSplit", read_blanks},
                 {"Split", read_split},
                 {"Digits", read_digits}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(type_of(part), types[i].type) == 0)
            return types[i].read(bpe, part);
    return refuse_type(part, "BertPreTokenizer, WhitespaceSplit, Split, Digits or Sequence");
}

static int read_pre_tokenizer(struct bpe *bpe, const struct json_place *part)
{
    if (bpe->model != TEXT_BPE)
        return read_word_splitter(bpe, part);
    static const struct {
        const char *type;
        part_reader *read;
    } types[] = {{"ByteLevel", read_byte_level}, {"Split", read_split}, {"Digits", read_digits}};
    if (bpe->byte_level)
        return refuse_type(part, "nothing: ByteLevel must be the last of pre_tokenizer");
    bpe->byte_level = strcmp(type_of(part), "ByteLevel") == 0;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(type_of(part), types[i].type) == 0)
            return types[i].read(bpe, part);
    return refuse_type(part, "ByteLevel, Split, Digits or Sequence");
}

/* Decoders only matter to the library: bpe_text says what an id stands for. */
static int read_decoder(struct bpe *bpe, const struct json_place *part)
{
    if (bpe->model != TEXT_BPE && (strcmp(type_of(part), "WordPiece") == 0 || strcmp(type_of(part), "Fuse") == 0))
        return ERROR_NONE;
    return strcmp(type_of(part), "ByteLevel") == 0 ? ERROR_NONE : refuse_type(part, "\"ByteLevel\"");
}

/* -- post_processor ---------------------------------------------------------------------------------------------- */

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

static int read_post_processor(struct bpe *bpe, const struct json_place *part)
{
    if (strcmp(type_of(part), "ByteLevel") == 0) /* it trims offsets, which are not used here */
        return ERROR_NONE;
    if (strcmp(type_of(part), "TemplateProcessing") == 0)
        return read_template(bpe, part);
    if (strcmp(type_of(part), "BertProcessing") == 0 || strcmp(type_of(part), "RobertaProcessing") == 0)
        return read_ends(bpe, part);
    return refuse_type(part, "TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel or Sequence");
}

/* -- added_tokens ------------------------------------------------------------------------------------------------ */

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
    const bool words = bpe->model != TEXT_BPE;
    int64_t count = words ? -1 : decode_bytes(bytes, token->text, token->bytes);
    int32_t own = words       ? tokens_find(&bpe->tokens, token->text, token->bytes, TOKEN_TEXT)
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

static void normalize_list(struct added_list *list)
{
    struct nfc nfc = {0};
    for (int64_t i = 0; i < list->count; i++) {
        struct added_token *token = &list->tokens[i];
        int64_t bytes;
        const unsigned char *text = nfc_normalize(&nfc, (const unsigned char *)token->text, token->bytes, &bytes);
        if (!list->normalized[i] || text == (const unsigned char *)token->text)
            continue;
        token->text = memory_grow(token->text, bytes);
        token->bytes = bytes;
        memcpy(token->text, text, (size_t)bytes);
    }
    nfc_free(&nfc);
}

static int read_added(struct bpe *bpe, const struct json_place *root)
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
        if (bpe->nfc)
            normalize_list(&list);
        open_sets(bpe, &list);
    }
    for (int64_t i = 0; i < list.count; i++)
        free(list.tokens[i].text);
    free(list.tokens);
    free(list.normalized);
    return code;
}

/* -- The files --------------------------------------------------------------------------------------------------- */

static int read_pre_tokenizers(struct bpe *bpe, const struct json_place *root)
{
    struct json_place place = place_member(root, "pre_tokenizer");
    int code = read_parts(bpe, &place, "pretokenizers", read_pre_tokenizer);
    if (code == ERROR_NONE && !bpe->byte_level && bpe->model == TEXT_BPE)
        return error_user("%s: pre_tokenizer: has no ByteLevel: only byte-level vocabularies are supported", bpe->name);
    return code;
}

static int read_root(struct bpe *bpe, const struct json_place *root)
{
    struct json_place normalizer = place_member(root, "normalizer"), processor = place_member(root, "post_processor");
    struct json_place decoder = place_member(root, "decoder");
    int code = read_kind(bpe, root);
    if (code == ERROR_NONE)
        code = read_parts(bpe, &normalizer, "normalizers", read_normalizer);
    if (code == ERROR_NONE)
        code = read_pre_tokenizers(bpe, root);
    if (code == ERROR_NONE)
        code = read_parts(bpe, &decoder, "decoders", read_decoder);
    if (code == ERROR_NONE)
        code = read_model(bpe, root);
    if (code == ERROR_NONE)
        code = read_added(bpe, root);
    if (code == ERROR_NONE)
        code = read_parts(bpe, &processor, "processors", read_post_processor);
    return code;
}

int bpe_read_json(struct bpe *bpe, const struct bpe_file *file)
{
    json_t *object;
    int code = place_parse(&object, file);
    if (code != ERROR_NONE)
        return code;
    const struct json_place root = {.file = bpe->name, .value = object};
    code = read_root(bpe, &root);
    json_decref(object);
    return code;
}
