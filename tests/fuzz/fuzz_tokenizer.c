/* Tokenizer files. The first byte of an input is how many bytes of it, from the next on, are a text; what follows is a
 * file, behind a NUL a tokenizer_config.json. "@V" in a file stands for the vocabulary's bytes, which mutations would
 * but damage. Whoever is taken encodes the text, twice the same, and the ids are in the vocabulary; a file that keeps
 * text keeps it byte for byte. */
#include "base/error.h"
#include "base/memory.h"
#include "fuzz/fuzz.h"
#include "tokenizer/bpe.h"
#include "tokenizer_files.h"

#include <stdlib.h>
#include <string.h>

const char *const fuzz_target_words[] = {"\"",
                                         "{",
                                         "}",
                                         "[",
                                         "]",
                                         ",",
                                         ":",
                                         "null",
                                         "true",
                                         "false",
                                         "{\"type\":\"NFC\"}",
                                         "{\"type\":\"Sequence\",\"pretokenizers\":[",
                                         "{\"type\":\"Digits\",\"individual_digits\":true}",
                                         "{\"type\":\"Split\",\"behavior\":\"Removed\",\"pattern\":{\"Regex\":\"a\"}},",
                                         "MergedWithNext",
                                         "\"String\"",
                                         "\"invert\":true,",
                                         "\\\\p{L}",
                                         "\\\\s+(?!\\\\S)",
                                         "(?i:",
                                         "[^\\\\s",
                                         "{1,3}",
                                         "\"add_prefix_space\":true",
                                         "\"ignore_merges\":true",
                                         "\"lstrip\":true,",
                                         "\"rstrip\":true,",
                                         "\"single_word\":true,",
                                         "\"id\":4194303,",
                                         "\"content\":\"ab\",",
                                         "\"e\xcc\x81\"",
                                         "\xc4\xa0",
                                         "\xff",
                                         "\xe4\xb8\xad",
                                         "<s>",
                                         "aGU= 256\n",
                                         "999999999999",
                                         NULL};

/* A copy of the file with its first `from` replaced by `to`, as much longer as it needs; freed with free(). */
static char *replaced(const char *file, const char *from, const char *to)
{
    const char *at = strstr(file, from);
    if (at == NULL)
        return memory_string(file);
    return memory_format("%.*s%s%s", (int)(at - file), file, to, at + strlen(from));
}

static const char *all_bytes(void)
{
    static char text[1 << 13];
    char *end = text;
    if (text[0] == '\0')
        put_bytes(&end);
    return text;
}

/* Added tokens that take white space along, NFC and prefixes change the text; so may what mutations remove. */
static bool keeps_text(const char *file)
{
    static const char *const changes[] = {"strip\":true", "NFC",       "Removed", "\"add_prefix_space\":true",
                                          "unk_token",    "Metaspace", "Prepend", "Unigram"};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
        if (strstr(file, changes[i]) != NULL)
            return false;
    return strstr(file, "\"add_prefix_space\":false") != NULL || file[0] != '{';
}

static void add_input(void (*add)(const void *data, size_t size), const char *text, const char *file,
                      const char *config)
{
    char *shortened = replaced(file, all_bytes(), "@V");
    char *input = memory_format("%c%s%s%c%s", (int)strlen(text), text, shortened, '\0', config);
    add(input, 1 + strlen(text) + strlen(shortened) + (config[0] == '\0' ? 0 : 1 + strlen(config)));
    free(input);
    free(shortened);
}

/* Tokenizers of characters: Unigram, and merges as Llama 2's. */
static const char *const of_characters[] = {
    "{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\xe2\x96\x81\",\"prepend_scheme\":\"first\","
    "\"split\":false},"
    "\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0],[\"\xe2\x96\x81\",-1],[\"a\",-2],[\"aa\",-2."
    "5],"
    "[\"hello\",-3],[\"l\",-4],[\"o\xe2\x96\x81\",-4]]}}",
    "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"\xe2\x96\x81\"},"
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\" "
    "\"},\"content\":\"\xe2\x96\x81\"},{\"type\":\"Strip\"}]},\"model\":{"
    "\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"fuse_unk\":true,\"vocab\":{\"<unk>\":0,\"\xe2\x96\x81\":1,\"h\":2,"
    "\"e\":3,"
    "\"he\":4,\"\xe2\x96\x81he\":5},\"merges\":[\"h e\",\"\xe2\x96\x81 he\"]}}"};

