#include "data/token_store.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/progress.h"
#include "base/range.h"
#include "file/path.h"
#include "base/signals.h"
#include "file/hdf5_member.h"
#include "file/hdf5_open.h"
#include "data/tokenizer_member.h"

#include <errno.h>
#include <hdf5.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

enum { NAME_BYTES = TOKENIZER_NAME_BYTES };
static const int64_t part_bytes = 1 << 24,
                     large_bytes = (int64_t)1 << 32; /* reading more bytes than large_bytes takes a second or more */

const char *const store_columns[STORE_COLUMNS] = {"tokens", "offsets", "names", "labels", "classes"};
const char *const store_labels[STORE_LABEL_KINDS] = {"class", "number", "token"};

int64_t token_store_label_bytes(enum store_label kind, int64_t count, int64_t sequences, int64_t tokens)
{
    return kind == STORE_LABEL_TOKEN    ? tokens * (int64_t)sizeof(int16_t)
           : kind == STORE_LABEL_NUMBER ? sequences * count * (int64_t)sizeof(float)
                                        : sequences * (int64_t)sizeof(int32_t);
}

int64_t token_store_token_bytes(int64_t vocabulary)
{
    return vocabulary <= 1 << 8 ? 1 : vocabulary <= 1 << 16 ? 2 : 4;
}

static int not_a_store(const char *path, const char *what)
{
    return error_user("%s: is not a token store of this program (%s); make one with cistron prepare", path, what);
}

/* Returns whether the attribute has one element; reading fills as many elements as the file says. */
static bool is_scalar(hid_t attribute)
{
    hid_t space = H5Aget_space(attribute);
    bool scalar = H5Sget_simple_extent_npoints(space) == 1;
    H5Sclose(space);
    return scalar;
}

/* Reads a scalar integer attribute into 64 bits; false if there is none. */
static bool read_attribute(hid_t object, const char *name, hid_t type, void *value)
{
    hid_t attribute = H5Aexists(object, name) > 0 ? H5Aopen(object, name, H5P_DEFAULT) : -1;
    if (attribute < 0)
        return false;
    bool good = is_scalar(attribute) && H5Aread(attribute, type, value) >= 0;
    H5Aclose(attribute);
    return good;
}

/* Reads an integer attribute of the root; -1 if absent. */
static int64_t read_integer(hid_t file, const char *name)
{
    int64_t value;
    return read_attribute(file, name, H5T_NATIVE_INT64, &value) ? value : -1;
}

/* Reads a text attribute of the root; "" if absent. */
static void read_text(hid_t file, const char *name, char text[NAME_BYTES])
{
    memset(text, 0, NAME_BYTES);
    if (H5Aexists(file, name) <= 0)
        return;
    hid_t attribute = H5Aopen(file, name, H5P_DEFAULT), type = H5Aget_type(attribute);
    if (is_scalar(attribute) && H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) == 0 &&
        H5Tget_size(type) < NAME_BYTES)
        H5Aread(attribute, type, text);
    H5Tclose(type);
    H5Aclose(attribute);
}

static int read_tokenizer(hid_t file, struct token_store *store)
{
    char name[NAME_BYTES];
    read_text(file, "tokenizer", name);
    store->tokenizer = tokenizer_find(name);
    if (store->tokenizer == NULL) {
        snprintf(store->described.name, sizeof store->described.name, "%s", name);
        store->described.vocabulary = store->vocabulary;
        store->tokenizer = tokenizer_member_describe(file, &store->described) ? &store->described : NULL;
    }
    if (store->tokenizer == NULL)
        return error_user("%s: was made with tokenizer \"%s\", which is unknown; known: %s", store->path, name,
                          tokenizer_names());
    if (store->tokenizer->vocabulary != store->vocabulary)
        return not_a_store(store->path, "its vocabulary is not its tokenizer's");
    return ERROR_NONE;
}

/* Finds a contiguous one-dimensional dataset in the mapped file: its data, number of elements, and digest. */
static int locate(hid_t file, struct token_store *store, enum store_column column, hid_t type, int64_t *count,
                  const unsigned char **data)
{
    const char *name = store_columns[column];
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
    store->has_checksum =
        read_attribute(dataset, "xxh3", H5T_NATIVE_UINT64, &store->digests[column]) && store->has_checksum;
    H5Sclose(space);
    H5Dclose(dataset);
    if (!shaped)
        return not_a_store(store->path, "a dataset has another type or layout");
    *data = NULL;
    if (*count == 0)
        return ERROR_NONE;
    if (*count < 0 || *count > store->map->bytes / width || where > (haddr_t)(store->map->bytes - *count * width))
        return error_user("%s: is truncated: /%s should end beyond the file's %lld bytes", store->path, name,
                          (long long)store->map->bytes);
    *data = store->map->data + where;
    return ERROR_NONE;
}

