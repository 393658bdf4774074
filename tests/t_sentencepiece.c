/* SentencePiece models, and Unigram and BPE of characters of tokenizer.json: ids of `sentencepiece` and `tokenizers`,
 * decoded texts, bytes that are not UTF-8, special tokens, faults and damage of files. */
#include "base/error.h"
#include "base/memory.h"
#include "check.h"
#include "folders.h"
#include "tokenizer/bpe.h"
#include "tokenizer/tokenizer.h"
#include "tokenizers.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"unigram.model", "bpe.model", "llama.json", "unigram.json"};
enum { NAMES = sizeof names / sizeof *names };

/* Reads a file of tests/golden/spm_tiny; free .data with free(). */
static struct bpe_file read_golden(const char *name)
{
    char *inside = memory_format("spm_tiny/%s", name);
    FILE *file = fopen(golden(inside), "rb");
    if (file == NULL)
        error_fatal("%s: cannot open it", inside);
    char *data = memory_grow(NULL, 1 << 16);
    const struct bpe_file read = {data, (int64_t)fread(data, 1, (1 << 16) - 1, file), "T"};
    data[read.bytes] = '\0';
    fclose(file);
    free(inside);
    return read;
}

static const struct tokenizer *open_golden(const char *name)
{
    const struct tokenizer *tokenizer;
    char *inside = memory_format("spm_tiny/%s", name);
    if (tokenizer_open(&tokenizer, golden(inside)) != ERROR_NONE)
        error_fatal("%s", error_message());
    free(inside);
    return tokenizer;
}

/* -- Ids and texts ------------------------------------------------------------------------------------------------- */

/* Returns the text of ids, by tokenizer_decode; freed with free(). */
static char *decoded(const struct tokenizer *tokenizer, const int32_t *ids, int64_t count, int64_t *bytes)
{
    char *out = memory_grow(NULL, 1 << 12);
    *bytes = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t length;
        const char *text =
            i == 0 ? tokenizer_decode_first(tokenizer, ids[i], &length) : tokenizer_decode(tokenizer, ids[i], &length);
        memcpy(out + *bytes, text, (size_t)length);
        *bytes += length;
    }
    return out;
}

static bool ids_are(const json_t *wanted, const int32_t *ids, int64_t count)
{
    bool good = (int64_t)json_array_size(wanted) == count;
    for (int64_t i = 0; good && i < count; i++)
        good = json_integer_value(json_array_get(wanted, (size_t)i)) == ids[i];
    return good;
}

static void check_golden(const char *name, const json_t *rows)
{
    const struct tokenizer *tokenizer = open_golden(name);
    struct encoder *encoder = encoder_open(tokenizer);
    /* what keeps all bytes: no rules, no blanks removed, no character that stands for a blank */
    const bool keeps = strcmp(name, "unigram.model") != 0;
    int64_t kept = 0;
    size_t i;
    const json_t *row;
    json_array_foreach(rows, i, row)
    {
        const json_t *given = json_object_get(row, "text");
        const char *text = json_string_value(given);
        const int64_t bytes = (int64_t)json_string_length(given);
        for (int pass = 0; pass < 2; pass++) { /* the second time from the cache */
            const int32_t *ids;
            int64_t count, length;
            CHECK(encoder_encode(encoder, text, bytes, false, &ids, &count) == ERROR_NONE);
            if (!CHECK(ids_are(json_object_get(row, name), ids, count)))
                fprintf(stderr, "    %s: \"%s\"\n", name, text);
            char *back = decoded(tokenizer, ids, count, &length);
            kept += length == bytes && memcmp(back, text, (size_t)bytes) == 0;
            free(back);
        }
    }
    /* U+2581 of a text comes back as a blank, and so do blanks before the text where none is put there */
    CHECK(!keeps || kept >= 2 * ((int64_t)json_array_size(rows) - 3));
    encoder_close(encoder);
    tokenizer_close(tokenizer);
}

