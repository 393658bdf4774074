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

/* Reads Whitespace, which keeps words and the runs of other characters between white space. */
static int read_words(struct bpe *bpe, const struct json_place *part)
{
    return add_stage(bpe, part,
                     (struct splitter_settings){.pattern = splitter_words, .behavior = SPLIT_REMOVED, .invert = true});
}

/* Reads Metaspace. Files of older versions have add_prefix_space in place of prepend_scheme. */
static int read_metaspace(struct bpe *bpe, const struct json_place *part)
{
    static const char *const schemes[] = {
        [METASPACE_NEVER] = "never", [METASPACE_FIRST] = "first", [METASPACE_ALWAYS] = "always"};
    struct json_place mark = place_member(part, "replacement"), scheme = place_member(part, "prepend_scheme");
    bool prefixed, split;
    if (bpe->metaspace_stage >= 0)
        return member_refuse_type(part, "in pre_tokenizer once");
    if (!place_is(&mark, SPM_BLANK))
        return place_refuse(&mark, "\"" SPM_BLANK "\"");
    int code = place_bool(&prefixed, part, "add_prefix_space", true);
    if (code == ERROR_NONE)
        code = place_bool(&split, part, "split", true);
    bpe->metaspace_stage = bpe->stage_count;
    bpe->metaspace_prefix = prefixed ? METASPACE_ALWAYS : METASPACE_NEVER;
    bool known = place_absent(&scheme);
    for (int i = METASPACE_NEVER; i <= METASPACE_ALWAYS; i++)
        if (place_is(&scheme, schemes[i])) {
            bpe->metaspace_prefix = (enum metaspace_prefix)i;
            known = true;
        }
    if (code != ERROR_NONE)
        return code;
    if (!known)
        return place_refuse(&scheme, "\"always\", \"first\" or \"never\"");
    const struct splitter_settings words = {.pattern = SPM_BLANK, .literal = true, .behavior = SPLIT_MERGED_WITH_NEXT};
    return split ? add_stage(bpe, part, words) : ERROR_NONE;
}

struct splitter_type {
    const char *type;
    member_part_reader *read;
};

static int read_one_of(struct bpe *bpe, const struct json_place *part, const struct splitter_type *types,
                       const char *names)
{
    for (; types->type != NULL; types++)
        if (strcmp(member_type(part), types->type) == 0)
            return types->read(bpe, part);
    return member_refuse_type(part, names);
}

/* Reads a part of the pre-tokenizer of byte-level BPE. */
static int read_byte_splitter(struct bpe *bpe, const struct json_place *part)
{
    static const struct splitter_type types[] = {
        {"ByteLevel", read_byte_level}, {"Split", read_split}, {"Digits", read_digits}, {NULL, NULL}};
    if (bpe->byte_level)
        return member_refuse_type(part, "nothing: ByteLevel must be the last of pre_tokenizer");
    bpe->byte_level = strcmp(member_type(part), "ByteLevel") == 0;
    return read_one_of(bpe, part, types, "ByteLevel, Split, Digits or Sequence");
}

/* Reads a part of the pre-tokenizer of other models. */
static int read_splitter(struct bpe *bpe, const struct json_place *part)
{
    static const struct splitter_type types[] = {{"BertPreTokenizer", read_bert_words},
                                                 {"Metaspace", read_metaspace},
                                                 {"Whitespace", read_words},
                                                 {"WhitespaceSplit", read_blanks},
                                                 {"Split", read_split},
                                                 {"Digits", read_digits},
                                                 {NULL, NULL}};
    return read_one_of(bpe, part, types,
                       "BertPreTokenizer, Metaspace, Whitespace, WhitespaceSplit, Split, Digits or Sequence");
}

int member_read_splitters(struct bpe *bpe, const struct json_place *root)
{
    struct json_place place = place_member(root, "pre_tokenizer");
    const bool bytes = bpe->model == TEXT_BPE;
    return member_read_parts(bpe, &place, "pretokenizers", bytes ? read_byte_splitter : read_splitter);
}
