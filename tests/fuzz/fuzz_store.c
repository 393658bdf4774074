/* The token store reader, and all of the store that training reads: names, sequences, windows. A store has no side
 * file: HDF5 opens it as it is. */
#include "base/error.h"
#include "comm/comm.h"
#include "data/windows.h"
#include "fuzz/fuzz.h"

#include "stores.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char *const fuzz_target_words[] = {"\x89HDF\r\n\x1a\n",
                                         "TREE",
                                         "HEAP",
                                         "SNOD",
                                         "OHDR",
                                         "GCOL",
                                         "nucleotide",
                                         "\xff\xff\xff\xff\xff\xff\xff\xff",
                                         NULL};

void fuzz_target_seeds(void (*add)(const void *data, size_t size))
{
    char *sequences[] = {"ACGTACGTAACCGGTTACGTAC", "A", "acgtNNNNACGTTTTTTTTTTTTTTTTTTTTTTT"};
    const char *path = fuzz_path("seed.h5");
    size_t size;
    stores_write(path, sequences, 3);
    void *data = fuzz_read(path, &size);
    add(data, size);
    free(data);
}

/* No window index can be made in place of a folder, so that a store is taken whose checksum is not its own. */
static void forbid_index(void)
{
    mkdir(fuzz_path("input.h5.windows-16-3-each.tmp"), 0700);
}

static void read_windows(const struct token_store *store)
{
    static const struct windows_layout layout = {.window = 16, .overlap = 3};
    struct comm *world = comm_self();
    struct store_windows *windows;
    int32_t tokens[16];
    if (windows_open(&windows, store, &layout, world) == ERROR_NONE) {
        fuzz_accepted++;
        const int64_t most = windows->index.header.windows < 1000 ? windows->index.header.windows : 1000;
        for (int64_t w = 0; w < most; w++) {
            struct token_window window;
            windows_locate(windows, &w, 1, &window);
            FUZZ_CHECK(window.length >= 0 && window.length <= 14);
            token_store_read(store, window.start, window.length, tokens);
        }
        windows_close(windows);
    }
    comm_destroy(world);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = fuzz_path("input.h5");
    struct token_store *store;
    forbid_index();
    fuzz_write(path, data, size);
    fuzz_hdf5_may_crash = true;
    error_clear();
    int code = token_store_open(&store, path);
    fuzz_hdf5_may_crash = false;
    FUZZ_CHECK(code == ERROR_NONE || (code == ERROR_USER && error_message()[0] != '\0'));
    if (code == ERROR_NONE) {
        int64_t cursor = 0, length;
        while (token_store_next_name(store, &cursor, &length) != NULL)
            FUZZ_CHECK(length >= 0);
        read_windows(store);
        token_store_close(store);
    }
    return 0;
}