static int check_digests(struct token_store *store)
{
    const int columns = store->label_count > 0 ? STORE_COLUMNS : STORE_LABELS;
    if (store->has_checksum && store->checksum != XXH3_64bits(store->digests, (size_t)columns * sizeof *store->digests))
        return error_user("%s: is damaged: its checksum does not match the hashes of its arrays; prepare it again",
                          store->path);
    if (!store->has_checksum) {
        log_warn("%s: has no checksum, so its content cannot be verified; prepare it again", store->path);
        store->checksum = 0;
    }
    return ERROR_NONE;
}

static hid_t type_of_labels(enum store_label kind)
{
    return kind == STORE_LABEL_TOKEN    ? H5T_NATIVE_INT16
           : kind == STORE_LABEL_NUMBER ? H5T_NATIVE_FLOAT
                                        : H5T_NATIVE_INT32;
}

/* Returns whether there is a name for each class. */
static bool names_classes(const struct token_store *store)
{
    int64_t names = 0;
    for (int64_t i = 0; i < store->class_bytes; i++)
        names += store->classes[i] == '\n';
    return names == store->label_count && store->classes[store->class_bytes - 1] == '\n';
}

static int read_labels(hid_t file, struct token_store *store)
{
    char kind[NAME_BYTES];
    int64_t count;
    const unsigned char *classes;
    read_text(file, "label_kind", kind);
    store->label_count = read_integer(file, "label_count");
    for (int k = 0; k < STORE_LABEL_KINDS; k++)
        if (strcmp(kind, store_labels[k]) == 0)
            store->label_kind = (enum store_label)k;
    if (store->label_kind == STORE_LABEL_NONE || store->label_count < 1 || store->label_count > INT32_MAX)
        return not_a_store(store->path, "its labels are of no known kind");
    int code = locate(file, store, STORE_LABELS, type_of_labels(store->label_kind), &count, &store->labels);
    if (code == ERROR_NONE)
        code = locate(file, store, STORE_CLASSES, H5T_NATIVE_UINT8, &store->class_bytes, &classes);
    if (code != ERROR_NONE)
        return code;
    store->classes = (const char *)classes;
    const int64_t bytes = count * (int64_t)H5Tget_size(type_of_labels(store->label_kind));
    if (bytes != token_store_label_bytes(store->label_kind, store->label_count, store->sequences, store->token_count) ||
        !names_classes(store))
        return error_user("%s: is damaged: it has not one label for each sequence or token; prepare it again",
                          store->path);
    return ERROR_NONE;
}

static int read_layout(hid_t file, struct token_store *store)
{
    int64_t version = read_integer(file, "cistron_store");
    if (version < 0)
        return not_a_store(store->path, "it has no attribute cistron_store");
    if (version != STORE_VERSION && version != STORE_VERSION_LABELS)
        return error_user("%s: is a token store of version %lld, this program reads versions %d and %d; prepare it "
                          "again",
                          store->path, (long long)version, STORE_VERSION, STORE_VERSION_LABELS);
    store->vocabulary = read_integer(file, "vocabulary");
    store->has_checksum = read_attribute(file, "checksum", H5T_NATIVE_UINT64, &store->checksum);
    int code = read_tokenizer(file, store);
    if (code != ERROR_NONE)
        return code;
    store->token_bytes = token_store_token_bytes(store->vocabulary);
    hid_t type = store->token_bytes == 1   ? H5T_NATIVE_UINT8
                 : store->token_bytes == 2 ? H5T_NATIVE_UINT16
                                           : H5T_NATIVE_UINT32;
    int64_t offsets;
    const unsigned char *names;
    if ((code = locate(file, store, STORE_TOKENS, type, &store->token_count, &store->tokens)) != ERROR_NONE ||
        (code = locate(file, store, STORE_OFFSETS, H5T_NATIVE_INT64, &offsets, &store->offsets)) != ERROR_NONE ||
        (code = locate(file, store, STORE_NAMES, H5T_NATIVE_UINT8, &store->name_bytes, &names)) != ERROR_NONE)
        return code;
    store->names = (const char *)names;
    store->sequences = offsets - 1;
    if (offsets < 1 || token_store_offset(store, 0) != 0 ||
        token_store_offset(store, store->sequences) != store->token_count)
        return error_user("%s: is damaged: its offsets do not span its tokens; prepare it again", store->path);
    code = version == STORE_VERSION_LABELS ? read_labels(file, store) : ERROR_NONE;
    return code == ERROR_NONE ? check_digests(store) : code;
}

static int read_file(struct token_store *store)
{
    struct stat status;
    if (stat(store->path, &status) != 0 && errno == ENOENT) /* common with decks that come with the program */
        return error_user("%s: cannot open the token store: %s; cistron prepare makes one for data.train or data.valid",
                          store->path, path_failure(store->path, ENOENT));
    int code = mapping_open(&store->map, store->path, "token store");
    if (code != ERROR_NONE)
        return code;
    struct hdf5_silence silence;
    hid_t file = -1;
    hdf5_silence_begin(&silence);
    if (H5Fis_hdf5(store->path) <= 0)
        code = not_a_store(store->path, "it is not an HDF5 file");
    else if ((code = hdf5_open(&file, store->path)) == ERROR_NONE)
        code = read_layout(file, store);
    if (file >= 0)
        H5Fclose(file);
    hdf5_silence_end(&silence);
    return code;
}

