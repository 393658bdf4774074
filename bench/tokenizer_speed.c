/* What a BPE tokenizer encodes on one core: MB per second of processor time, of each text file as one
 * record, and of degenerate texts of a MiB.
 *   make bench/tokenizer_speed && bench/tokenizer_speed TOKENIZER TEXT... */
#include "base/error.h"
#include "file/mapping.h"
#include "base/memory.h"
#include "tokenizer/bpe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DEGENERATE = 1 << 20 };

static double processor_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* The first pass fills the cache of words; the second one is what a long file sees. */
static void measure(const struct bpe *bpe, const char *what, const char *text, int64_t bytes)
{
    struct bpe_encoder *encoder = bpe_encoder_open(bpe);
    for (int pass = 0; pass < 2; pass++) {
        const int32_t *ids;
        int64_t count;
        double start = processor_seconds();
        if (bpe_encode(encoder, text, bytes, false, &ids, &count) != ERROR_NONE)
            error_fatal("%s", error_message());
        double took = processor_seconds() - start;
        printf("%-32s pass %d %10.2f MB %8.1f MB/s %8.2f M tokens/s %6.2f bytes a token\n", what, pass + 1,
               (double)bytes * 1e-6, (double)bytes * 1e-6 / took, (double)count * 1e-6 / took,
               (double)bytes / (double)count);
    }
    bpe_encoder_close(encoder);
}

static void measure_file(const struct bpe *bpe, const char *path)
{
    struct file_mapping *file;
    if (mapping_open(&file, path, "text") != ERROR_NONE)
        error_fatal("%s", error_message());
    measure(bpe, path, (const char *)file->data, file->bytes);
    mapping_close(file);
}

static void measure_repeated(const struct bpe *bpe, const char *what, const char *unit)
{
    size_t length = strlen(unit);
    char *text = memory_grow(NULL, DEGENERATE);
    for (size_t i = 0; i < DEGENERATE; i++)
        text[i] = unit[i % length];
    measure(bpe, what, text, DEGENERATE);
    free(text);
}

int main(int argc, char **argv)
{
    struct file_mapping *file;
    struct bpe *bpe;
    if (argc < 2)
        error_fatal("use: bench/tokenizer_speed TOKENIZER TEXT...");
    double start = processor_seconds();
    if (mapping_open(&file, argv[1], "tokenizer") != ERROR_NONE ||
        bpe_open(&bpe, &(struct bpe_file){file->data, file->bytes, argv[1]}, NULL) != ERROR_NONE)
        error_fatal("%s", error_message());
    mapping_close(file);
    printf("%s: %d tokens, opened in %.2f s\n", argv[1], bpe_vocabulary(bpe), processor_seconds() - start);
    for (int i = 2; i < argc; i++)
        measure_file(bpe, argv[i]);
    measure_repeated(bpe, "the letter A", "A");
    measure_repeated(bpe, "spaces", " ");
    measure_repeated(bpe, "newlines", "\n");
    measure_repeated(bpe, "ACGT", "ACGT");
    measure_repeated(bpe, "byte 0xff", "\xff");
    bpe_close(bpe);
    return 0;
}
