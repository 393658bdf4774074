#include "tokenizer/vocabulary_files.h"
#include "base/error.h"
#include "base/memory.h"
#include "tokenizer/bpe.h"
#include "tokenizer/json_place.h"
#include "tokenizer/splitter_known.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

struct vocabulary_source {
    const struct tokenizer_bundle *bundle;
    const char *where;
    json_t *vocabulary; /* token to id; owned */
    json_t *config;     /* tokenizer_config.json; owned */
    json_t *added;      /* the array added_tokens that is made; owned */
};

/* -- Reading ------------------------------------------------------------------------------------------------------- */

/* Reads a file of the bundle that is one JSON object. *object is NULL if there is no such file. */
static int read_object(json_t **object, const struct vocabulary_source *s, enum bundle_kind kind)
{
    *object = NULL;
    if (s->bundle->files[kind].data == NULL)
        return ERROR_NONE;
    char *name = memory_format("%s: %s", s->where, bundle_names[kind]);
    const struct bpe_file file = {s->bundle->files[kind].data, s->bundle->files[kind].bytes, name};
    const int code = place_parse(object, &file);
    free(name);
    return code;
}

/* Reads merges.txt: a line of two tokens for each merge, in the order of their ranks, and perhaps a first line with the
 * version. *merges is an array of such lines, owned by the caller. */
static int read_merges(json_t **merges, const struct vocabulary_source *s)
{
    const char *at = s->bundle->files[BUNDLE_MERGES].data, *end = at + s->bundle->files[BUNDLE_MERGES].bytes;
    static const char version[] = "#version";
    *merges = json_array();
    for (int64_t line = 1; at < end; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at)), *next = stop != NULL ? stop + 1 : end;
        int64_t bytes = (stop != NULL ? stop : end) - at;
        bytes -= bytes > 0 && at[bytes - 1] == '\r';
        const bool skipped =
            bytes == 0 || (bytes >= (int64_t)sizeof version - 1 && memcmp(at, version, sizeof version - 1) == 0);
        const char *space = memchr(at, ' ', (size_t)bytes);
        json_t *text = skipped || space == NULL || memchr(space + 1, ' ', (size_t)(at + bytes - space - 1)) != NULL
                           ? NULL
                           : json_stringn(at, (size_t)bytes);
        if (!skipped && text == NULL)
            return error_user("%s: %s:%lld: is not a merge, two tokens in UTF-8 with a blank between them", s->where,
                              bundle_names[BUNDLE_MERGES], (long long)line);
        if (text != NULL)
            json_array_append_new(*merges, text);
        at = next;
    }
    return ERROR_NONE;
}

/* Reads vocab.txt: a token a line; its number, from 0, is the id. */
static int read_words(struct vocabulary_source *s)
{
    const char *at = s->bundle->files[BUNDLE_WORDS].data, *end = at + s->bundle->files[BUNDLE_WORDS].bytes;
    s->vocabulary = json_object();
    for (json_int_t id = 0; at < end; id++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at)), *next = stop != NULL ? stop + 1 : end;
        int64_t bytes = (stop != NULL ? stop : end) - at;
        bytes -= bytes > 0 && at[bytes - 1] == '\r';
        json_t *text = memchr(at, '\0', (size_t)bytes) == NULL ? json_stringn(at, (size_t)bytes) : NULL;
        if (text == NULL || json_object_get(s->vocabulary, json_string_value(text)) != NULL) {
            const bool twice = text != NULL;
            json_decref(text);
            return error_user("%s: %s:%lld: %s", s->where, bundle_names[BUNDLE_WORDS], (long long)id + 1,
                              twice ? "is the second line of this token" : "is not a token in UTF-8");
        }
        json_object_set_new(s->vocabulary, json_string_value(text), json_integer(id));
        json_decref(text);
        at = next;
    }
    return ERROR_NONE;
}

/* -- Added tokens -------------------------------------------------------------------------------------------------- */

static bool is_true(const json_t *object, const char *key)
{
    return json_is_true(json_object_get(object, key));
}

/* Returns the entry of added_tokens with this text, NULL: none. */
static json_t *find_added(const struct vocabulary_source *s, const char *text)
{
    for (size_t i = 0; i < json_array_size(s->added); i++) {
        json_t *entry = json_array_get(s->added, i);
        if (strcmp(json_string_value(json_object_get(entry, "content")), text) == 0)
            return entry;
    }
    return NULL;
}

