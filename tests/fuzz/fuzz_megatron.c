/* A Megatron data set: its index, and all of it that training reads, in the order of the file and in Megatron-LM's. The
 * input's first two bytes are the size of PREFIX.bin, which holds zeros; the rest is PREFIX.idx. Where they are 0 or 1
 * the rest is lengths of sequences, a byte each, of which whole files are made; with 1 PREFIX.bin then loses all but
 * its first half. */
#include "base/error.h"
#include "data/megatron_windows.h"
#include "fuzz/fuzz.h"

#include "stores.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PREFIX_BYTES = 2, BIN_BYTES = 1 << 16, WINDOW = 5, SAMPLES = 40 };

const char *const fuzz_target_words[] = {"MMIDIDX",          "\1", "\4", "\x8", "\xff\xff\xff\xff\xff\xff\xff\x7f",
                                         "\xff\xff\xff\x7f", NULL};

void fuzz_target_seeds(void (*add)(const void *data, size_t size))
{
    char *sequences[] = {"ACGTACGTAACCGGTTACGTAC", "A", "", "acgtNNNNACGTTTTTTTTTTTTTTTTTTTTTTT"};
    const char *prefix = fuzz_path("seed");
    stores_write_megatron(prefix, sequences, 4);
    size_t size;
    unsigned char *index = fuzz_read(fuzz_path("seed.idx"), &size);
    unsigned char *input = memory_grow(NULL, (int64_t)size + PREFIX_BYTES);
    uint16_t bytes = 0;
    for (int i = 0; i < 4; i++)
        bytes = (uint16_t)(bytes + 2 * (strlen(sequences[i]) + 1));
    memcpy(input, &bytes, sizeof bytes);
    memcpy(input + PREFIX_BYTES, index, size);
    add(input, size + PREFIX_BYTES);
    add("\0\0\5\0\21\100\3\3\0\0\377", 11);
    memset(input, UINT8_MAX, size + PREFIX_BYTES); /* of many pages, so that what is missing is noticed */
    memcpy(input, "\1", PREFIX_BYTES);
    add(input, size + PREFIX_BYTES);
    free(index);
    free(input);
}

static void read_windows(const struct window_source *source)
{
    int32_t tokens[WINDOW + 1];
    for (int64_t w = 0; w < source->windows; w++) {
        struct token_window window;
        source->class->locate(source->self, &w, 1, &window);
        FUZZ_CHECK(window.length == WINDOW && window.followed);
        source->class->read(source->self, &window, 0, WINDOW + 1, tokens);
    }
}

static void read_store(const struct megatron_store *store)
{
    static const struct tokenizer tokenizer = {.vocabulary = 256};
    struct megatron_part part;
    struct megatron_windows *windows;
    for (int ordered = 0; ordered < 2; ordered++) {
        if (megatron_part_choose(&part, store, "70,30", MEGATRON_TRAIN) != ERROR_NONE ||
            (ordered ? megatron_windows_create_ordered(&windows, store, &part, &tokenizer, WINDOW, SAMPLES, 1)
                     : megatron_windows_create(&windows, store, &part, &tokenizer, WINDOW)) != ERROR_NONE)
            continue;
        fuzz_accepted++;
        read_windows(megatron_windows_source(windows));
        megatron_windows_destroy(windows);
    }
}

/* Whole files of these lengths, or half of the tokens. */
static void write_whole(const uint8_t *lengths, size_t count, bool half)
{
    static char text[UINT8_MAX + 1];
    memset(text, 'A', UINT8_MAX);
    char **sequences = memory_allocate((int64_t)(count + 1) * (int64_t)sizeof *sequences);
    for (size_t i = 0; i < count; i++)
        sequences[i] = text + UINT8_MAX - lengths[i];
    stores_write_megatron(fuzz_path("input"), sequences, (int64_t)count);
    memory_free(sequences);
    size_t bytes;
    free(fuzz_read(fuzz_path("input.bin"), &bytes));
    if (half)
        FUZZ_CHECK(truncate(fuzz_path("input.bin"), (off_t)bytes / 2) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const unsigned char zeros[BIN_BYTES];
    uint16_t bytes;
    if (size < PREFIX_BYTES)
        return 0;
    memcpy(&bytes, data, sizeof bytes);
    const char *prefix = fuzz_path("input");
    fuzz_write(fuzz_path("input.bin"), zeros, bytes);
    fuzz_write(fuzz_path("input.idx"), data + PREFIX_BYTES, size - PREFIX_BYTES);
    if (bytes <= 1)
        write_whole(data + PREFIX_BYTES, size - PREFIX_BYTES, bytes == 1);
    struct megatron_store *store;
    error_clear();
    const int code = megatron_store_open(&store, prefix);
    FUZZ_CHECK(code == ERROR_NONE || (code == ERROR_USER && error_message()[0] != '\0'));
    if (code == ERROR_NONE) {
        read_store(store);
        megatron_store_close(store);
    }
    return 0;
}
