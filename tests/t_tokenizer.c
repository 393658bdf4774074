/* BPE tokenizers encode and decode: texts, UTF-8, special tokens, merges by their definition, bytes without a token
 * (against a golden of `tokenizers`), long words in linear time, threads that share a tokenizer. */
#include "base/error.h"
#include "base/memory.h"
#include "check.h"
#include "folders.h"
#include "tokenizer/bpe.h"
#include "tokenizer/classes.h"
#include "tokenizer/merges.h"
#include "tokenizer/splitter.h"
#include "tokenizer/splitter_known.h"
#include "tokenizer/utf8.h"
#include "tokenizer_files.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* -- Texts ----------------------------------------------------------------------------------------------------------
 */

/* The file, with `from` replaced by `to`; freed with free(). */
static char *json_with(const char *from, const char *to)
{
    static char text[1 << 14];
    char *end = text;
    put_json(&end);
    char *at = from == NULL ? end : strstr(text, from);
    if (at == NULL)
        error_fatal("the file has no %s", from);
    return memory_format("%.*s%s%s", (int)(at - text), text, to == NULL ? "" : to,
                         at + (from == NULL ? 0 : strlen(from)));
}

static int open_text(struct bpe **bpe, const char *text, const char *config)
{
    error_clear();
    return bpe_open(bpe, &(struct bpe_file){text, (int64_t)strlen(text), "T"},
                    config == NULL ? NULL : &(struct bpe_file){config, (int64_t)strlen(config), "C"});
}

static struct bpe *open_changed(const char *from, const char *to)
{
    struct bpe *bpe;
    char *text = json_with(from, to);
    if (open_text(&bpe, text, NULL) != ERROR_NONE)
        error_fatal("%s", error_message());
    free(text);
    return bpe;
}

/* The tokens of a text, with | between them; special ones as their names. */
static const char *tokens_of(const struct bpe *bpe, const char *text, bool specials)
{
    static char out[1 << 12];
    char *end = out;
    const int32_t *ids;
    int64_t count;
    struct bpe_encoder *encoder = bpe_encoder_open(bpe);
    for (int pass = 0; pass < 2; pass++) /* the second time from the cache */
        if (bpe_encode(encoder, text, (int64_t)strlen(text), specials, &ids, &count) != ERROR_NONE)
            error_fatal("%s", error_message());
    out[0] = '\0';
    for (int64_t i = 0; i < count; i++) {
        int32_t bytes;
        const char *token = bpe_token(bpe, ids[i], &bytes);
        put(&end, "%s%.*s", i == 0 ? "" : "|", bytes, token);
    }
    bpe_encoder_close(encoder);
    return out;
}

#define ISOLATED(pattern)                                                                                              \
    "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":"          \
    "\"" pattern "\"},\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"ByteLevel\",\"add_prefix_space\":false," \
    "\"use_regex\":false}]}"
#define PRE_TOKENIZER "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true}"

