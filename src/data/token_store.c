#include "data/token_store.h"
#include "base/error.h"
#include "base/memory.h"
#include "data/hdf5_member.h"

#include <errno.h>
#include <fcntl.h>
#include <hdf5.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_BYTES = 64 };

int64_t token_store_token_bytes(int64_t vocabulary)
{
    return vocabulary <= 1 << 8 ? 1 : vocabulary <= 1 << 16 ? 2 : 4;
}

static int not_a_store(const char *path, const char *what)
{
    return error_user("%s: is not a token store of this program (%s); make one with cistron prepare", path, what);
}

/* Reading an attribute fills as many elements as the file says that it has. */
static bool is_scalar(hid_t attribute)
{
    hid_t space = H5Aget_space(attribute);
    bool scalar = H5Sget_simple_extent_npoints(space) == 1;
    H5Sclose(space);
    return scalar;
}

/* A scalar integer attribute of the root, -1 when it is absent. */
static int64_t read_integer(hid_t file, const char *name, hid_t type)
{
    int64_t value = -1;
    if (H5Aexists(file, name) > 0) {
        hid_t attribute = H5Aopen(file, name, H5P_DEFAULT);
        if (attribute >= 0) {
            if (!is_scalar(attribute) || H5Aread(attribute, type, &value) < 0)
                value = -1;
            H5Aclose(attribute);
        }
    }
    return value;
}

static int read_tokenizer(hid_t file, struct token_store *store)
{
    char name[NAME_BYTES] = "";
    if (H5Aexists(file, "tokenizer") > 0) {
        hid_t attribute = H5Aopen(file, "tokenizer", H5P_DEFAULT);
        hid_t type = H5Aget_type(attribute);
        if (is_scalar(attribute) && H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) == 0 &&
            H5Tget_size(type) < sizeof name)
            H5Aread(attribute, type, name);
        H5Tclose(type);
        H5Aclose(attribute);
    }
    store->tokenizer = tokenizer_find(name);
    if (store->tokenizer == NULL)
        return error_user("%s: made with tokenizer \"%s\", which this program does not know (it knows %s)", store->path,
                          name, tokenizer_names());
    if (store->tokenizer->vocabulary != store->vocabulary)
        return not_a_store(store->path, "its vocabulary is not its tokenizer's");
    return ERROR_NONE;
}

/* Where a contiguous one-dimensional dataset lies in the file, and how many elements it has. */
static int locate(hid_t file, struct token_store *store, const char *name, hid_t type, int64_t *count,
                  const unsigned char **data)
{
    if (!hdf5_has(file, name))
        return not_a_store(store->path, "a dataset is missing");
    hid_t dataset = hdf5_open_dataset(file, name);
    if (dataset < 0)
        return not_a_store(store->path, "a dataset has another type or layout");
    hid_t space = H5Dget_space(dataset), stored = H5Dget_type(dataset), layout = H5Dget_create_plist(dataset);
    int shaped =
        H5Sget_simple_extent_ndims(space) == 1 && H5Tequal(stored, type) > 0 && H5Pget_layout(layout) == H5D_CONTIGUOUS;
    *count = shaped ? (int64_t)H5Sget_simple_extent_npoints(space) : 0;
    int64_t width = (int64_t)H5Tget_size(stored);
    haddr_t where = H5Dget_offset(dataset);
    H5Pclose(layout);
    H5Tclose(stored);
    H5Sclose(space);
    H5Dclose(dataset);
    if (!shaped)
        return not_a_store(store->path, "a dataset has another type or layout");
    *data = NULL;
    if (*count == 0)
        return ERROR_NONE;
    if (*count < 0 || *count > store->map_bytes / width || where > (haddr_t)(store->map_bytes - *count * width))
        return error_user("%s: is truncated: /%s should end beyond the file's %lld bytes", store->path, name,
                          (long long)store->map_bytes);
    *data = (const unsigned char *)store->map + where;
    return ERROR_NONE;
}

