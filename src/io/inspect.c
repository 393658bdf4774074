#include "io/inspect.h"
#include "base/error.h"
#include "base/memory.h"
#include "data/token_store.h"
#include "io/block.h"
#include "io/checkpoint_private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LISTED_NAMES = 10 };

/* -- Token stores ------------------------------------------------------------------------------------------------ */

static void print_sources(const char *path)
{
    struct hdf5_silence silence;
    hid_t file;
    int64_t count = -1;
    hdf5_silence_begin(&silence);
    if (hdf5_open(&file, path) == ERROR_NONE) {
        hid_t dataset = H5Dopen2(file, "sources", H5P_DEFAULT);
        char **sources = dataset < 0 ? NULL : hdf5_read_strings(dataset, &count);
        for (int64_t i = 0; i < count; i++)
            printf("  source      %s\n", sources[i]);
        hdf5_strings_free(sources, count);
        if (dataset >= 0)
            H5Dclose(dataset);
        H5Fclose(file);
    }
    hdf5_silence_end(&silence);
}

static int inspect_store(const char *path)
{
    struct token_store *store;
    int code = token_store_open(&store, path);
    if (code != ERROR_NONE)
        return code;
    printf("%s: token store\n", path);
    printf("  tokenizer   %s, vocabulary %" PRId64 "\n", store->tokenizer->name, store->vocabulary);
    printf("  sequences   %" PRId64 "\n", store->sequences);
    printf("  tokens      %" PRId64 " of %" PRId64 " bytes each\n", store->token_count, store->token_bytes);
    printf("  checksum    %016" PRIx64 "\n", store->checksum);
    print_sources(path);
    int64_t cursor = 0, length, listed = 0;
    const char *name;
    while (listed < LISTED_NAMES && (name = token_store_next_name(store, &cursor, &length)) != NULL) {
        int64_t tokens = token_store_offset(store, listed + 1) - token_store_offset(store, listed);
        printf("  sequence    %.*s, %" PRId64 " tokens\n", (int)length, name, tokens);
        listed++;
    }
    if (listed < store->sequences)
        printf("  and %" PRId64 " more\n", store->sequences - listed);
    token_store_close(store);
    return ERROR_NONE;
}

/* -- Checkpoints ------------------------------------------------------------------------------------------------- */

struct total {
    int64_t tensors, elements;
};

static void count_dataset(hid_t dataset, const char *name, bool list, struct total *total)
{
    hsize_t dims[H5S_MAX_RANK];
    hid_t space = H5Dget_space(dataset);
    int ndims = H5Sget_simple_extent_dims(space, dims, NULL);
    if (list) {
        printf("  %-6s      %s [", hdf5_type_name(dataset), name);
        for (int i = 0; i < ndims; i++)
            printf("%s%llu", i == 0 ? "" : ", ", (unsigned long long)dims[i]);
        printf("]\n");
    }
    total->tensors++;
    total->elements += (int64_t)H5Sget_simple_extent_npoints(space);
    H5Sclose(space);
}

/* The totals of the group /<path>, and its datasets if they are to be listed. */
static void print_group(hid_t file, const char *path, bool list)
{
    struct total total = {0, 0};
    int64_t count;
    hid_t group = H5Gopen2(file, path, H5P_DEFAULT);
    if (group < 0)
        return;
    char **names = hdf5_list(group, &count);
    for (int64_t i = 0; i < count; i++) {
        hid_t dataset = H5Dopen2(group, names[i], H5P_DEFAULT);
        if (dataset < 0)
            continue;
        count_dataset(dataset, names[i], list, &total);
        H5Dclose(dataset);
    }
    hdf5_strings_free(names, count);
    H5Gclose(group);
    printf("  %-11s %" PRId64 " tensors, %" PRId64 " elements\n", path, total.tensors, total.elements);
}

static void print_deck(const char *text)
{
    printf("  deck\n");
    while (*text != '\0') {
        int length = (int)strcspn(text, "\n");
        printf("    %.*s\n", length, text);
        text += length;
        if (*text == '\n')
            text++;
    }
}

static int print_checkpoint(hid_t file, const char *path)
{
    struct checkpoint_meta meta;
    int code = checkpoint_load_meta(path, &meta);
    if (code != ERROR_NONE)
        return code;
    bool has_moments = H5Lexists(file, "optim", H5P_DEFAULT) > 0;
    printf("%s: %s\n", path, has_moments ? "checkpoint" : "final model, without optimizer state");
    printf("  step        %" PRId64 "\n", meta.step);
    printf("  tokens      %" PRId64 " seen in training\n", meta.tokens);
    printf("  seed        %" PRId64 "\n", meta.seed);
    printf("  written by  cistron %s on %" PRId64 " ranks\n", meta.version, meta.ranks);
    printf("  data        offset %" PRId64 " of the next window, stores with checksum %016" PRIx64 "\n",
           meta.position.offset, meta.store);
    for (int64_t d = 0; d < meta.position.stores; d++)
        printf("    store %-3" PRId64 " epoch %" PRId64 ", window %" PRId64 "\n", d, meta.position.epoch[d],
               meta.position.window[d]);
    for (int kind = 0; kind < (has_moments ? PIECE_KINDS : PIECE_M); kind++)
        print_group(file, checkpoint_groups[kind], kind == PIECE_WEIGHT); /* moments have the same shapes */
    print_deck(meta.deck_text);
    checkpoint_meta_destroy(&meta);
    return ERROR_NONE;
}

/* -- Either ------------------------------------------------------------------------------------------------------ */

static int inspect_hdf5(const char *path)
{
    struct hdf5_silence silence;
    hid_t file;
    hdf5_silence_begin(&silence);
    int code = hdf5_open(&file, path);
    if (code == ERROR_NONE) {
        if (H5Aexists(file, "cistron_checkpoint") > 0)
            code = print_checkpoint(file, path);
        else if (H5Aexists(file, "cistron_store") > 0)
            code = inspect_store(path);
        else
            code = error_user("%s: is an HDF5 file, but neither a token store nor a checkpoint of this program", path);
        H5Fclose(file);
    }
    hdf5_silence_end(&silence);
    return code;
}

/* HDF5 gets a file with a side file only if it is what was written. */
static int inspect_file(const char *path)
{
    char *side = block_side_path(path);
    int code = ERROR_NONE;
    if (access(side, F_OK) == 0) {
        struct comm *self = comm_self();
        code = checkpoint_examine(self, path);
        comm_destroy(self);
    }
    free(side);
    return code == ERROR_NONE ? inspect_hdf5(path) : code;
}

int inspect_run(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0)
        return error_user("%s: cannot open it: %s", path, strerror(errno));
    if (!S_ISDIR(status.st_mode))
        return inspect_file(path);
    char *newest;
    int code = checkpoint_newest(path, &newest);
    if (code == ERROR_NONE && newest == NULL)
        code = error_user("%s: the folder holds no checkpoint (step_*.h5)", path);
    if (code == ERROR_NONE)
        code = inspect_file(newest);
    free(newest);
    return code;
}