static void check_texts(void)
{
    static const struct {
        const char *name, *text, *tokens;
        bool specials;
    } cases[] = {
        /* a byte that is not UTF-8 is its own token, and the texts around it are two texts */
        {"bpe.model", "he\xffhe", "\xe2\x96\x81|h|e|<0xFF>|\xe2\x96\x81|h|e", false},
        {"unigram.model", "he\xffhe", "\xe2\x96\x81|h|e|<unk>|\xe2\x96\x81|h|e", false},
        {"unigram.json", "he\xffhe", "\xe2\x96\x81|h|e|<0xFF>|h|e", false},
        {"bpe.model", "<s>he</s>", "<s>|\xe2\x96\x81|h|e|</s>", true},
        {"llama.json", "<s>he</s>", "<s>|\xe2\x96\x81|h|e|</s>", true},
        {"unigram.json", "<s>he</s>", "<s>|h|e|</s>", true},
        {"unigram.json", "he<s>he", "\xe2\x96\x81|h|e|<s>|h|e", true},
        {"unigram.model", "so<sep>so", "\xe2\x96\x81|so|<sep>|so", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct tokenizer *tokenizer = open_golden(cases[i].name);
        CHECK_STRING(tokens_of(tokenizer->bpe, cases[i].text, cases[i].specials), cases[i].tokens);
        tokenizer_close(tokenizer);
    }
}

static void check_roles(void)
{
    for (int i = 0; i < NAMES; i++) {
        const struct tokenizer *tokenizer = open_golden(names[i]);
        const bool model = strstr(names[i], ".model") != NULL;
        CHECK(tokenizer->unk == 0 && tokenizer->bos == 1 && tokenizer->eos == 2 && tokenizer->pad == -1);
        CHECK(bpe_begins(tokenizer->bpe) == (model || strcmp(names[i], "llama.json") == 0));
        CHECK(bpe_is_special(tokenizer->bpe, 0) && bpe_is_special(tokenizer->bpe, 2) &&
              !bpe_is_special(tokenizer->bpe, 9));
        CHECK(strncmp(tokenizer->name, strstr(names[i], "unigram") != NULL ? "unigram-" : "bpe-", 4) == 0);
        CHECK(bpe_prepends(tokenizer->bpe));
        tokenizer_close(tokenizer);
    }
}

/* -- Faults -------------------------------------------------------------------------------------------------------- */

static void check_json_faults(void)
{
    static const struct {
        const char *name, *from, *to, *says;
    } cases[] = {
        {"unigram.json", "\"unk_id\":0", "\"unk_id\":4000",
         "T: model.unk_id: 4000 is not supported; must be the place"},
        {"unigram.json", "\"unk_id\":0", "\"unk_id\":null", "T: model.unk_id: null"},
        {"unigram.json", "[\"<s>\",0.0]", "[\"<s>\"]", "T: model.vocab[1]: must be a token and its score"},
        {"unigram.json", "[\"<s>\",0.0]", "[\"<s>\",\"0\"]", "T: model.vocab[1]: must be"},
        {"unigram.json", "<0x41>", "<0x4>",
         "T: model.byte_fallback: true needs a token for each byte in model.vocab; 255"},
        {"unigram.json", "\"first\"", "\"last\"",
         "T: pre_tokenizer.prepend_scheme: \"last\" is not supported; must be \"always\""},
        {"unigram.json", "\"\\u2581\",\"prepend", "\"_\",\"prepend", "T: pre_tokenizer.replacement: \"_\""},
        {"unigram.json", "\"normalizer\":null",
         "\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AA==\"}",
         "T: normalizer.type: \"Precompiled\" is not supported; must be NFC"},
        {"llama.json", "\"String\":\" \"", "\"Regex\":\"a+\"", "T: normalizer.normalizers[1].pattern.Regex: \"a+\""},
        {"llama.json", "\"String\":\" \"", "\"String\":\"\"", "T: normalizer.normalizers[1].pattern.String: \"\""},
        {"llama.json", "\"prepend\":\"", "\"prepended\":\"", "T: normalizer.normalizers[0].prepend: is missing"},
        {"llama.json", "\"byte_fallback\":true", "\"byte_fallback\":1", "T: model.byte_fallback: 1"},
        {"llama.json", "\"ByteFallback\"", "\"CTC\"",
         "T: decoder.decoders[1].type: \"CTC\" is not supported; must be WordPiece"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bpe *bpe;
        const struct bpe_file file = read_golden(cases[i].name);
        const char *at = strstr(file.data, cases[i].from);
        if (at == NULL)
            error_fatal("%s has no %s", cases[i].name, cases[i].from);
        char *text = memory_format("%.*s%s%s", (int)(at - (const char *)file.data), (const char *)file.data,
                                   cases[i].to, at + strlen(cases[i].from));
        CHECK(open_text(&bpe, text, NULL) == ERROR_USER && bpe == NULL);
        if (!CHECK(strstr(error_message(), cases[i].says) != NULL))
            fprintf(stderr, "    says \"%s\"\n    not \"%s\"\n", error_message(), cases[i].says);
        bpe_close(bpe);
        free(text);
        free((void *)file.data);
    }
}

/* Characters without a token, where there is neither a token for unknown ones nor for bytes. */
static void check_lacking(void)
{
    static const char file[] =
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}}";
    struct bpe *bpe;
    const int32_t *ids;
    int64_t count;
    CHECK(open_text(&bpe, file, NULL) == ERROR_NONE);
    CHECK_STRING(tokens_of(bpe, "abba", false), "ab|b|a");
    struct bpe_encoder *encoder = bpe_encoder_open(bpe);
    CHECK(bpe_encode(encoder, "abc", 3, false, &ids, &count) == ERROR_USER && count == 0);
    CHECK(strstr(error_message(), "T: byte 0x63 of the text, at offset 2, has no token in the vocabulary") != NULL);
    CHECK(bpe_encode(encoder, "ab\xff", 3, false, &ids, &count) == ERROR_USER);
    bpe_encoder_close(encoder);
    bpe_close(bpe);
}

