/* BPE tokenizers encode and decode: texts, UTF-8, special tokens, merges by their definition, bytes without a token
 * (against a golden of `tokenizers`), long words in linear time, threads that share a tokenizer. */
#include "base/error.h"
#include "base/memory.h"
#include "check.h"
#include "folders.h"
#include "tokenizer/bpe.h"
#include "tokenizer/merges.h"
#include "tokenizer/utf8.h"
#include "tokenizers.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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
        {true, false, "\x80the e\xcc\x81", "byte 0xa9 of the text, normalized, after offset 1, has"},
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
    check_missing();
    check_merges();
    check_long();
    check_threads();
    return check_end();
}