/* Adds a token to added_tokens, or makes the one that is there special. `flags`: an object with lstrip and the like, or
 * another value for none. */
static void add_token(struct vocabulary_source *s, const char *text, json_int_t id, bool special, const json_t *flags)
{
    json_t *there = find_added(s, text);
    if (there != NULL && special)
        json_object_set_new(there, "special", json_true());
    if (there != NULL)
        return;
    const bool normalized = json_object_get(flags, "normalized") != NULL ? is_true(flags, "normalized") : !special;
    json_array_append_new(s->added,
                          json_pack("{s:I, s:s, s:b, s:b, s:b, s:b, s:b}", "id", id, "content", text, "single_word",
                                    is_true(flags, "single_word"), "lstrip", is_true(flags, "lstrip"), "rstrip",
                                    is_true(flags, "rstrip"), "normalized", normalized, "special", special));
}

/* Adds added_tokens_decoder of tokenizer_config.json: an object for each id. */
static void add_decoder(struct vocabulary_source *s)
{
    const char *id;
    json_t *token;
    json_object_foreach(json_object_get(s->config, "added_tokens_decoder"), id, token)
    {
        const char *text = json_string_value(json_object_get(token, "content"));
        if (text != NULL)
            add_token(s, text, strtoll(id, NULL, 10), is_true(token, "special"), token);
    }
}

/* Adds added_tokens.json: an id for each text. */
static void add_others(struct vocabulary_source *s, const json_t *others)
{
    const char *text;
    json_t *id;
    json_object_foreach((json_t *)others, text, id) add_token(s, text, json_integer_value(id), false, NULL);
}

/* Adds a special token if the vocabulary has it; `token`: its text, or an object with it. */
static void add_special(struct vocabulary_source *s, const json_t *token)
{
    const char *text = json_string_value(json_is_object(token) ? json_object_get(token, "content") : token);
    const json_t *id = text != NULL ? json_object_get(s->vocabulary, text) : NULL;
    if (id != NULL || (text != NULL && find_added(s, text) != NULL))
        add_token(s, text, json_integer_value(id), true, token);
}

/* Adds the special tokens that tokenizer_config.json or special_tokens_map.json names by their roles. */
static void add_specials(struct vocabulary_source *s, const json_t *of)
{
    static const char *const roles[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        add_special(s, json_object_get(of, roles[i]));
    const json_t *more = json_object_get(of, "additional_special_tokens");
    for (size_t i = 0; i < json_array_size(more); i++)
        add_special(s, json_array_get(more, i));
}

/* Makes added_tokens. */
static int make_added(struct vocabulary_source *s)
{
    json_t *others = NULL, *roles = NULL;
    int code = read_object(&others, s, BUNDLE_ADDED);
    if (code == ERROR_NONE)
        code = read_object(&roles, s, BUNDLE_SPECIALS);
    s->added = json_array();
    add_decoder(s);
    add_others(s, others);
    add_specials(s, s->config);
    add_specials(s, roles);
    json_decref(others);
    json_decref(roles);
    return code;
}

static bool has_class(const struct vocabulary_source *s, const char *name)
{
    const char *class = json_string_value(json_object_get(s->config, "tokenizer_class"));
    return class != NULL && strncmp(class, name, strlen(name)) == 0; /* also NameFast */
}

/* The special tokens that a class of transformers has unless tokenizer_config.json says otherwise. */
struct class_tokens {
    const char *class; /* NULL: any other class, as GPT-2 */
    struct {
        const char *role, *text;
    } tokens[6];
};
static const struct class_tokens class_tokens[] = {
    {"BertTokenizer",
     {{"cls_token", "[CLS]"},
      {"sep_token", "[SEP]"},
      {"pad_token", "[PAD]"},
      {"unk_token", "[UNK]"},
      {"mask_token", "[MASK]"}}},
    {"EsmTokenizer",
     {{"cls_token", "<cls>"},
      {"eos_token", "<eos>"},
      {"pad_token", "<pad>"},
      {"unk_token", "<unk>"},
      {"mask_token", "<mask>"}}},
    {"RobertaTokenizer",
     {{"bos_token", "<s>"},
      {"eos_token", "</s>"},
      {"pad_token", "<pad>"},
      {"unk_token", "<unk>"},
      {"mask_token", "<mask>"}}},
    {"Qwen2Tokenizer", {{"eos_token", "<|endoftext|>"}, {"pad_token", "<|endoftext|>"}}},
    {NULL, {{"bos_token", "<|endoftext|>"}, {"eos_token", "<|endoftext|>"}, {"unk_token", "<|endoftext|>"}}}};

/* Adds the special tokens of the class that the vocabulary has, to added_tokens and to tokenizer_config.json, which
 * defines their roles. */
static void add_usual(struct vocabulary_source *s)
{
    const struct class_tokens *of = class_tokens;
    while (of->class != NULL && !has_class(s, of->class))
        of++;
    for (int i = 0; of->tokens[i].role != NULL; i++) {
        if (json_object_get(s->config, of->tokens[i].role) != NULL ||
            json_object_get(s->vocabulary, of->tokens[i].text) == NULL)
            continue;
        json_t *text = json_string(of->tokens[i].text);
        add_special(s, text);
        json_object_set_new(s->config, of->tokens[i].role, text);
    }
}

/* -- The other members --------------------------------------------------------------------------------------------- */

static json_t *byte_level(bool prefixed, bool splits)
{
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", prefixed, "trim_offsets", 1,
                     "use_regex", splits);
}

