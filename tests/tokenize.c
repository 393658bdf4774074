/* The ids of a text by a tokenizer's file or folder, for tests/interop/bpe_ids.py and bench/tokenizer_speed:
 *   tests/tokenize TOKENIZER TEXT IDS [specials|text] [CONFIG]
 * TEXT is a file of texts, each behind its length in bytes; IDS gets the ids of each behind their count: all int32, of
 * this machine. Prints role ids, and checks that the ids' bytes are the texts where the tokenizer keeps them ("kept").
 */
#include "base/error.h"
#include "base/memory.h"
#include "tokenizer/bpe.h"
#include "tokenizer/tokenizer.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct bpe_file read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        error_fatal("%s: cannot open it", path);
    fseek(file, 0, SEEK_END);
    struct bpe_file read = {.bytes = ftell(file), .name = path};
    rewind(file);
    char *data = memory_grow(NULL, read.bytes + 1);
    if (fread(data, 1, (size_t)read.bytes, file) != (size_t)read.bytes)
        error_fatal("%s: cannot read it", path);
    fclose(file);
    read.data = data;
    return read;
}

/* Are the bytes of the ids the text? */
static bool kept(const struct bpe *bpe, const char *text, int64_t bytes, const int32_t *ids, int64_t count)
{
    int64_t at = 0;
    for (int64_t i = 0; i < count; i++) {
        int32_t length;
        const char *token = bpe_text(bpe, ids[i], &length);
        const bool added = i == 0 && length > 0 && bpe_prepends(bpe) && *token == ' ';
        token += added;
        length -= added;
        if (length > bytes - at || memcmp(text + at, token, (size_t)length) != 0)
            return false;
        at += length;
    }
    return at == bytes;
}

/* Opens the tokenizer, with a configuration that replaces that of its folder. */
static const struct tokenizer *open_with(const char *where, const char *config)
{
    const struct tokenizer *tokenizer = NULL;
    struct tokenizer_bundle bundle;
    int code = bundle_read(&bundle, where);
    if (code == ERROR_NONE && config != NULL) {
        struct bpe_file file = read_file(config);
        bundle_put(&bundle, BUNDLE_CONFIG, file.data, file.bytes);
        free((void *)file.data);
    }
    if (code == ERROR_NONE)
        code = tokenizer_open_bundle(&tokenizer, &bundle, where);
    bundle_destroy(&bundle);
    return tokenizer;
}

int main(int argc, char **argv)
{
    bool specials = argc > 4 && strcmp(argv[4], "specials") == 0;
    if (argc < 4)
        error_fatal("use: tokenize TOKENIZER TEXT IDS [specials|text] [CONFIG]");
    struct bpe_file texts = read_file(argv[2]);
    const struct tokenizer *tokenizer = open_with(argv[1], argc > 5 ? argv[5] : NULL);
    if (tokenizer == NULL) {
        error_print();
        return ERROR_USER;
    }
    const struct bpe *bpe = tokenizer->bpe;
    struct bpe_encoder *encoder = bpe_encoder_open(bpe);
    FILE *out = fopen(argv[3], "wb");
    const char *at = texts.data, *end = at + texts.bytes;
    int64_t lost = 0, total = 0;
    while (at < end) {
        int32_t bytes;
        const int32_t *ids;
        int64_t count;
        memcpy(&bytes, at, sizeof bytes);
        at += sizeof bytes;
        if (bpe_encode(encoder, at, bytes, specials, &ids, &count) != ERROR_NONE) {
            error_print();
            return ERROR_USER;
        }
        lost += !kept(bpe, at, bytes, ids, count);
        total++;
        int32_t narrow = (int32_t)count;
        fwrite(&narrow, sizeof narrow, 1, out);
        fwrite(ids, sizeof *ids, (size_t)count, out);
        at += bytes;
    }
    printf("vocabulary %d bos %d eos %d pad %d unk %d begins %d ends %d kept %lld of %lld\n", bpe_vocabulary(bpe),
           bpe_role(bpe, BPE_BOS), bpe_role(bpe, BPE_EOS), bpe_role(bpe, BPE_PAD), bpe_role(bpe, BPE_UNK),
           bpe_begins(bpe), bpe_ends(bpe), (long long)(total - lost), (long long)total);
    bpe_encoder_close(encoder);
    tokenizer_close(tokenizer);
    free((void *)texts.data);
    return fclose(out) == 0 ? 0 : 1;
}