int token_store_open(struct token_store **out, const char *path)
{
    struct token_store *store = memory_allocate(sizeof *store);
    store->path = memory_string(path);
    store->label_kind = STORE_LABEL_NONE;
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
    mapping_close(store->map);
    free(store->path);
    memory_free(store);
}

int token_store_check_offset(const struct token_store *store, int64_t i)
{
    if (i == 0)
        return ERROR_NONE; /* offset 0 was checked when the store was opened */
    const int64_t begin = token_store_offset(store, i - 1), end = token_store_offset(store, i);
    if (begin >= 0 && end >= begin && end <= store->token_count)
        return ERROR_NONE;
    return error_user("%s: is damaged: offset %lld is not between the previous offset and the last; prepare it again",
                      store->path, (long long)i);
}

int token_store_check_offsets(const struct token_store *store)
{
    int code = ERROR_NONE;
    for (int64_t i = 0; i <= store->sequences && code == ERROR_NONE; i++)
        code = token_store_check_offset(store, i);
    return code;
}

static int stopped(const struct token_store *store)
{
    char *message = memory_format(
        "%s: a signal interrupted the verification of its checksum; nothing is lost, start again", store->path);
    int code = error_restate(ERROR_REQUEUE, message);
    free(message);
    return code;
}

static int verify_column(const struct token_store *store, enum store_column column, const void *data, int64_t bytes,
                         struct progress_line *progress)
{
    XXH3_state_t *state = XXH3_createState();
    if (state == NULL)
        error_fatal("out of memory");
    XXH3_64bits_reset(state);
    int code = ERROR_NONE;
    for (int64_t at = 0; at < bytes && code == ERROR_NONE; at += part_bytes) {
        int64_t part = MIN(bytes - at, part_bytes);
        XXH3_64bits_update(state, (const char *)data + at, (size_t)part);
        progress_add(progress, (double)part * 1e-6);
        if (signals_stopping())
            code = stopped(store);
    }
    const uint64_t digest = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    if (code == ERROR_NONE && digest != store->digests[column])
        code = error_user("%s: is damaged: its %s differ from those written (hash %016" PRIx64 ", not %016" PRIx64
                          "); fetch it again or prepare it again",
                          store->path, store_columns[column], digest, store->digests[column]);
    return code;
}

int token_store_verify(const struct token_store *store)
{
    const int64_t token_bytes = store->token_count * store->token_bytes;
    if (!store->has_checksum)
        return error_user("%s: has no checksum, so its content cannot be verified; prepare it again", store->path);
    if (token_bytes > large_bytes)
        log_info("# %s: reading %.0f GB once to verify the checksum", store->path, (double)token_bytes * 1e-9);
    const int64_t offset_bytes = (store->sequences + 1) * (int64_t)sizeof(int64_t);
    const int64_t label_bytes = store->label_count > 0 ? token_store_label_bytes(store->label_kind, store->label_count,
                                                                                 store->sequences, store->token_count)
                                                       : 0;
    const int64_t all = offset_bytes + store->name_bytes + label_bytes + store->class_bytes + token_bytes;
    struct progress_line progress;
    int code = token_store_check_offsets(store);
    progress_start(&progress, "verifying", "MB", (double)all * 1e-6);
    if (code == ERROR_NONE)
        code = verify_column(store, STORE_OFFSETS, store->offsets, offset_bytes, &progress);
    if (code == ERROR_NONE)
        code = verify_column(store, STORE_NAMES, store->names, store->name_bytes, &progress);
    if (code == ERROR_NONE && store->label_count > 0)
        code = verify_column(store, STORE_LABELS, store->labels, label_bytes, &progress);
    if (code == ERROR_NONE && store->label_count > 0)
        code = verify_column(store, STORE_CLASSES, store->classes, store->class_bytes, &progress);
    if (code == ERROR_NONE)
        code = verify_column(store, STORE_TOKENS, store->tokens, token_bytes, &progress);
    progress_end(&progress);
    return code;
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

int32_t token_store_class(const struct token_store *store, int64_t sequence)
{
    int32_t label;
    memcpy(&label, store->labels + sequence * (int64_t)sizeof label, sizeof label);
    return label;
}

void token_store_numbers(const struct token_store *store, int64_t sequence, float *out)
{
    const size_t bytes = (size_t)store->label_count * sizeof *out;
    memcpy(out, store->labels + sequence * (int64_t)bytes, bytes);
}

void token_store_token_classes(const struct token_store *store, int64_t start, int64_t count, int32_t *out)
{
    for (int64_t i = 0; i < count; i++) {
        int16_t label;
        memcpy(&label, store->labels + (start + i) * (int64_t)sizeof label, sizeof label);
        out[i] = label;
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
