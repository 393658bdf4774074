/* Reads "pre_tokenizer" of a tokenizer.json. */
#include "base/error.h"
#include "tokenizer/bpe_private.h"
#include "tokenizer/json_members.h"
#include "tokenizer/splitter_known.h"

#include <string.h>

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
        member_part_reader *read;
    } types[] = {{"BertPreTokenizer", read_bert_words},
                 {"WhitespaceSplit", read_blanks},
                 {"Split", read_split},
                 {"Digits", read_digits}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(member_type(part), types[i].type) == 0)
            return types[i].read(bpe, part);
    return member_refuse_type(part, "BertPreTokenizer, WhitespaceSplit, Split, Digits or Sequence");
}

static int read_pre_tokenizer(struct bpe *bpe, const struct json_place *part)
{
    if (bpe->model != TEXT_BPE)
        return read_word_splitter(bpe, part);
    static const struct {
        const char *type;
        member_part_reader *read;
    } types[] = {{"ByteLevel", read_byte_level}, {"Split", read_split}, {"Digits", read_digits}};
    if (bpe->byte_level)
        return member_refuse_type(part, "nothing: ByteLevel must be the last of pre_tokenizer");
    bpe->byte_level = strcmp(member_type(part), "ByteLevel") == 0;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(member_type(part), types[i].type) == 0)
            return types[i].read(bpe, part);
    return member_refuse_type(part, "ByteLevel, Split, Digits or Sequence");
}

int member_read_splitters(struct bpe *bpe, const struct json_place *root)
{
    struct json_place place = place_member(root, "pre_tokenizer");
    int code = member_read_parts(bpe, &place, "pretokenizers", read_pre_tokenizer);
    if (code == ERROR_NONE && !bpe->byte_level && bpe->model == TEXT_BPE)
        return error_user("%s: pre_tokenizer: has no ByteLevel: only byte-level vocabularies are supported", bpe->name);
    return code;
}
