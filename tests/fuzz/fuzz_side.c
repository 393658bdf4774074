/* The side file of a checkpoint (file/block.h). Every other input gets the last line that its text wants, so that what
 * stands above it is looked at too. */
#include "base/error.h"
#include "base/memory.h"
#include "fuzz/fuzz.h"
#include "file/block.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

const char *const fuzz_target_words[] = {
    "cistron-blocks 1 ", "cistron-blocks 2 ", " t", "\n", " ", "end ", "9223372036854775807", "-1", NULL};

enum { END_BYTES = 21 };

/* `text` with a right last line, behind `size` bytes; returns the whole length. text has room for it. */
static size_t seal(char *text, size_t size)
{
    return size + (size_t)sprintf(text + size, "end %016llx\n", (unsigned long long)XXH3_64bits(text, size));
}

void fuzz_target_seeds(void (*add)(const void *data, size_t size))
{
    static const char *const bodies[] = {
        "cistron-blocks 1 120\n0 100 00000000000000ff\n100 20 0123456789abcdef\n", "cistron-blocks 1 0\n",
        "cistron-blocks 1 7\n0 9 0\n", "cistron-blocks 2 120\n0 100 00000000000000ff t\n100 20 0123456789abcdef\n", ""};
    for (int i = 0; i < 5; i++) {
        char text[200];
        strcpy(text, bodies[i]);
        add(text, seal(text, strlen(text)));
        add(text, strlen(bodies[i])); /* as a write that was cut leaves it */
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = fuzz_path("input.xxh3");
    char *text = memory_grow(NULL, (int64_t)size + END_BYTES + 1);
    memcpy(text, data, size);
    if (size >= END_BYTES && size % 2 == 0)
        size = seal(text, size - END_BYTES);
    fuzz_write(path, text, size);
    free(text);
    struct block_list list = {NULL, 0, 0};
    int64_t bytes = -1, covered = 0;
    error_clear();
    int code = block_list_read(&list, path, &bytes);
    FUZZ_CHECK(code == ERROR_NONE || (code == ERROR_USER && error_message()[0] != '\0'));
    for (int64_t i = 0; i < list.count && code == ERROR_NONE; i++) {
        FUZZ_CHECK(list.blocks[i].offset == covered && list.blocks[i].length > 0);
        covered += list.blocks[i].length;
    }
    FUZZ_CHECK(code != ERROR_NONE || covered == bytes);
    block_list_destroy(&list);
    fuzz_accepted += code == ERROR_NONE;
    return 0;
}