static void check_texts(void)
{
    static const struct {
        const char *from, *to; /* change of the file */
        const char *text, *tokens;
        bool specials;
    } cases[] = {
        {NULL, NULL, "", "", false},
        {NULL, NULL, "hello", "hello", false},
        {NULL, NULL, "hell hel he", "hell| |he|l| |he", false},
        /* the lowest rank first, of one rank the leftmost */
        {NULL, NULL, "aaa aab", "aa|a| |aa|b", false},
        {NULL, NULL, "123 x123", "123| |x|123", false},
        {NULL, NULL, "hello world", "hello| w|o|r|l|d", false},
        {NULL, NULL, "a\nb", "a|\n|b", false},
        {"\"a a\"", "[\"a\", \"a\"]", "aaaaa", "aa|aa|a", false},
        /* a later merge of the same pair counts */
        {"\"a b\"]", "\"a b\",\"a a\"]", "aab", "a|ab", false},
        {"\"ignore_merges\":false", "\"ignore_merges\":true", "hello ab 123", "hello| |ab| |123", false},
        {"\"h e\",", "", "hello", "h|e|ll|o", false},
        {"\"ignore_merges\":false,\"vocab\":{", "\"ignore_merges\":true,\"vocab\":{\"xyz\":300,", "xyz xyzz",
         "xyz| |x|y|z|z", false},
        /* bytes that are no UTF-8, each by itself: a cut character, a surrogate, an overlong one */
        {NULL, NULL, "he\xe4llo", "he|\xe4|ll|o", false},
        {NULL, NULL, "\xed\xa0\x80", "\xed|\xa0|\x80", false},
        {NULL, NULL, "\xc0\x80\xf5", "\xc0|\x80|\xf5", false},
        {NULL, NULL, "a\xf0\x9f\x98", "a|\xf0|\x9f|\x98", false},
        /* added tokens */
        {NULL, NULL, "<s>he</s>", "<|s|>|he|<|/|s|>", false},
        {NULL, NULL, "<s>he</s>", "<s>|he|</s>", true},
        {NULL, NULL, "he \t<sep>\n he<sep", "he|<sep>|he|<|s|e|p", false},
        {NULL, NULL, "word sword word_ word.", "word| |s|w|o|r|d| w|o|r|d|_| |word|.", false},
        {NULL, NULL, "a   b", "a|  | |b", false},
        {"\"add_prefix_space\":false", "\"add_prefix_space\":true", "wa<sep>w", " w|a|<sep>| w", false},
        {"\"add_prefix_space\":false,", "", " w\xffw", " w|\xff| w", false},
        /* NFC, in texts and in tokens that are looked for in normalized text */
        {"\"normalizer\":null", "\"normalizer\":{\"type\":\"NFC\"}", "e\xcc\x81", "\xc3|\xa9", false},
        {"\"normalizer\":null", "\"normalizer\":{\"type\":\"NFC\"}", "ae\xcc\x81\xcc\xa3z",
         "a|\xe1|\xba|\xb9|\xcc|\x81|z", false},
        {NULL, NULL, "e\xcc\x81", "e|\xcc|\x81", false},
        /* patterns */
        {PRE_TOKENIZER, ISOLATED("l+"), "hello 12", "he|ll|o| |12", false},
        {PRE_TOKENIZER, ISOLATED("\\\\s"), "he\xe1\xa0\x8ehe\xc2\x85he", "he|\xe1|\xa0|\x8e|he|\xc2|\x85|he", false},
        {PRE_TOKENIZER, ISOLATED("(?i:HE)"), "hell", "he|ll", false},
        {PRE_TOKENIZER, ISOLATED("^a|ll$"), "aa\nhell\nhello", "a|a|\n|he|ll|\n|hello", false},
        {PRE_TOKENIZER, ISOLATED("1(?=2)"), "1213", "1|2|1|3", false},
        {PRE_TOKENIZER, ISOLATED("\\\\u0061"), "aa", "a|a", false},
        {PRE_TOKENIZER, PRE_TOKENIZER ",\"truncation\":null", "hello", "hello", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bpe *bpe = open_changed(cases[i].from, cases[i].to);
        CHECK_STRING(tokens_of(bpe, cases[i].text, cases[i].specials), cases[i].tokens);
        bpe_close(bpe);
    }
}

/* Words that differ in zero bytes at their ends, which a cache could take for one. */
static void check_zeros(void)
{
    struct bpe *bpe = open_changed(PRE_TOKENIZER, ISOLATED("\\\\p{N}"));
    struct bpe_encoder *encoder = bpe_encoder_open(bpe);
    static const char zeros[24] = "a";
    for (int64_t bytes = 1; bytes < (int64_t)sizeof zeros; bytes++) {
        const int32_t *ids;
        int64_t count;
        CHECK(bpe_encode(encoder, zeros, bytes, false, &ids, &count) == ERROR_NONE && count == bytes && ids[0] == 'a');
    }
    bpe_encoder_close(encoder);
    bpe_close(bpe);
}

static void check_utf8(void)
{
    static const struct {
        const char *text;
        int64_t valid;
    } cases[] = {{"", 0},
                 {"abcdefghi", 9},
                 {"abcdefgh\x80", 8},
                 {"a\xc3\xa9", 3},
                 {"a\xc3", 1},
                 {"\xc1\xbf", 0},
                 {"\xe0\x9f\xbf", 0},
                 {"\xe0\xa0\x80", 3},
                 {"\xed\x9f\xbf", 3},
                 {"\xed\xa0\x80", 0},
                 {"\xe4\xb8z", 0},
                 {"\xf0\x8f\xbf\xbf", 0},
                 {"\xf0\x90\x80\x80", 4},
                 {"\xf4\x8f\xbf\xbf", 4},
                 {"\xf4\x90\x80\x80", 0},
                 {"\xf5\x80\x80\x80", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK(utf8_valid((const unsigned char *)cases[i].text, (int64_t)strlen(cases[i].text)) == cases[i].valid);
}

/* -- Faults of a tokenizer.json --------------------------------------------------------------------------------------
 */

static void check_faults(void)
{
    static const struct {
        const char *from, *to, *says;
    } cases[] = {
        {"{\"added", "{{\"added", "T:1: is no JSON"},
        {"\"BPE\"", "\"WordLevel\"", "T: model.type: \"WordLevel\" is not offered; must be \"BPE\""},
        {"\"model\"", "\"modell\"", "T: model: is missing"},
        {"\"dropout\":null", "\"dropout\":0.1", "T: model.dropout: 0.1"},
        {"\"dropout\":null", "\"end_of_word_suffix\":\"</w>\"", "T: model.end_of_word_suffix: \"</w>\""},
        {"\"byte_fallback\":false", "\"byte_fallback\":true", "T: model.byte_fallback: true is not offered"},
        {"\"ignore_merges\":false", "\"ignore_merges\":1", "T: model.ignore_merges: 1"},
        {"\"vocab\":{", "\"vocab\":7,\"w\":{", "T: model.vocab: 7"},
        {"\"A\":65", "\"A\":65.5", "T: model.vocab: the id of \"A\""},
        {"\"A\":65", "\"A\":-1", "T: model.vocab: the id of \"A\""},
        {"\"A\":65", "\"A\":4194304", "T: model.vocab: the id of \"A\""},
        {"\"A\":65", "\"A\":66", "T: model.vocab: id 66 is there twice"},
        {"\"A\":65", "\"B\":65", "duplicate"},
        {"\"A\":65", "\"A\":99999999999999999999", "T: model.vocab: the id of \"A\""},
        {"\"A\":65", "\"A\":1e999", "T:1: is no JSON: real number overflow"},
        {"\"dropout\":null", "\"unk_token\":7", "T: model.unk_token: 7 is not offered"},
        {"\"dropout\":null", "\"fuse_unk\":7", "T: model.fuse_unk: 7 is not offered"},
        {"\"h e\"", "\"h zz\"", "T: model.merges[0]: \"h\" and \"zz\""},
        {"\"h e\"", "\"h z\"", "T: model.merges[0]: \"h\" and \"z\""},
        {"\"h e\"", "\"h e l\"", "T: model.merges[0]: \"h e l\""},
        {"\"h e\"", "\"he\"", "T: model.merges[0]: \"he\""},
        {"\"h e\"", "[\"h\"]", "T: model.merges[0]: must be two tokens"},
        {"\"h e\"", "17", "T: model.merges[0]: 17"},
        {"\"normalizer\":null", "\"normalizer\":{\"type\":\"NFKC\"}", "T: normalizer.type: \"NFKC\""},
        {"\"normalizer\":null", "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Strip\"}]}",
         "T: normalizer.normalizers[0].type: \"Strip\""},
        {"\"normalizer\":null", "\"normalizer\":[]", "T: normalizer: must be an object or null"},
        {"{\"type\":\"ByteLevel\",\"add", "{\"type\":\"Metaspace\",\"add", "T: pre_tokenizer.type: \"Metaspace\""},
        {"\"use_regex\":true", "\"use_regex\":\"yes\"", "T: pre_tokenizer.use_regex: \"yes\""},
        {PRE_TOKENIZER, "\"pre_tokenizer\":null", "T: pre_tokenizer: has no ByteLevel"},
        {PRE_TOKENIZER,
         "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\"},{\"type\":\"Digits\"}]}",
         "T: pre_tokenizer.pretokenizers[1].type: \"Digits\" is not offered; must be nothing"},
        {PRE_TOKENIZER, "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{},\"behavior\":\"Isolated\"}",
         "T: pre_tokenizer.pattern: must be {\"Regex\""},
        {PRE_TOKENIZER, "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":\"Odd\"}",
         "T: pre_tokenizer.behavior: \"Odd\""},
        {"\"decoder\":{\"type\":\"ByteLevel\"}", "\"decoder\":{\"type\":\"Fuse\"}", "T: decoder.type: \"Fuse\""},
        {"\"TemplateProcessing\"", "\"BertProcessing\"", "T: post_processor.type: \"BertProcessing\""},
        {"{\"Sequence\":{\"id\":\"A\"}}", "{\"Sequence\":{}},{\"Sequence\":{}}", "T: post_processor.single[2]"},
        {",{\"Sequence\":{\"id\":\"A\"}}", "", "T: post_processor.single: must be a template with a Sequence"},
        {"{\"Sequence\"", "{\"SpecialToken\":{\"id\":\"<s>\"}},{\"Sequence\"",
         "T: post_processor.single: must be at most"},
        {"\"ids\":[265]", "\"ids\":[999]", "T: post_processor.special_tokens.<s>.ids: must be one id"},
        {"\"ids\":[265]", "\"ids\":[265,266]", "T: post_processor.special_tokens.<s>.ids"},
        {"\"id\":265,", "\"id\":-3,", "T: added_tokens[0].id: must be a whole"},
        {"\"id\":265,", "\"id\":99999999,", "T: added_tokens[0].id: must be a whole"},
        {"\"id\":266,", "\"id\":265,", "T: added_tokens[1]: id 265 of \"</s>\" is another token's"},
        {"\"id\":265,", "\"id\":65,", "T: added_tokens[0]: id 65 of \"<s>\" is another token's"},
        {"\"content\":\"<s>\"", "\"content\":\"he\"", "T: added_tokens[0]: \"he\" has id 265 here and 256"},
        {"\"content\":\"</s>\"", "\"content\":\"<s>\"", "T: added_tokens: \"<s>\" is there twice"},
        {"\"content\":\"<s>\"", "\"content\":\"\"", "T: added_tokens[0].content"},
        {"\"special\":true", "\"special\":0", "T: added_tokens[0].special: 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bpe *bpe;
        char *text = json_with(cases[i].from, cases[i].to);
        CHECK(open_text(&bpe, text, NULL) == ERROR_USER && bpe == NULL);
        if (!CHECK(strstr(error_message(), cases[i].says) != NULL))
            fprintf(stderr, "    says \"%s\"\n    not \"%s\"\n", error_message(), cases[i].says);
        bpe_close(bpe);
        free(text);
    }
}

/* Every cut of the file, and every byte of its beginning turned into another: an answer, and no crash. */
static void check_damage(void)
{
    char *text = json_with(NULL, NULL);
    int64_t bytes = (int64_t)strlen(text), taken = 0;
    for (int64_t cut = 0; cut < bytes; cut += cut < 1200 ? 7 : 131) {
        struct bpe *bpe;
        error_clear();
        CHECK(bpe_open(&bpe, &(struct bpe_file){text, cut, "T"}, NULL) == ERROR_USER && bpe == NULL);
    }
    for (int64_t at = 0; at < 1100; at++) {
        struct bpe *bpe;
        char was = text[at];
        text[at] = (char)(was ^ (1 << at % 7));
        error_clear();
        int code = bpe_open(&bpe, &(struct bpe_file){text, bytes, "T"}, NULL);
        taken += code == ERROR_NONE;
        CHECK(code == ERROR_NONE || (code == ERROR_USER && bpe == NULL && strncmp(error_message(), "T:", 2) == 0));
        bpe_close(bpe);
        text[at] = was;
    }
    CHECK(taken > 0 && taken < 1000);
    free(text);
}

static void check_patterns(void)
{
    static const struct {
        const char *pattern, *says; /* NULL: taken */
    } cases[] = {{"\\p{Lu}+|\\P{^L}|[^\\s\\p{N}\\u00e9]*?x", NULL},
                 {"a++b*+c?+(?>d)(e){2}(?<!f)(?<=g)(?!h)", NULL},
                 {"^a|b$", NULL},
                 {"\\d{1,3}?\\x{85}[\\]\\-\\[]", NULL},
                 {"a{1,3}+", "byte 2: {n}?"},
                 {"a{2}?", "byte 2: {n}?"},
                 {"a{,3}", "byte 2: {"},
                 {"a{", "byte 2: {"},
                 {"\\w+", "byte 1: of escapes"},
                 {"\\bx", "byte 1: of escapes"},
                 {"(a)\\1", "byte 4: of escapes"},
                 {"\\h", "byte 1: of escapes"},
                 {"a\\", "byte 2: of escapes"},
                 {"\\pL", "byte 1: must be followed"},
                 {"\\x41", "byte 1: must be followed"},
                 {"\\u12", "byte 1: \\u must"},
                 {"[\\S]", "byte 2: \\S inside"},
                 {"[a[b]]", "byte 3: [ inside"},
                 {"[a&&b]", "byte 3: && inside"},
                 {"[]a]", "byte 2: ] as the first"},
                 {"a]", "byte 2: ] outside"},
                 {"(?i)a", "byte 1: of groups"},
                 {"(?<n>a)", "byte 1: of groups"},
                 {"(?P<n>a)", "byte 1: of groups"},
                 {"(?m:a)", "byte 1: of groups"},
                 {"(a", "PCRE2 does not take it"},
                 {"[a", "PCRE2 does not take it"},
                 {"\\p{Odd}", "PCRE2 does not take it"},
                 {"a*", "must not match where there is nothing"},
                 {"(?=a)", "must not match where there is nothing"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct text_splitter *split;
        error_clear();
        int code = splitter_open(&split, &(struct splitter_settings){.pattern = cases[i].pattern, .where = "P"});
        CHECK(code == (cases[i].says == NULL ? ERROR_NONE : ERROR_USER));
        if (!CHECK(strstr(error_message(), cases[i].says == NULL ? "" : cases[i].says) != NULL))
            fprintf(stderr, "    %s says \"%s\"\n", cases[i].pattern, error_message());
        splitter_close(split);
    }

    /* the reason is seen whatever the pattern's length */
    enum { LONG = 16000 };
    char pattern[LONG + 2];
    memset(pattern, 'a', LONG);
    strcpy(pattern + LONG, "]");
    struct text_splitter *split;
    error_clear();
    CHECK(splitter_open(&split, &(struct splitter_settings){.pattern = pattern, .where = "P"}) == ERROR_USER);
    CHECK(strlen(error_message()) < 300 && strstr(error_message(), "aaa...\", byte 16001: ] outside") != NULL);
    pattern[0] = '(';
    pattern[LONG] = '\0';
    error_clear();
    CHECK(splitter_open(&split, &(struct splitter_settings){.pattern = pattern, .where = "P"}) == ERROR_USER);
    CHECK(strlen(error_message()) < 300 && strstr(error_message(), "aaa...\": PCRE2 does not take it: ") != NULL);
}

/* -- Roles and the like ----------------------------------------------------------------------------------------------
 */

static void check_roles(void)
{
    static const struct {
        const char *config;
        int32_t roles[BPE_ROLES];
        bool begins, ends;
        const char *says; /* NULL: taken */
    } cases[] = {
        {NULL, {265, 266, -1, -1}, true, false, NULL},
        {"{}", {265, -1, -1, -1}, true, false, NULL},
        {"{\"bos_token\":null,\"eos_token\":{\"content\":\"</s>\"},\"pad_token\":\"he\",\"unk_token\":\"<s>\"}",
         {265, 266, 256, 265},
         true,
         false,
         NULL},
        {"{\"add_bos_token\":false,\"eos_token\":\"</s>\",\"add_eos_token\":true}",
         {265, 266, -1, -1},
         false,
         true,
         NULL},
        {"{\"bos_token\":\"</s>\"}", {0}, false, false, "C: bos_token: \"</s>\" has id 266, but T puts id 265 before"},
        {"{\"eos_token\":\"none\"}", {0}, false, false, "C: eos_token: \"none\" is no token of T"},
        {"{\"eos_token\":7}", {0}, false, false, "C: eos_token: 7"},
        {"{\"add_eos_token\":true}", {0}, false, false, "C: add_eos_token: true"},
        {"[]", {0}, false, false, "C: is JSON, but no object"},
        {"{\"eos_token\":\"none\",\"model_max_length\":1000000000000000019884624838656}",
         {0},
         false,
         false,
         "C: eos_token: \"none\" is no token of T"},
    };
    char *text = json_with(NULL, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bpe *bpe;
        int code = open_text(&bpe, text, cases[i].config);
        CHECK(code == (cases[i].says == NULL ? ERROR_NONE : ERROR_USER));
        CHECK(strstr(error_message(), cases[i].says == NULL ? "" : cases[i].says) != NULL);
        for (int role = 0; code == ERROR_NONE && role < BPE_ROLES; role++)
            CHECK(bpe_role(bpe, (enum bpe_role)role) == cases[i].roles[role]);
        if (code == ERROR_NONE)
            CHECK(bpe_begins(bpe) == cases[i].begins && bpe_ends(bpe) == cases[i].ends);
        bpe_close(bpe);
    }
    free(text);
    struct bpe *bpe = open_changed(NULL, NULL), *other = open_changed("\"A\":65,", "\"A\":65, ");
    CHECK(bpe_vocabulary(bpe) == FIRST_ADDED + 5 && bpe_is_special(bpe, 265) && !bpe_is_special(bpe, 267));
    CHECK(bpe_find(bpe, "hello", 5) == 259 && bpe_find(bpe, "</s>", 4) == 266 && bpe_find(bpe, "hallo", 5) == -1);
    CHECK(bpe_digest(bpe) != bpe_digest(other));
    bpe_close(bpe);
    bpe_close(other);
}

/* -- Rank files ------------------------------------------------------------------------------------------------------
 */

static void check_ranks(void)
{
    static const struct {
        const char *more;   /* lines: aGU= "he", bGw= "ll", aGVs "hel", aGVsbG8= "hello", MTIzNDU= "12345" */
        const char *tokens; /* of the text below */
        const char *says;
    } cases[] = {
        {"aGU= 256\nbGw= 257\naGVsbG8= 258\n", "hello|<|s|>|1|2|3|4|5|\xff", NULL},
        {"bGw= 256\r\naGVs 257\n\naGU= 258", "he|ll|o|<|s|>|1|2|3|4|5|\xff", NULL},
        {"MTIz 256", "h|e|l|l|o|<|s|>|123|4|5|\xff", NULL},
        {"aGU= 257\n", NULL, "T: rank 256 is missing"},
        {"aGU= 255\n", NULL, "T:257: rank 255 is there twice"},
        {"aGU= 256\naGU= 257\n", NULL, "the same token"},
        {"aGU= 9999999\n", NULL, "T:257: rank 9999999 is not below"},
        {"aGU= 99999999999999999999\n", NULL, "T:257: is no line"},
        {"aGU= x\n", NULL, "T:257: the rank is no number"},
        {"aGU=256\n", NULL, "T:257: is no line"},
        {"aGU 256\n", NULL, "T:257: is no line"},
        {"a=U= 256\n", NULL, "T:257: is no line"},
        {"a!U= 256\n", NULL, "T:257: is no line"},
        {" 256\n", NULL, "T:257: is no line"},
        {"aGU= \n", NULL, "T:257: is no line"},
    };
    static char text[1 << 13];
    struct bpe *bpe;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_ranks(text, cases[i].more);
        int code = open_text(&bpe, text, NULL);
        CHECK(code == (cases[i].says == NULL ? ERROR_NONE : ERROR_USER));
        if (!CHECK(strstr(error_message(), cases[i].says == NULL ? "" : cases[i].says) != NULL))
            fprintf(stderr, "    says \"%s\"\n", error_message());
        if (code == ERROR_NONE) {
            CHECK_STRING(tokens_of(bpe, "hello<s>12345\xff", false), cases[i].tokens);
            CHECK_STRING(tokens_of(bpe, "<|eot_id|><|eot", true), "<|eot_id|>|<|||e|o|t");
            CHECK(bpe_role(bpe, BPE_EOS) == bpe_role(bpe, BPE_BOS) + 1 && bpe_begins(bpe) && !bpe_ends(bpe));
            CHECK(bpe_vocabulary(bpe) == bpe_role(bpe, BPE_BOS) + 256);
        }
        bpe_close(bpe);
    }
    CHECK(open_text(&bpe, "", NULL) == ERROR_USER && strstr(error_message(), "T: is empty") != NULL);
    CHECK(open_text(&bpe, "AA== 0\n", NULL) == ERROR_USER && strstr(error_message(), "byte 0x01 has no token") != NULL);
    CHECK(open_text(&bpe, "\n\x0e\n<unk>", NULL) == ERROR_USER && strstr(error_message(), "SentencePiece") != NULL);
}

/* -- Bytes without a token --------------------------------------------------------------------------------------- */

/* The tokenizer of bpe_missing.json with these members of its model. */
static struct bpe *open_missing(const json_t *golden, const char *unknown, bool fuses, bool nfc, bool prefixed)
{
    json_t *root = json_deep_copy(json_object_get(golden, "tokenizer")), *model = json_object_get(root, "model");
    json_object_set_new(model, "unk_token", unknown == NULL ? json_null() : json_string(unknown));
    json_object_set_new(model, "fuse_unk", json_boolean(fuses));
    if (nfc)
        json_object_set_new(root, "normalizer", json_pack("{s:s}", "type", "NFC"));
    if (prefixed)
        json_object_set_new(root, "pre_tokenizer",
                            json_pack("{s:s, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 1, "use_regex", 1));
    char *text = json_dumps(root, 0);
    struct bpe *bpe;
    if (open_text(&bpe, text, NULL) != ERROR_NONE)
        error_fatal("%s", error_message());
    free(text);
    json_decref(root);
    return bpe;
}

static bool ids_are(const json_t *wanted, const int32_t *ids, int64_t count)
{
    bool good = (int64_t)json_array_size(wanted) == count;
    for (int64_t i = 0; good && i < count; i++)
        good = json_integer_value(json_array_get(wanted, (size_t)i)) == ids[i];
    return good;
}

static void check_missing_form(const json_t *golden, const char *form)
{
    const bool refuses = strcmp(form, "none") == 0;
    struct bpe *bpe = open_missing(golden, refuses ? NULL : "<unk>", strcmp(form, "fused") == 0, false, false);
    struct bpe_encoder *encoder = bpe_encoder_open(bpe);
    size_t i;
    const json_t *entry;
    json_array_foreach(json_object_get(golden, "texts"), i, entry)
    {
        const json_t *given = json_object_get(entry, "text");
        const char *text = json_string_value(given);
        const int64_t refused = refuses ? json_integer_value(json_object_get(entry, "refused")) : -1;
        for (int pass = 0; pass < 2; pass++) { /* the second time from the cache */
            const int32_t *ids;
            int64_t count;
            error_clear();
            int code = bpe_encode(encoder, text, (int64_t)json_string_length(given), false, &ids, &count);
            CHECK(code == (refused < 0 ? ERROR_NONE : ERROR_USER));
            char *says = memory_format("T: byte 0x%02x of the text, at offset %lld, has no token",
                                       (unsigned char)text[refused < 0 ? 0 : refused], (long long)refused);
            if (!CHECK(refused < 0 ? ids_are(json_object_get(entry, form), ids, count)
                                   : strstr(error_message(), says) != NULL))
                fprintf(stderr, "    %s, %s: says \"%s\"\n", form, text, error_message());
            free(says);
        }
    }
    bpe_encoder_close(encoder);
    bpe_close(bpe);
}

/* Where the text was changed before the model saw it, and bytes that are no UTF-8. */
static void check_missing_places(const json_t *golden)
{
    static const struct {
        bool nfc, prefixed;
        const char *text, *says; /* NULL: is encoded */
    } cases[] = {
        {false, false, "the\xf5", "byte 0xf5 of the text, at offset 3, has"},
        {false, false, "the\xa9the", "byte 0xa9 of the text, at offset 3, has"},
        {false, false, "the\x80the", NULL},
        {false, true, "the Q", "byte 0x51 of the text, at offset 4, has"},
        {true, true, "the Q", "byte 0x51 of the text, at offset 4, has"},
        {true, false, "the\xff Q", "byte 0xff of the text, at offset 3, has"},
        {true, false, "\x80the e\xcc\x81", "byte 0xa9 of the text, normalized, behind offset 1, has"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bpe *bpe = open_missing(golden, NULL, false, cases[i].nfc, cases[i].prefixed);
        struct bpe_encoder *encoder = bpe_encoder_open(bpe);
        const int32_t *ids;
        int64_t count;
        error_clear();
        int code = bpe_encode(encoder, cases[i].text, (int64_t)strlen(cases[i].text), false, &ids, &count);
        CHECK(code == (cases[i].says == NULL ? ERROR_NONE : ERROR_USER));
        CHECK(strstr(error_message(), cases[i].says == NULL ? "" : cases[i].says) != NULL);
        bpe_encoder_close(encoder);
        bpe_close(bpe);
    }
}

static void check_missing(void)
{
    json_error_t error;
    json_t *golden_file = json_load_file(golden("bpe_missing.json"), 0, &error);
    if (golden_file == NULL)
        error_fatal("%s", error.text);
    check_missing_form(golden_file, "unknown");
    check_missing_form(golden_file, "fused");
    check_missing_form(golden_file, "none");
    check_missing_places(golden_file);
    json_decref(golden_file);
}

/* -- Merges of long pieces -------------------------------------------------------------------------------------------
 */

/* SplitMix64 (Steele, Lea & Flood, 2014) */
static uint64_t draw(uint64_t below)
{
    static uint64_t state;
    uint64_t x = state += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (x ^ x >> 31) % below;
}

enum { LETTERS = 4, RULES = 60, PIECE = 300 };

struct rule {
    int32_t left, right;
};

/* By the definition: rules in their order, each pair that there is, the leftmost first. */
static int64_t apply_plainly(const struct rule *rules, const unsigned char *piece, int64_t count, int32_t *ids)
{
    for (int64_t i = 0; i < count; i++)
        ids[i] = piece[i];
    for (int rule = 0; rule < RULES;) {
        int64_t at = 0;
        while (at + 1 < count && (ids[at] != rules[rule].left || ids[at + 1] != rules[rule].right))
            at++;
        if (at + 1 >= count) {
            rule++;
            continue;
        }
        ids[at] = 256 + rule;
        count--;
        memmove(ids + at + 1, ids + at + 2, (size_t)(count - at - 1) * sizeof *ids);
        rule = 0;
    }
    return count;
}

static void check_merges(void)
{
    int32_t byte_ids[256], ids[PIECE], plain[PIECE];
    struct rule rules[RULES];
    unsigned char piece[PIECE];
    for (int i = 0; i < 256; i++)
        byte_ids[i] = i;
    for (int round = 0; round < 40; round++) {
        struct merges *made = merges_open(byte_ids);
        int64_t wrong = 0;
        for (int i = 0; i < RULES; i++) {
            int known = LETTERS + i;
            for (int side = 0; side < 2; side++) {
                int32_t drawn = (int32_t)draw((uint64_t)known);
                *(side == 0 ? &rules[i].left : &rules[i].right) = drawn < LETTERS ? drawn : 256 + drawn - LETTERS;
            }
            for (int j = 0; j < i; j++) /* of two rules for one pair the later one would count */
                if (rules[j].left == rules[i].left && rules[j].right == rules[i].right)
                    rules[j] = (struct rule){-1, -1};
        }
        for (int i = 0; i < RULES; i++)
            if (rules[i].left >= 0)
                merges_set(made, rules[i].left, rules[i].right, (uint32_t)i, 256 + i);
        merges_finish(made);
        for (int64_t bytes = 1; bytes <= PIECE; bytes += 13) {
            for (int64_t i = 0; i < bytes; i++)
                piece[i] = (unsigned char)draw(LETTERS);
            int64_t count = merges_apply(made, piece, bytes, ids);
            wrong += count != apply_plainly(rules, piece, bytes, plain) ||
                     memcmp(ids, plain, (size_t)count * sizeof *ids) != 0;
        }
        CHECK(wrong == 0);
        merges_close(made);
    }
}

/* -- Behaviors -------------------------------------------------------------------------------------------------------
 */

static int take_text(void *context, const unsigned char *piece, int64_t bytes)
{
    put(context, "%.*s|", (int)bytes, (const char *)piece);
    return ERROR_NONE;
}

static void check_behaviors(void)
{
    static const struct {
        enum splitter_behavior behavior;
        bool invert;
        const char *pieces;
    } cases[] = {{SPLIT_REMOVED, false, "ab|c|"},
                 {SPLIT_REMOVED, true, "!|!|!|!|"},
                 {SPLIT_ISOLATED, false, "!|ab|!|!|c|!|"},
                 {SPLIT_ISOLATED, true, "!|ab|!|!|c|!|"},
                 {SPLIT_MERGED_WITH_PREVIOUS, false, "!|ab!|!|c!|"},
                 {SPLIT_MERGED_WITH_PREVIOUS, true, "!ab|!|!c|!|"},
                 {SPLIT_MERGED_WITH_NEXT, false, "!ab|!|!c|!|"},
                 {SPLIT_MERGED_WITH_NEXT, true, "!|ab!|!|c!|"},
                 {SPLIT_CONTIGUOUS, false, "!|ab|!!|c|!|"},
                 {SPLIT_CONTIGUOUS, true, "!|ab|!!|c|!|"}};
    struct splitter_room *room = splitter_room_open();
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        char out[64], *end = out;
        struct text_splitter *split;
        struct splitter_settings settings = {"!", i % 2 > 0, cases[i / 2].behavior, cases[i / 2].invert, false, "P"};
        CHECK(splitter_open(&split, &settings) == ERROR_NONE);
        CHECK(splitter_run(split, room, (const unsigned char *)"!ab!!c!", 7, take_text, &end) == ERROR_NONE);
        CHECK_STRING(out, cases[i / 2].pieces);
        splitter_close(split);
    }
    splitter_room_close(room);
}

/* Unicode's White_Space. Source: PropList.txt */
static void check_spaces(void)
{
    static const uint32_t spaces[] = {0x9,    0xa,    0xb,    0xc,    0xd,    0x20,   0x85,   0xa0,   0x1680,
                                      0x2000, 0x2001, 0x2002, 0x2003, 0x2004, 0x2005, 0x2006, 0x2007, 0x2008,
                                      0x2009, 0x200a, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000};
    const struct character_classes *classes = classes_get();
    int64_t all = 0;
    for (uint32_t code = 0; code < UTF8_CODE_POINTS; code++)
        all += (classes->of[code] & CLASS_SPACE) != 0;
    CHECK(all == sizeof spaces / sizeof *spaces);
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
        CHECK(classes->of[spaces[i]] == CLASS_SPACE);
}

/* -- Patterns by hand ------------------------------------------------------------------------------------------------
 */

enum { MOST_PIECES = 1 << 12 };

struct pieces {
    const unsigned char *ends[MOST_PIECES];
    int count;
};

static int take(void *context, const unsigned char *piece, int64_t bytes)
{
    struct pieces *pieces = context;
    if (pieces->count == MOST_PIECES)
        error_fatal("too many pieces");
    pieces->ends[pieces->count++] = piece + bytes;
    return ERROR_NONE;
}

struct both {
    struct text_splitter *by_hand, *by_pcre2;
    struct splitter_room *room;
};

static bool same(const struct both *both, const unsigned char *text, int64_t bytes)
{
    static struct pieces one, other;
    one.count = other.count = 0;
    int code = splitter_run(both->by_hand, both->room, text, bytes, take, &one);
    return code == ERROR_NONE && splitter_run(both->by_pcre2, both->room, text, bytes, take, &other) == ERROR_NONE &&
           one.count == other.count && memcmp(one.ends, other.ends, (size_t)one.count * sizeof *one.ends) == 0;
}

/* A character among what patterns tell apart: bytes written. */
static int64_t put_among(unsigned char *out, uint32_t code)
{
    static const char *const between[] = {"a", "", "1", " ", "\n", "'", "!", "  "};
    int64_t used = 0;
    for (size_t i = 0; i < sizeof between / sizeof *between; i++) {
        used += utf8_write(out + used, code);
        memcpy(out + used, between[i], strlen(between[i]));
        used += (int64_t)strlen(between[i]);
    }
    return used;
}

/* Characters of the planes in use and some of the others, 50 a text. */
static int64_t differing_characters(const struct both *both)
{
    enum { IN_USE = 0x323b0 };
    unsigned char text[4096];
    int64_t used = 0, wrong = 0;
    for (uint32_t code = 1; code < UTF8_CODE_POINTS; code += code < IN_USE || code >> 9 == 0xe0000 >> 9 ? 1 : 63) {
        if (code >= 0xd800 && code < 0xe000)
            continue;
        used += put_among(text + used, code);
        if (used < 2048)
            continue;
        wrong += !same(both, text, used);
        used = 0;
    }
    return wrong + !same(both, text, used);
}

static int64_t differing_mixtures(const struct both *both)
{
    static const char *const atoms[] = {" ",
                                        " ",
                                        "\n",
                                        "\r",
                                        "\t",
                                        "\xc2\xa0",
                                        "\xe2\x80\xa8",
                                        "a",
                                        "Z",
                                        "s",
                                        "'",
                                        "'S",
                                        "'\xc5\xbf",
                                        "ll",
                                        "rE",
                                        "v",
                                        "1",
                                        "22",
                                        ".",
                                        "\xc2\xb2",
                                        "\xcc\x81",
                                        "\xe4\xb8\xad",
                                        "\xe1\xa0\x8e",
                                        "_",
                                        "'m",
                                        "'d",
                                        "'t",
                                        "\xd9\xa3",
                                        "\xe3\x80\x80",
                                        "\xf0\x9f\x98\x80"};
    enum { ATOMS = sizeof atoms / sizeof *atoms, TEXTS = 30000 };
    int64_t wrong = 0;
    for (int i = 0; i < TEXTS; i++) {
        unsigned char text[128];
        int64_t used = 0;
        for (int n = 0; n < 1 + i % 20; n++) {
            const char *atom = atoms[draw(ATOMS)];
            memcpy(text + used, atom, strlen(atom));
            used += (int64_t)strlen(atom);
        }
        wrong += !same(both, text, used);
    }
    return wrong;
}

static void check_by_hand(void)
{
    const char *const patterns[] = {splitter_gpt2, splitter_llama3, splitter_qwen2};
    for (int i = 0; i < 3; i++) {
        struct splitter_settings settings = {.pattern = patterns[i], .behavior = SPLIT_ISOLATED, .where = "P"};
        struct both both = {.room = splitter_room_open()};
        CHECK(splitter_open(&both.by_hand, &settings) == ERROR_NONE);
        settings.by_pcre2 = true;
        CHECK(splitter_open(&both.by_pcre2, &settings) == ERROR_NONE);
        CHECK(differing_characters(&both) == 0);
        CHECK(differing_mixtures(&both) == 0);
        splitter_close(both.by_hand);
        splitter_close(both.by_pcre2);
        splitter_room_close(both.room);
    }
}

/* -- Size and threads ------------------------------------------------------------------------------------------------
 */

static double processor_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* A mebibyte that is one word, or of marks in the wrong order: no time that grows with its square. */
static void check_long(void)
{
    enum { BYTES = 1 << 20 };
    static const struct {
        const char *unit;
        int64_t count;
    } cases[] = {{"a", BYTES / 2}, {"hello", BYTES / 5 + 1}, {"\xcc\x81\xcc\xa3", BYTES}, {" ", BYTES / 2}};
    struct bpe *bpe = open_changed("\"normalizer\":null", "\"normalizer\":{\"type\":\"NFC\"}");
    struct bpe_encoder *encoder = bpe_encoder_open(bpe);
    char *text = memory_grow(NULL, BYTES);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int32_t *ids;
        int64_t count;
        for (int at = 0; at < BYTES; at++)
            text[at] = cases[i].unit[(size_t)at % strlen(cases[i].unit)];
        double start = processor_seconds();
        CHECK(bpe_encode(encoder, text, BYTES, false, &ids, &count) == ERROR_NONE);
        CHECK(count == cases[i].count);
        CHECK(processor_seconds() - start < 5);
    }
    free(text);
    bpe_encoder_close(encoder);
    bpe_close(bpe);
}

/* Threads that share a tokenizer find what one finds. */
static void check_threads(void)
{
    enum { TEXTS = 400 };
    struct bpe *bpe = open_changed(PRE_TOKENIZER, ISOLATED("\\\\p{N}| ?\\\\p{L}+"));
    int64_t counts[TEXTS], wrong = 0;
    uint64_t sums[TEXTS];
    for (int pass = 0; pass < 2; pass++) {
#pragma omp parallel num_threads(pass == 0 ? 1 : 4) reduction(+ : wrong)
        {
            struct bpe_encoder *encoder = bpe_encoder_open(bpe);
#pragma omp for
            for (int i = 0; i < TEXTS; i++) {
                char text[64];
                const int32_t *ids;
                int64_t count;
                uint64_t sum = 0;
                int bytes = snprintf(text, sizeof text, "hello %d aaab\xff hell%daa", i * i, i);
                wrong += bpe_encode(encoder, text, bytes, false, &ids, &count) != ERROR_NONE;
                for (int64_t n = 0; n < count; n++)
                    sum = sum * 31 + (uint64_t)ids[n];
                wrong += pass > 0 && (counts[i] != count || sums[i] != sum);
                counts[i] = count;
                sums[i] = sum;
            }
            bpe_encoder_close(encoder);
        }
    }
    CHECK(wrong == 0);
    bpe_close(bpe);
}

int main(void)
{
    check_texts();
    check_zeros();
    check_utf8();
    check_faults();
    check_damage();
    check_patterns();
    check_roles();
    check_ranks();
    check_missing();
    check_merges();
    check_behaviors();
    check_spaces();
    check_by_hand();
    check_long();
    check_threads();
    return check_end();
}
