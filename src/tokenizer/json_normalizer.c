/* Reads "normalizer" of a tokenizer.json. */
#include "base/error.h"
#include "base/memory.h"
#include "tokenizer/bpe_private.h"
#include "tokenizer/json_members.h"

#include <stdlib.h>
#include <string.h>

/* Reads BertNormalizer. Accents are stripped where lower case is made, unless strip_accents says otherwise. */
static int read_bert(struct normalizer_step *step, const struct json_place *part)
{
    struct bert_normalizer *to = &step->bert;
    struct json_place strip = place_member(part, "strip_accents");
    int code = place_bool(&to->clean, part, "clean_text", true);
    if (code == ERROR_NONE)
        code = place_bool(&to->chinese, part, "handle_chinese_chars", true);
    if (code == ERROR_NONE)
        code = place_bool(&to->lower, part, "lowercase", true);
    to->strip = to->lower;
    if (code == ERROR_NONE && !place_absent(&strip))
        code = place_bool(&to->strip, part, "strip_accents", false);
    return code;
}

/* Reads a text of at least `least` bytes, freed with free(). */
static int read_text(char **text, const struct json_place *of, const char *name, size_t least)
{
    enum { MOST = 256 };
    struct json_place place = place_member(of, name);
    const char *given = json_string_value(place.value);
    if (given == NULL || strlen(given) < least || strlen(given) > MOST)
        return place_refuse(&place, "a text of at most 256 bytes");
    *text = memory_string(given);
    return ERROR_NONE;
}

/* Reads Replace: of a text, or of the one pattern that conversions of SentencePiece models have. */
static int read_replace(struct normalizer_step *step, const struct json_place *part)
{
    static const char runs[] = " {2,}";
    struct json_place pattern = place_member(part, "pattern"), regex = place_member(&pattern, "Regex");
    step->kind = NORMALIZER_REPLACE;
    int code = ERROR_NONE;
    if (place_is(&regex, runs)) {
        step->kind = NORMALIZER_REPLACE_RUNS;
        step->from = memory_string(" ");
    } else if (regex.value != NULL) {
        code = place_refuse(&regex, "\" {2,}\", or a {\"String\": ...} in its place");
    } else {
        code = read_text(&step->from, &pattern, "String", 1);
    }
    return code == ERROR_NONE ? read_text(&step->to, part, "content", 0) : code;
}

static int read_strip(struct normalizer_step *step, const struct json_place *part)
{
    int code = place_bool(&step->left, part, "strip_left", true);
    return code == ERROR_NONE ? place_bool(&step->right, part, "strip_right", true) : code;
}

static int read_step(struct normalizer_step *step, const struct json_place *part)
{
    static const char *const types[] = {"NFC", "BertNormalizer", "Lowercase", "Prepend", "Replace", "Strip"};
    static const enum normalizer_kind kinds[] = {NORMALIZER_NFC,     NORMALIZER_BERT,    NORMALIZER_BERT,
                                                 NORMALIZER_PREPEND, NORMALIZER_REPLACE, NORMALIZER_STRIP};
    size_t i = 0;
    while (i < sizeof types / sizeof *types && strcmp(member_type(part), types[i]) != 0)
        i++;
    if (i == sizeof types / sizeof *types)
        return member_refuse_type(part,
                                  "NFC, BertNormalizer, Lowercase, Prepend, Replace or Strip, or normalizer null");
    step->kind = kinds[i];
    if (strcmp(types[i], "Lowercase") == 0)
        step->bert.lower = true;
    else if (step->kind == NORMALIZER_BERT)
        return read_bert(step, part);
    if (step->kind == NORMALIZER_PREPEND)
        return read_text(&step->to, part, "prepend", 1);
    if (step->kind == NORMALIZER_REPLACE)
        return read_replace(step, part);
    return step->kind == NORMALIZER_STRIP ? read_strip(step, part) : ERROR_NONE;
}

int member_read_normalizer(struct bpe *bpe, const struct json_place *part)
{
    struct normalizer_step step = {0};
    int code = read_step(&step, part);
    if (code == ERROR_NONE && !normalizer_add(&bpe->normalizer, &step))
        code = place_fault(part, "is the second NFC or BertNormalizer, or one of more than %d steps",
                           NORMALIZER_MOST_STEPS);
    if (code != ERROR_NONE) {
        free(step.from);
        free(step.to);
    }
    return code;
}