static json_t *pre_tokenizer(const struct vocabulary_source *s)
{
    const bool prefixed = is_true(s->config, "add_prefix_space");
    if (!has_class(s, "Qwen2Tokenizer"))
        return byte_level(prefixed, true);
    return json_pack("{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, o]}", "type", "Sequence", "pretokenizers", "type", "Split",
                     "pattern", "Regex", splitter_qwen2, "behavior", "Isolated", "invert", 0,
                     byte_level(prefixed, false));
}

/* Returns "FIRST text LAST" for the tokens of a class, null if the vocabulary lacks one of them. */
static json_t *template_of(const struct vocabulary_source *s, const char *begin, const char *end)
{
    const json_t *first = json_object_get(s->vocabulary, begin), *last = json_object_get(s->vocabulary, end);
    if (first == NULL || last == NULL)
        return json_null();
    return json_pack("{s:s, s:[{s:{s:s, s:i}}, {s:{s:s, s:i}}, {s:{s:s, s:i}}], s:[], s:{s:{s:s, s:[O], s:[s]}, "
                     "s:{s:s, s:[O], s:[s]}}}",
                     "type", "TemplateProcessing", "single", "SpecialToken", "id", begin, "type_id", 0, "Sequence",
                     "id", "A", "type_id", 0, "SpecialToken", "id", end, "type_id", 0, "pair", "special_tokens", begin,
                     "id", begin, "ids", first, "tokens", begin, end, "id", end, "ids", last, "tokens", end);
}

/* Returns the template of RoBERTa, <s> text </s>, null for other classes. */
static json_t *post_processor(const struct vocabulary_source *s)
{
    return has_class(s, "RobertaTokenizer") ? template_of(s, "<s>", "</s>") : json_null();
}

static int make_of_pair(struct vocabulary_source *s, json_t **made)
{
    json_t *merges = NULL;
    int code = read_object(&s->vocabulary, s, BUNDLE_VOCABULARY);
    if (code == ERROR_NONE)
        code = read_merges(&merges, s);
    if (code == ERROR_NONE)
        code = make_added(s);
    if (code == ERROR_NONE)
        add_usual(s);
    if (code == ERROR_NONE)
        *made =
            json_pack("{s:s, s:n, s:n, s:O, s:o, s:o, s:o, s:o, s:{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b, s:O, "
                      "s:O}}",
                      "version", "1.0", "truncation", "padding", "added_tokens", s->added, "normalizer",
                      has_class(s, "Qwen2Tokenizer") ? json_pack("{s:s}", "type", "NFC") : json_null(), "pre_tokenizer",
                      pre_tokenizer(s), "post_processor", post_processor(s), "decoder", byte_level(false, true),
                      "model", "type", "BPE", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                      "fuse_unk", 0, "byte_fallback", 0, "ignore_merges", 0, "vocab", s->vocabulary, "merges", merges);
    json_decref(merges);
    return code;
}

/* -- vocab.txt ----------------------------------------------------------------------------------------------------- */

/* Returns a flag of tokenizer_config.json: a bool, or null, which means `otherwise`. */
static json_t *flag(const struct vocabulary_source *s, const char *key, json_t *otherwise)
{
    json_t *given = json_object_get(s->config, key);
    if (!json_is_boolean(given))
        return otherwise;
    json_decref(otherwise);
    return json_incref(given);
}