static int read_layout(hid_t file, struct token_store *store)
{
    int64_t version = read_integer(file, "cistron_store", H5T_NATIVE_INT64);
    if (version < 0)
        return not_a_store(store->path, "it has no attribute cistron_store");
    if (version != STORE_VERSION)
        return error_user("%s: is a token store of version %lld, this program reads version %d; prepare it anew",
                          store->path, (long long)version, STORE_VERSION);
    store->vocabulary = read_integer(file, "vocabulary", H5T_NATIVE_INT64);
    store->checksum = (uint64_t)read_integer(file, "checksum", H5T_NATIVE_UINT64);
    int code = read_tokenizer(file, store);
    if (code != ERROR_NONE)
        return code;
    store->token_bytes = token_store_token_bytes(store->vocabulary);
    hid_t type = store->token_bytes == 1   ? H5T_NATIVE_UINT8
                 : store->token_bytes == 2 ? H5T_NATIVE_UINT16
                                           : H5T_NATIVE_UINT32;
    int64_t offsets;
    const unsigned char *names;
    if ((code = locate(file, store, "tokens", type, &store->token_count, &store->tokens)) != ERROR_NONE ||
        (code = locate(file, store, "offsets", H5T_NATIVE_INT64, &offsets, &store->offsets)) != ERROR_NONE ||
        (code = locate(file, store, "names", H5T_NATIVE_UINT8, &store->name_bytes, &names)) != ERROR_NONE)
        return code;
    store->names = (const char *)names;
    store->sequences = offsets - 1;
    if (offsets < 1 || token_store_offset(store, 0) != 0 ||
        token_store_offset(store, store->sequences) != store->token_count)
        return error_user("%s: damaged: its offsets do not span its tokens; prepare it anew", store->path);
    return ERROR_NONE;
}

static int map_file(struct token_store *store)
{
    int descriptor = open(store->path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (descriptor < 0)
        return error_user("%s: cannot open the token store: %s", store->path, strerror(errno));
    if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size == 0) {
        close(descriptor);
        return not_a_store(store->path, "it is empty or no regular file");
    }
    store->map_bytes = status.st_size;
    store->map = mmap(NULL, (size_t)store->map_bytes, PROT_READ, MAP_SHARED, descriptor, 0);
    close(descriptor);
    if (store->map == MAP_FAILED) {
        store->map = NULL;
        return error_environment("%s: cannot map the token store: %s", store->path, strerror(errno));
    }
    return ERROR_NONE;
}

static int read_file(struct token_store *store)
{
    int code = map_file(store);
    if (code != ERROR_NONE)
        return code;
    /* HDF5 prints its own stack of errors unless told; ours says more in one line. */
    H5E_auto2_t print;
    void *data;
    H5Eget_auto2(H5E_DEFAULT, &print, &data);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    hid_t file = -1;
    if (H5Fis_hdf5(store->path) <= 0)
        code = not_a_store(store->path, "it is no HDF5 file");
    else if ((file = H5Fopen(store->path, H5F_ACC_RDONLY, H5P_DEFAULT)) < 0)
        code = error_user("%s: HDF5 cannot open it: the file is truncated or damaged; prepare it anew", store->path);
    else
        code = read_layout(file, store);
    if (file >= 0)
        H5Fclose(file);
    H5Eset_auto2(H5E_DEFAULT, print, data);
    return code;
}

int token_store_open(struct token_store **out, const char *path)
{
    struct token_store *store = memory_allocate(sizeof *store);
    store->path = memory_string(path);
    int code = read_file(store);
    if (code != ERROR_NONE) {
        token_store_close(store);
        store = NULL;
    }
    *out = store;
    return code;
}

void token_store_close(struct token_store *store)
{
    if (store == NULL)
        return;
    if (store->map != NULL)
        munmap(store->map, (size_t)store->map_bytes);
    free(store->path);
    memory_free(store);
}

int64_t token_store_offset(const struct token_store *store, int64_t i)
{
    int64_t offset;
    memcpy(&offset, store->offsets + 8 * i, sizeof offset);
    return offset;
}

void token_store_read(const struct token_store *store, int64_t start, int64_t count, int32_t *out)
{
    const unsigned char *from = store->tokens + start * store->token_bytes;
    for (int64_t i = 0; i < count; i++) {
        if (store->token_bytes == 1) {
            out[i] = from[i];
        } else if (store->token_bytes == 2) {
            uint16_t token;
            memcpy(&token, from + 2 * i, sizeof token);
            out[i] = token;
        } else {
            uint32_t token;
            memcpy(&token, from + 4 * i, sizeof token);
            out[i] = (int32_t)token;
        }
    }
}

const char *token_store_next_name(const struct token_store *store, int64_t *cursor, int64_t *length)
{
    if (*cursor >= store->name_bytes)
        return NULL;
    const char *name = store->names + *cursor;
    const char *end = memchr(name, '\n', (size_t)(store->name_bytes - *cursor));
    *length = end != NULL ? end - name : store->name_bytes - *cursor;
    *cursor += *length + 1;
    return name;
}
