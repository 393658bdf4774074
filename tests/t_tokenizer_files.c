/* Files of BPE tokenizers are read, or refused with the reason: each fault of a tokenizer.json, every truncation and
 * changed byte of it, roles of special tokens, rank files of tiktoken, vocab.json with merges.txt,
 * WordPiece and tables of words. */
#include "base/error.h"
#include "base/memory.h"
#include "check.h"
#include "folders.h"
#include "tokenizer/bpe.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocabulary_files.h"
#include "tokenizers.h"

#include <stdlib.h>
#include <string.h>

static void check_faults(void)
{
    static const struct {
        const char *from, *to, *says;
    } cases[] = {
        {"{\"added", "{{\"added", "T:1: is not JSON"},
        {"\"BPE\"", "\"Unigrams\"",
         "T: model.type: \"Unigrams\" is not supported; must be \"BPE\", \"Unigram\", \"WordPiece\" or"},
        {"\"BPE\"", "\"Unigram\"", "T: pre_tokenizer.type: \"ByteLevel\" is not supported; must be BertPreTokenizer"},
        {"\"BPE\"", "\"WordLevel\"", "T: pre_tokenizer.type: \"ByteLevel\" is not supported; must be BertPreTokenizer"},
        {"\"model\"", "\"modell\"", "T: model: is missing"},
        {"\"dropout\":null", "\"dropout\":0.1", "T: model.dropout: 0.1"},
        {"\"dropout\":null", "\"end_of_word_suffix\":\"</w>\"", "T: model.end_of_word_suffix: \"</w>\""},
        {"\"byte_fallback\":false", "\"byte_fallback\":true", "T: model.byte_fallback: true is not supported"},
        {"\"ignore_merges\":false", "\"ignore_merges\":1", "T: model.ignore_merges: 1"},
        {"\"vocab\":{", "\"vocab\":7,\"w\":{", "T: model.vocab: 7"},
        {"\"A\":65", "\"A\":65.5", "T: model.vocab: the id of \"A\""},
        {"\"A\":65", "\"A\":-1", "T: model.vocab: the id of \"A\""},
        {"\"A\":65", "\"A\":4194304", "T: model.vocab: the id of \"A\""},
        {"\"A\":65", "\"A\":66", "T: model.vocab: id 66 occurs twice"},
        {"\"A\":65", "\"B\":65", "duplicate"},
        {"\"A\":65", "\"A\":99999999999999999999", "T: model.vocab: the id of \"A\""},
        {"\"A\":65", "\"A\":1e999", "T:1: is not JSON: real number overflow"},
        {"\"dropout\":null", "\"unk_token\":7", "T: model.unk_token: 7 is not supported"},
        {"\"dropout\":null", "\"fuse_unk\":7", "T: model.fuse_unk: 7 is not supported"},
        {"\"h e\"", "\"h zz\"", "T: model.merges[0]: \"h\" and \"zz\""},
        {"\"h e\"", "\"h z\"", "T: model.merges[0]: \"h\" and \"z\""},
        {"\"h e\"", "\"h e l\"", "T: model.merges[0]: \"h e l\""},
        {"\"h e\"", "\"he\"", "T: model.merges[0]: \"he\""},
        {"\"h e\"", "[\"h\"]", "T: model.merges[0]: must be two tokens"},
        {"\"h e\"", "17", "T: model.merges[0]: 17"},
        {"\"normalizer\":null", "\"normalizer\":{\"type\":\"NFKC\"}", "T: normalizer.type: \"NFKC\""},
        {"\"normalizer\":null", "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFKD\"}]}",
         "T: normalizer.normalizers[0].type: \"NFKD\""},
        {"\"normalizer\":null", "\"normalizer\":[]", "T: normalizer: must be an object or null"},
        {"{\"type\":\"ByteLevel\",\"add", "{\"type\":\"Metaspace\",\"add", "T: pre_tokenizer.replacement: is missing"},
        {"{\"type\":\"ByteLevel\",\"add", "{\"type\":\"CharDelimiterSplit\",\"add",
         "T: pre_tokenizer.type: \"CharDelimiterSplit\" is not supported; must be BertPreTokenizer, Metaspace"},
        {"\"use_regex\":true", "\"use_regex\":\"yes\"", "T: pre_tokenizer.use_regex: \"yes\""},
        {PRE_TOKENIZER, "\"pre_tokenizer\":null", "T: decoder.type: \"ByteLevel\" is not supported"},
        {PRE_TOKENIZER,
         "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\"},{\"type\":\"Digits\"}]}",
         "T: pre_tokenizer.pretokenizers[1].type: \"Digits\" is not supported; must be nothing"},
        {PRE_TOKENIZER, "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{},\"behavior\":\"Isolated\"}",
         "T: pre_tokenizer.pattern: must be {\"Regex\""},
        {PRE_TOKENIZER, "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":\"Odd\"}",
         "T: pre_tokenizer.behavior: \"Odd\""},
        {"\"decoder\":{\"type\":\"ByteLevel\"}", "\"decoder\":{\"type\":\"Fuse\"}", "T: decoder.type: \"Fuse\""},
        {"\"TemplateProcessing\"", "\"BertProcessing\"",
         "T: post_processor.cls: is missing; must be a token and its id"},
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
        {"\"content\":\"</s>\"", "\"content\":\"<s>\"", "T: added_tokens: \"<s>\" occurs twice"},
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
        {NULL, {265, 266, -1, -1, -1}, true, false, NULL},
        {"{}", {265, -1, -1, -1, -1}, true, false, NULL},
        {"{\"bos_token\":null,\"eos_token\":{\"content\":\"</s>\"},\"pad_token\":\"he\",\"unk_token\":\"<s>\"}",
         {265, 266, 256, 265, -1},
         true,
         false,
         NULL},
        {"{\"add_bos_token\":false,\"eos_token\":\"</s>\",\"add_eos_token\":true}",
         {265, 266, -1, -1, -1},
         false,
         true,
         NULL},
        {"{\"bos_token\":\"</s>\"}", {0}, false, false, "C: bos_token: \"</s>\" has id 266, but T puts id 265 before"},
        {"{\"eos_token\":\"none\"}", {0}, false, false, "C: eos_token: \"none\" is not a token of T"},
        {"{\"eos_token\":7}", {0}, false, false, "C: eos_token: 7"},
        {"{\"add_eos_token\":true}", {0}, false, false, "C: add_eos_token: true"},
        {"{\"cls_token\":\"<s>\",\"sep_token\":\"</s>\",\"mask_token\":\"he\"}",
         {265, 266, -1, -1, 256},
         true,
         false,
         NULL},
        {"[]", {0}, false, false, "C: is JSON, but not an object"},
        {"{\"eos_token\":\"none\",\"model_max_length\":1000000000000000019884624838656}",
         {0},
         false,
         false,
         "C: eos_token: \"none\" is not a token of T"},
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
        {"aGU= 255\n", NULL, "T:257: rank 255 occurs twice"},
        {"aGU= 256\naGU= 257\n", NULL, "the same token"},
        {"aGU= 9999999\n", NULL, "T:257: rank 9999999 is not below"},
        {"aGU= 99999999999999999999\n", NULL, "T:257: is not a line"},
        {"aGU= x\n", NULL, "T:257: the rank is not a number"},
        {"aGU=256\n", NULL, "T:257: is not a line"},
        {"aGU 256\n", NULL, "T:257: is not a line"},
        {"a=U= 256\n", NULL, "T:257: is not a line"},
        {"a!U= 256\n", NULL, "T:257: is not a line"},
        {" 256\n", NULL, "T:257: is not a line"},
        {"aGU= \n", NULL, "T:257: is not a line"},
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
    CHECK(open_text(&bpe, "<unk>", NULL) == ERROR_USER && strstr(error_message(), "nor a SentencePiece model") != NULL);
}

/* vocab.json with merges.txt, and the files that name special and added tokens. */
static void check_pairs(void)
{
    static const char vocabulary[] = "{\"a\":0,\"b\":1,\"ab\":2,\"\\u0120\":3,\"<s>\":4,\"<m>\":5,\"1\":6,\"11\":7}";
    static const struct {
        const char *merges, *config, *specials, *added, *says; /* NULL: no such file, no error */
        const char *text, *tokens;
    } cases[] = {
        {"#version: 0.2\na b\n", NULL, NULL, NULL, NULL, "ab a", "ab| |a"},
        {"a b", "{\"mask_token\":\"<m>\"}", NULL, NULL, NULL, "ab<m>", "ab|<m>"},
        {"a b\r\n1 1\r\n\r\n", NULL, "{\"bos_token\":{\"content\":\"<s>\"}}", "{\"<x>\":8}", NULL, "ab<x><s>11",
         "ab|<x>|<s>|11"},
        {"\n", "{\"added_tokens_decoder\":{\"5\":{\"content\":\"<m>\",\"special\":true}}}", NULL, NULL, NULL, "ab<m>",
         "a|b|<m>"},
        {"a b c\n", NULL, NULL, NULL, "W: merges.txt:1: is not a merge", NULL, NULL},
        {"#version\nab\n", NULL, NULL, NULL, "W: merges.txt:2: is not a merge", NULL, NULL},
        {"a \xff\n", NULL, NULL, NULL, "W: merges.txt:1: is not a merge", NULL, NULL},
        {"b a\n", NULL, NULL, NULL, "W: model.merges[0]: \"b\" and \"a\": both, and what they make", NULL, NULL},
        {"a b\n", "[]", NULL, NULL, "W: tokenizer_config.json: ", NULL, NULL},
        {"a b\n", NULL, NULL, "{", "W: added_tokens.json:1: ", NULL, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const files[BUNDLE_KINDS] = {[BUNDLE_VOCABULARY] = vocabulary,
                                                 [BUNDLE_MERGES] = cases[i].merges,
                                                 [BUNDLE_CONFIG] = cases[i].config,
                                                 [BUNDLE_SPECIALS] = cases[i].specials,
                                                 [BUNDLE_ADDED] = cases[i].added};
        const struct tokenizer *tokenizer = NULL;
        struct tokenizer_bundle bundle = {0};
        for (int kind = 0; kind < BUNDLE_KINDS; kind++)
            if (files[kind] != NULL)
                bundle_put(&bundle, (enum bundle_kind)kind, files[kind], (int64_t)strlen(files[kind]));
        error_clear();
        int code = vocabulary_files_complete(&bundle, "W");
        if (code == ERROR_NONE)
            code = tokenizer_open_bundle(&tokenizer, &bundle, "W");
        CHECK(code == (cases[i].says == NULL ? ERROR_NONE : ERROR_USER));
        if (!CHECK(strstr(error_message(), cases[i].says == NULL ? "" : cases[i].says) != NULL))
            fprintf(stderr, "    says \"%s\"\n", error_message());
        if (code == ERROR_NONE)
            CHECK_STRING(tokens_of(tokenizer->bpe, cases[i].text, true), cases[i].tokens);
        tokenizer_close(tokenizer);
        bundle_destroy(&bundle);
    }
}

static int open_with(const struct tokenizer **tokenizer, enum bundle_kind kind, const char *text, const char *config)
{
    struct tokenizer_bundle bundle = {0};
    bundle_put(&bundle, kind, text, (int64_t)strlen(text));
    if (config != NULL)
        bundle_put(&bundle, BUNDLE_CONFIG, config, (int64_t)strlen(config));
    error_clear();
    *tokenizer = NULL;
    int code = vocabulary_files_complete(&bundle, "W");
    if (code == ERROR_NONE)
        code = tokenizer_open_bundle(tokenizer, &bundle, "W");
    bundle_destroy(&bundle);
    return code;
}

/* WordPiece and tables of words, from tokenizer.json and vocab.txt. */
static void check_words(void)
{
    static const char bert[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nab\n##c\n##cd\n.\nu\n";
    static const char esm[] = "<cls>\r\n<pad>\r\n<eos>\r\n<unk>\r\nACG\r\nA\r\nC\r\n<mask>";
    static const char piece[] = "{\"type\":\"WordPiece\",\"unk_token\":\"u\",\"vocab\":{\"u\":0,\"a\":1,\"##b\":2}";
    static const struct {
        enum bundle_kind kind;
        const char *text, *config, *says;
        const char *of, *tokens, *decoded;
        int32_t roles[BPE_ROLES]; /* BOS, EOS, PAD, UNK, MASK */
    } cases[] = {
        {BUNDLE_WORDS,
         bert,
         "{\"tokenizer_class\":\"BertTokenizer\"}",
         NULL,
         "ABC abcd.[MASK] ac \xff\xc3\x9c",
         "ab|##c|ab|##cd|.|[MASK]|[UNK]|[UNK]|u",
         " abc abcd . [MASK] [UNK] [UNK] u",
         {2, 3, 0, 1, 4}},
        {BUNDLE_WORDS,
         bert,
         "{\"tokenizer_class\":\"BertTokenizerFast\",\"do_lower_case\":false,\"mask_token\":null}",
         NULL,
         "ABC abc",
         "[UNK]|ab|##c",
         " [UNK] abc",
         {2, 3, 0, 1, -1}},
        {BUNDLE_WORDS,
         esm,
         "{\"tokenizer_class\":\"EsmTokenizer\"}",
         NULL,
         "ACGACN<mask>",
         "ACG|A|C|<unk>|<mask>",
         "ACGAC<unk><mask>",
         {0, 2, 1, 3, 7}},
        {BUNDLE_WORDS,
         bert,
         NULL,
         "W: tokenizer_config.json: tokenizer_class must be BertTokenizer or EsmTokenizer",
         NULL,
         NULL,
         NULL,
         {0}},
        {BUNDLE_WORDS,
         "a\nb\na\n",
         "{\"tokenizer_class\":\"EsmTokenizer\"}",
         "W: vocab.txt:3: is the second line of this token",
         NULL,
         NULL,
         NULL,
         {0}},
        {BUNDLE_WORDS,
         "a\n\xff\n",
         "{\"tokenizer_class\":\"EsmTokenizer\"}",
         "W: vocab.txt:2: is not a token in UTF-8",
         NULL,
         NULL,
         NULL,
         {0}},
        {BUNDLE_WORDS,
         "a\nb\n",
         "{\"tokenizer_class\":\"EsmTokenizer\"}",
         "W: model.unk_token: \"<unk>\" is not supported; must be a token of model.vocab",
         NULL,
         NULL,
         NULL,
         {0}},
        {BUNDLE_JSON, "{\"model\":%s}}", NULL, NULL, "ab abb", "u", " u", {-1, -1, -1, 0, -1}},
        {BUNDLE_JSON,
         "{\"pre_tokenizer\":{\"type\":\"WhitespaceSplit\"},\"model\":%s}}",
         NULL,
         NULL,
         "ab abb c",
         "a|##b|a|##b|##b|u",
         " ab abb u",
         {-1, -1, -1, 0, -1}},
        {BUNDLE_JSON,
         "{\"model\":%s,\"max_input_chars_per_word\":2}}",
         NULL,
         NULL,
         "abb",
         "u",
         " u",
         {-1, -1, -1, 0, -1}},
        {BUNDLE_JSON,
         "{\"model\":%s,\"max_input_chars_per_word\":0}}",
         NULL,
         "W: model.max_input_chars_per_word: 0",
         NULL,
         NULL,
         NULL,
         {0}},
        {BUNDLE_JSON,
         "{\"model\":%s,\"continuing_subword_prefix\":1}}",
         NULL,
         "W: model.continuing_subword_prefix: 1",
         NULL,
         NULL,
         NULL,
         {0}},
        {BUNDLE_JSON,
         "{\"normalizer\":{\"type\":\"NFKC\"},\"model\":%s}}",
         NULL,
         "W: normalizer.type: \"NFKC\"",
         NULL,
         NULL,
         NULL,
         {0}},
        {BUNDLE_JSON,
         "{\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[\"a\",1],\"sep\":[\"##b\",2]},\"model\":%s}}",
         NULL,
         NULL,
         "ab",
         "a|##b",
         " ab",
         {1, 2, -1, 0, -1}},
        {BUNDLE_JSON,
         "{\"post_processor\":{\"type\":\"RobertaProcessing\",\"cls\":[\"a\",1],\"sep\":[\"c\",3]},\"model\":%s}}",
         NULL,
         "W: post_processor.sep: must be a token and its id",
         NULL,
         NULL,
         NULL,
         {0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct tokenizer *tokenizer;
        const char *at = strstr(cases[i].text, "%s");
        char *text = at == NULL ? memory_string(cases[i].text)
                                : memory_format("%.*s%s%s", (int)(at - cases[i].text), cases[i].text, piece, at + 2);
        int code = open_with(&tokenizer, cases[i].kind, text, cases[i].config);
        CHECK(code == (cases[i].says == NULL ? ERROR_NONE : ERROR_USER));
        if (!CHECK(strstr(error_message(), cases[i].says == NULL ? "" : cases[i].says) != NULL))
            fprintf(stderr, "    says \"%s\"\n", error_message());
        if (code == ERROR_NONE) {
            char decoded[200] = "";
            const int32_t *ids;
            int64_t count;
            struct bpe_encoder *encoder = bpe_encoder_open(tokenizer->bpe);
            CHECK_STRING(tokens_of(tokenizer->bpe, cases[i].of, true), cases[i].tokens);
            CHECK(bpe_encode(encoder, cases[i].of, (int64_t)strlen(cases[i].of), true, &ids, &count) == ERROR_NONE);
            for (int64_t k = 0; k < count; k++) {
                int32_t bytes;
                const char *part = bpe_text(tokenizer->bpe, ids[k], &bytes);
                strncat(decoded, part, (size_t)bytes);
            }
            CHECK_STRING(decoded, cases[i].decoded);
            for (int role = 0; role < BPE_ROLES; role++)
                CHECK(bpe_role(tokenizer->bpe, (enum bpe_role)role) == cases[i].roles[role]);
            if (strstr(cases[i].text, "Processing") != NULL)
                CHECK(bpe_begins(tokenizer->bpe) && bpe_ends(tokenizer->bpe));
            bpe_encoder_close(encoder);
        }
        tokenizer_close(tokenizer);
        free(text);
    }
}

int main(void)
{
    check_faults();
    check_damage();
    check_roles();
    check_ranks();
    check_pairs();
    check_words();
    return check_end();
}