/* Makes the WordPiece of BERT. */
static json_t *make_bert(struct vocabulary_source *s)
{
    json_t *normalizer =
        json_pack("{s:s, s:b, s:o, s:o, s:o}", "type", "BertNormalizer", "clean_text", 1, "handle_chinese_chars",
                  flag(s, "tokenize_chinese_chars", json_true()), "strip_accents",
                  flag(s, "strip_accents", json_null()), "lowercase", flag(s, "do_lower_case", json_true()));
    return json_pack("{s:s, s:n, s:n, s:O, s:o, s:{s:s}, s:o, s:{s:s, s:s, s:b}, s:{s:s, s:s, s:s, s:i, s:O}}",
                     "version", "1.0", "truncation", "padding", "added_tokens", s->added, "normalizer", normalizer,
                     "pre_tokenizer", "type", "BertPreTokenizer", "post_processor", template_of(s, "[CLS]", "[SEP]"),
                     "decoder", "type", "WordPiece", "prefix", "##", "cleanup", 1, "model", "type", "WordPiece",
                     "unk_token", "[UNK]", "continuing_subword_prefix", "##", "max_input_chars_per_word", 100, "vocab",
                     s->vocabulary);
}

/* Makes a table of ESM: at each place of the text the longest token of the table, as transformers' class looks for all
 * tokens before it splits the rest at white space. */
static json_t *make_table(struct vocabulary_source *s)
{
    const char *text;
    json_t *id;
    json_object_foreach(s->vocabulary, text, id)
    {
        if (text[0] != '\0')
            add_token(s, text, json_integer_value(id), false, NULL);
    }
    for (size_t i = 0; i < json_array_size(s->added); i++)
        json_object_set_new(json_array_get(s->added, i), "normalized", json_false());
    return json_pack("{s:s, s:n, s:n, s:O, s:n, s:{s:s}, s:o, s:{s:s}, s:{s:s, s:s, s:O}}", "version", "1.0",
                     "truncation", "padding", "added_tokens", s->added, "normalizer", "pre_tokenizer", "type",
                     "WhitespaceSplit", "post_processor", template_of(s, "<cls>", "<eos>"), "decoder", "type", "Fuse",
                     "model", "type", "WordLevel", "unk_token", "<unk>", "vocab", s->vocabulary);
}

static int make_of_words(struct vocabulary_source *s, json_t **made)
{
    int code = read_words(s);
    if (code == ERROR_NONE)
        code = make_added(s);
    if (code != ERROR_NONE)
        return code;
    add_usual(s);
    if (has_class(s, "BertTokenizer"))
        *made = make_bert(s);
    else if (has_class(s, "EsmTokenizer"))
        *made = make_table(s);
    else
        return error_user("%s: %s: tokenizer_class must be BertTokenizer or EsmTokenizer for %s", s->where,
                          bundle_names[BUNDLE_CONFIG], bundle_names[BUNDLE_WORDS]);
    return ERROR_NONE;
}

static void put_object(struct tokenizer_bundle *bundle, enum bundle_kind kind, const json_t *object)
{
    char *text = json_dumps(object, JSON_COMPACT);
    bundle_put(bundle, kind, text, (int64_t)strlen(text));
    free(text);
}

int vocabulary_files_complete(struct tokenizer_bundle *bundle, const char *where)
{
    struct vocabulary_source source = {.bundle = bundle, .where = where};
    const bool pair = bundle->files[BUNDLE_VOCABULARY].data != NULL && bundle->files[BUNDLE_MERGES].data != NULL;
    json_t *made = NULL;
    if (!pair && bundle->files[BUNDLE_WORDS].data == NULL)
        return ERROR_NONE;
    int code = read_object(&source.config, &source, BUNDLE_CONFIG);
    if (source.config == NULL)
        source.config = json_object();
    if (code == ERROR_NONE)
        code = pair ? make_of_pair(&source, &made) : make_of_words(&source, &made);
    if (made != NULL) {
        put_object(bundle, BUNDLE_JSON, made);
        put_object(bundle, BUNDLE_CONFIG, source.config);
    }
    json_decref(made);
    json_decref(source.vocabulary);
    json_decref(source.config);
    json_decref(source.added);
    return code;
}