void fuzz_target_seeds(void (*add)(const void *data, size_t size))
{
    static const char *const stages[] = {
        "{\"type\":\"Digits\"},",
        "{\"type\":\"Split\",\"pattern\":{\"String\":\"l\"},\"behavior\":\"MergedWithPrevious\",\"invert\":false},",
        "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\p{L}+|\\\\s+(?!\\\\S)|[^a-c]\"},\"behavior\":\"Isolated\"},",
        "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?i:HE)|\\\\d{1,3}\"},\"behavior\":\"Contiguous\"},"};
    static const char text[] = "hello <sep> aaab\xff word 123 e\xcc\x81 <s>\n  b";
    static char file[1 << 14], changed[1 << 15];
    char *end = file;
    put_json(&end);
    add_input(add, text, file, "");
    add_input(add, text, file, "{\"eos_token\":\"</s>\",\"add_eos_token\":true,\"pad_token\":{\"content\":\"he\"}}");
    const char *pre = strstr(file, "{\"type\":\"ByteLevel\"");
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        const char *after = strchr(pre, '}');
        snprintf(changed, sizeof changed, "%.*s{\"type\":\"Sequence\",\"pretokenizers\":[%s%.*s]}%s", (int)(pre - file),
                 file, stages[i], (int)(after + 1 - pre), pre, after + 1);
        add_input(add, text, changed, "");
    }
    const char *normalizer = strstr(file, "null");
    snprintf(changed, sizeof changed, "%.*s{\"type\":\"NFC\"}%s", (int)(normalizer - file), file, normalizer + 4);
    add_input(add, text, changed, "");
    static const char *const unknown[] = {"\"unk_token\":\"b\",\"fuse_unk\":true", "\"dropout\":null"};
    for (int i = 0; i < 2; i++) { /* 'h' has no token */
        char *known = replaced(file, "\"dropout\":null", unknown[i]),
             *lacking = replaced(known, "\"h\":104", "\"hh\":104");
        char *merged = replaced(lacking, "\"h e\",", "");
        add_input(add, text, merged, "");
        free(known);
        free(lacking);
        free(merged);
    }
    for (size_t i = 0; i < sizeof of_characters / sizeof *of_characters; i++)
        add_input(add, text, of_characters[i], "");
    put_ranks(file, "aGU= 256\nbGw= 257\naGVsbG8= 258\n");
    add_input(add, text, file, "");
}

static void check_encoded(const struct bpe *bpe, const char *text, int64_t bytes, bool keeps)
{
    struct bpe_encoder *encoder = bpe_encoder_open(bpe);
    for (int specials = 0; specials < 2; specials++) {
        int64_t first_count = -1;
        uint64_t first_sum = 0;
        for (int pass = 0; pass < 2; pass++) {
            const int32_t *ids;
            int64_t count, at = 0;
            uint64_t sum = 0;
            int code = bpe_encode(encoder, text, bytes, specials, &ids, &count);
            FUZZ_CHECK(code == ERROR_NONE || (code == ERROR_USER && error_message()[0] != '\0'));
            for (int64_t i = 0; i < count; i++) {
                int32_t length;
                FUZZ_CHECK(ids[i] >= 0 && ids[i] < bpe_vocabulary(bpe));
                const char *token = bpe_token(bpe, ids[i], &length);
                sum = sum * 31 + (uint64_t)ids[i];
                FUZZ_CHECK(!keeps || specials ||
                           (length <= bytes - at && memcmp(text + at, token, (size_t)length) == 0));
                at += length;
            }
            FUZZ_CHECK(!keeps || specials || code != ERROR_NONE || at == bytes);
            FUZZ_CHECK(pass == 0 || (count == first_count && sum == first_sum));
            first_count = count;
            first_sum = sum;
        }
    }
    bpe_encoder_close(encoder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    size_t bytes = data[0] < size - 1 ? data[0] : size - 1;
    char *text = memory_grow(NULL, (int64_t)bytes + 1), *file = memory_grow(NULL, (int64_t)size);
    memcpy(text, data + 1, bytes);
    memcpy(file, data + 1 + bytes, size - 1 - bytes);
    file[size - 1 - bytes] = '\0';
    size_t file_bytes = strlen(file), rest = size - 1 - bytes - file_bytes;
    char *whole = replaced(file, "@V", all_bytes());
    struct bpe_file config = {file + file_bytes + 1, (int64_t)rest - 1, "CONFIG"};
    struct bpe *bpe;
    error_clear();
    int code = bpe_open(&bpe, &(struct bpe_file){whole, (int64_t)strlen(whole), "FILE"}, rest > 1 ? &config : NULL);
    FUZZ_CHECK(code == ERROR_NONE || (code == ERROR_USER && bpe == NULL && error_message()[0] != '\0'));
    if (code == ERROR_NONE) {
        fuzz_accepted++;
        for (int role = 0; role < BPE_ROLES; role++)
            FUZZ_CHECK(bpe_role(bpe, (enum bpe_role)role) >= -1 &&
                       bpe_role(bpe, (enum bpe_role)role) < bpe_vocabulary(bpe));
        FUZZ_CHECK(!bpe_begins(bpe) || bpe_role(bpe, BPE_BOS) >= 0);
        FUZZ_CHECK(!bpe_ends(bpe) || bpe_role(bpe, BPE_EOS) >= 0);
        check_encoded(bpe, text, (int64_t)bytes, keeps_text(whole));
    }
    bpe_close(bpe);
    free(text);
    free(file);
    free(whole);
    return 0;
}