/* Appends a field of bytes, shorter than 128, to a message. */
static void put_field(char *message, int64_t *used, int number, const void *bytes, int64_t count)
{
    message[(*used)++] = (char)(number << 3 | 2);
    message[(*used)++] = (char)count;
    memcpy(message + *used, bytes, (size_t)count);
    *used += count;
}

/* Opens a model of pieces "<unk>" (type UNKNOWN), `piece` and "b", with this trainer_spec and normalizer_spec. */
static int open_model(struct bpe **bpe, const char *piece, const char *trainer, const char *normalizer)
{
    char model[256];
    int64_t used = 0;
    put_field(model, &used, 1, "\x0a\x05<unk>\x18\x02", 9);
    put_field(model, &used, 1, piece, (int64_t)strlen(piece));
    put_field(model, &used, 1,
              "\x0a\x01"
              "b",
              3);
    put_field(model, &used, 2, trainer, (int64_t)strlen(trainer));
    put_field(model, &used, 3, normalizer, (int64_t)strlen(normalizer));
    error_clear();
    return bpe_open(bpe, &(struct bpe_file){model, used, "T"}, NULL);
}

static void check_model_faults(void)
{
    static const struct {
        const char *piece, *trainer, *normalizer, *says; /* NULL: is opened */
    } cases[] = {
        {"\x0a\x01"
         "a",
         "", "", NULL},
        {"\x0a\x01"
         "a",
         "\x18\x02", "", NULL},
        {"\x0a\x01"
         "a\x18\x03",
         "", "", NULL},
        {"\x0a\x01"
         "a",
         "\x18\x03", "", "T: trainer_spec.model_type: WORD is not supported; must be UNIGRAM or BPE"},
        {"\x0a\x01"
         "a",
         "\x18\x04", "", "T: trainer_spec.model_type: CHAR"},
        {"\x0a\x01"
         "a",
         "\xc0\x01\x01", "", "T: trainer_spec.treat_whitespace_as_suffix: true"},
        {"\x0a\x01"
         "a",
         "\x98\x02\x01", "", "T: trainer_spec.byte_fallback: true needs the pieces <0x00> to <0xFF>"},
        {"\x0a\x01"
         "a",
         "\xc8\x02\x07", "", "T: trainer_spec: bos_id, eos_id and pad_id must be below"},
        {"\x0a\x01"
         "a\x18\x05",
         "", "", "T: piece 1: type UNUSED is not supported"},
        {"\x0a\x01"
         "a\x18\x07",
         "", "", "T: piece 1: must be a text in UTF-8 with a finite score and a known type"},
        {"\x0a\x01\xff", "", "", "T: piece 1: must be"},
        {"\x15"
         "aaaa",
         "", "", "T: piece 1: must be"},
        {"\x0a\x01"
         "a\x15\x01\x01\xc0\x7f",
         "", "", "T: piece 1: must be"},
        {"\x0a\x01"
         "b",
         "", "", "T: piece 2 is there twice"},
        {"\x0a\x02"
         "a",
         "", "", "T: is not a complete SentencePiece model"},
        {"\x0a\x01"
         "a",
         "",
         "\x12\x03"
         "abc",
         "T: normalizer_spec.precompiled_charsmap: is damaged"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bpe *bpe;
        int code = open_model(&bpe, cases[i].piece, cases[i].trainer, cases[i].normalizer);
        CHECK(code == (cases[i].says == NULL ? ERROR_NONE : ERROR_USER) && (bpe == NULL) == (code != ERROR_NONE));
        if (!CHECK(strstr(error_message(), cases[i].says == NULL ? "" : cases[i].says) != NULL))
            fprintf(stderr, "    says \"%s\"\n    not \"%s\"\n", error_message(), cases[i].says);
        bpe_close(bpe);
    }
}

/* Every cut of a model, and every byte of it turned into another: an answer, and no crash. */
static void check_damage(const char *name)
{
    const struct bpe_file file = read_golden(name);
    char *data = (char *)file.data;
    static const char text[] = "The sep\xef\xac\x81<sep>e\xcc\x81 \xe3\x80\x80w\xff";
    for (int64_t cut = 0; cut < file.bytes; cut += 3) {
        struct bpe *bpe;
        error_clear();
        int code = bpe_open(&bpe, &(struct bpe_file){data, cut, "T"}, NULL);
        CHECK(code == ERROR_NONE || (code == ERROR_USER && strncmp(error_message(), "T:", 2) == 0));
        bpe_close(bpe);
    }
    int64_t taken = 0;
    for (int64_t at = 0; at < file.bytes; at++) {
        struct bpe *bpe;
        const char was = data[at];
        data[at] = (char)(was ^ (1 << at % 7));
        error_clear();
        int code = bpe_open(&bpe, &(struct bpe_file){data, file.bytes, "T"}, NULL);
        CHECK(code == ERROR_NONE || (code == ERROR_USER && bpe == NULL && strncmp(error_message(), "T:", 2) == 0));
        if (code == ERROR_NONE) {
            const int32_t *ids;
            int64_t count;
            struct bpe_encoder *encoder = bpe_encoder_open(bpe);
            CHECK(bpe_encode(encoder, text, (int64_t)sizeof text - 1, false, &ids, &count) == ERROR_NONE);
            for (int64_t i = 0; i < count; i++)
                CHECK(ids[i] >= 0 && ids[i] < bpe_vocabulary(bpe));
            bpe_encoder_close(encoder);
            taken++;
        }
        bpe_close(bpe);
        data[at] = was;
    }
    CHECK(taken > file.bytes / 4 && taken < file.bytes);
    free(data);
}

int main(void)
{
    json_error_t error;
    json_t *rows = json_load_file(golden("spm_tiny/ids.json"), JSON_ALLOW_NUL, &error);
    if (rows == NULL)
        error_fatal("%s", error.text);
    for (int i = 0; i < NAMES; i++)
        check_golden(names[i], rows);
    json_decref(rows);
    check_texts();
    check_roles();
    check_json_faults();
    check_lacking();
    check_model_faults();
    check_damage("unigram.model");
    check_damage("bpe.model");
    return check_end();
}
