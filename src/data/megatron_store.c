#include "data/megatron_store.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/range.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

enum { CHECKED_TOKENS = 1 << 20 };
enum { ENDS_BYTES = 1 << 20 }; /* bytes at the beginning and at the end of PREFIX.bin that are part of the checksum */

const char megatron_magic[MEGATRON_MAGIC] = "MMIDIDX\0";

static const char *const endings[] = {".idx", ".bin"};
enum { ENDINGS = 2, ENDING_BYTES = 4 };

static bool is_file(const char *prefix, const char *ending)
{
    char *path = memory_format("%s%s", prefix, ending);
    struct stat status;
    const bool is = stat(path, &status) == 0 && S_ISREG(status.st_mode);
    free(path);
    return is;
}

char *megatron_prefix(const char *path)
{
    const size_t length = strlen(path);
    for (int i = 0; i < ENDINGS; i++) {
        if (is_file(path, endings[i]))
            return memory_string(path);
        if (length > ENDING_BYTES && strcmp(path + length - ENDING_BYTES, endings[i]) == 0)
            return memory_format("%.*s", (int)length - ENDING_BYTES, path);
    }
    return NULL;
}

static int64_t read_i64(const unsigned char *from)
{
    int64_t value;
    memcpy(&value, from, sizeof value);
    return value;
}

static const unsigned char *starts_of(const struct megatron_store *store)
{
    return store->index->data + MEGATRON_HEADER + 4 * store->sequences;
}

static const unsigned char *documents_of(const struct megatron_store *store)
{
    return starts_of(store) + 8 * store->sequences;
}

int32_t megatron_store_length(const struct megatron_store *store, int64_t i)
{
    int32_t length;
    memcpy(&length, store->index->data + MEGATRON_HEADER + 4 * i, sizeof length);
    return length;
}

int64_t megatron_store_start(const struct megatron_store *store, int64_t i)
{
    return i < store->sequences ? read_i64(starts_of(store) + 8 * i) / store->token_bytes : store->token_count;
}

static int damaged(const struct megatron_store *store, const char *what)
{
    return error_user(
        "%s: is not a valid index of a Megatron data set: %s; create it again, or fetch it again with its .bin",
        store->index->path, what);
}

static int64_t bytes_of(enum megatron_type type)
{
    static const int64_t bytes[] = {[MEGATRON_U8] = 1,  [MEGATRON_I8] = 1,  [MEGATRON_I16] = 2,
                                    [MEGATRON_I32] = 4, [MEGATRON_I64] = 8, [MEGATRON_U16] = 2};
    return type < sizeof bytes / sizeof *bytes ? bytes[type] : 0;
}

static int read_header(struct megatron_store *store)
{
    const unsigned char *data = store->index->data;
    const int64_t bytes = store->index->bytes;
    if (bytes < MEGATRON_HEADER || memcmp(data, megatron_magic, MEGATRON_MAGIC) != 0)
        return damaged(store, "it does not begin with MMIDIDX");
    if (read_i64(data + MEGATRON_VERSION_AT) != MEGATRON_VERSION)
        return damaged(store, "its version is not 1");
    store->type = data[MEGATRON_TYPE_AT];
    store->token_bytes = bytes_of(store->type);
    if (store->token_bytes == 0)
        return damaged(store, "its type is not an integer type (1 to 5, 8)");
    store->sequences = read_i64(data + MEGATRON_SEQUENCES_AT);
    const int64_t entries = read_i64(data + MEGATRON_ENTRIES_AT);
    if (store->sequences < 1 || entries < 1)
        return damaged(store, "it has no sequence, or no table of documents");
    if (store->sequences > bytes / 12 || entries > bytes / 8 ||
        MEGATRON_HEADER + 12 * store->sequences + 8 * entries > bytes)
        return damaged(store, "it is shorter than its tables");
    store->documents = entries - 1;
    return ERROR_NONE;
}

/* Checks that each sequence begins where the previous one ends, and that the last one ends at the end of PREFIX.bin. */
static int check_sequences(struct megatron_store *store)
{
    const unsigned char *starts = starts_of(store);
    int64_t end = 0; /* in bytes */
    for (int64_t i = 0; i < store->sequences; i++) {
        const int32_t length = megatron_store_length(store, i);
        const bool good = length >= 0 && read_i64(starts + 8 * i) == end;
        end += length * store->token_bytes;
        if (!good || end > store->bin->bytes)
            return error_user("%s: is damaged: sequence %lld has %lld tokens and begins at byte %lld, but it should "
                              "begin at byte %lld and end within the %lld bytes of %s",
                              store->index->path, (long long)i, (long long)length, (long long)read_i64(starts + 8 * i),
                              (long long)(end - length * store->token_bytes), (long long)store->bin->bytes,
                              store->bin->path);
    }
    store->token_count = end / store->token_bytes;
    if (end != store->bin->bytes)
        return error_user("%s: has %lld bytes, but the sequences of %s end at %lld; fetch both again", store->bin->path,
                          (long long)store->bin->bytes, store->index->path, (long long)end);
    return ERROR_NONE;
}

static int check_documents(const struct megatron_store *store)
{
    const unsigned char *table = documents_of(store);
    int64_t before = 0;
    for (int64_t i = 0; i <= store->documents; i++) {
        const int64_t first = read_i64(table + 8 * i);
        if ((i == 0 && first != 0) || first < before || first > store->sequences ||
            (i == store->documents && first != store->sequences))
            return error_user("%s: is damaged: document %lld begins with sequence %lld, but documents go from 0 to "
                              "%lld in order",
                              store->index->path, (long long)i, (long long)first, (long long)store->sequences);
        before = first;
    }
    return ERROR_NONE;
}

static uint64_t checksum_of(const struct megatron_store *store)
{
    const struct file_mapping *bin = store->bin;
    const int64_t end = MIN(bin->bytes, ENDS_BYTES);
    const uint64_t parts[] = {XXH3_64bits(store->index->data, (size_t)store->index->bytes), (uint64_t)bin->bytes,
                              XXH3_64bits(bin->data, (size_t)end),
                              XXH3_64bits(bin->data + bin->bytes - end, (size_t)end)};
    return XXH3_64bits(parts, sizeof parts);
}

static int map_file(struct file_mapping **map, const char *prefix, const char *ending, const char *what)
{
    char *path = memory_format("%s%s", prefix, ending);
    int code = mapping_open(map, path, what);
    free(path);
    return code;
}

static int open_files(struct megatron_store *store)
{
    int code = map_file(&store->index, store->prefix, endings[0], "index of a Megatron data set");
    if (code == ERROR_NONE)
        code = read_header(store);
    if (code == ERROR_NONE)
        code = map_file(&store->bin, store->prefix, endings[1], "token file of a Megatron data set");
    if (code == ERROR_NONE)
        code = check_sequences(store);
    if (code == ERROR_NONE)
        code = check_documents(store);
    if (code == ERROR_NONE)
        store->checksum = checksum_of(store);
    return code;
}

int megatron_store_open(struct megatron_store **out, const char *path)
{
    struct megatron_store *store = memory_allocate(sizeof *store);
    store->prefix = megatron_prefix(path);
    int code = store->prefix != NULL ? open_files(store) : error_user("%s: is not a Megatron data set", path);
    if (code != ERROR_NONE) {
        megatron_store_close(store);
        store = NULL;
    }
    *out = store;
    return code;
}

void megatron_store_close(struct megatron_store *store)
{
    if (store == NULL)
        return;
    mapping_close(store->index);
    mapping_close(store->bin);
    free(store->prefix);
    memory_free(store);
}

static int64_t token_at(const struct megatron_store *store, int64_t i)
{
    const unsigned char *from = store->bin->data + i * store->token_bytes;
    uint8_t u8;
    int16_t i16;
    uint16_t u16;
    int32_t i32;
    switch (store->type) {
    case MEGATRON_I64:
        return read_i64(from);
    case MEGATRON_I32:
        memcpy(&i32, from, sizeof i32);
        return i32;
    case MEGATRON_U16:
        memcpy(&u16, from, sizeof u16);
        return u16;
    case MEGATRON_I16:
        memcpy(&i16, from, sizeof i16);
        return i16;
    default:
        memcpy(&u8, from, sizeof u8);
        return store->type == MEGATRON_I8 ? (int8_t)u8 : u8;
    }
}

static const char unfit[] = "%s: token %lld is %lld, but the vocabulary has %lld ids; do model.vocabulary and "
                            "data.tokenizer match the data set?";

static bool fits(int64_t token, int64_t vocabulary)
{
    return token >= 0 && token < vocabulary;
}

int megatron_store_check_tokens(const struct megatron_store *store, int64_t vocabulary)
{
    for (int64_t i = 0; i < store->token_count && i < CHECKED_TOKENS; i++)
        if (!fits(token_at(store, i), vocabulary))
            return error_user(unfit, store->bin->path, (long long)i, (long long)token_at(store, i),
                              (long long)vocabulary);
    return ERROR_NONE;
}

void megatron_store_read(const struct megatron_store *store, int64_t start, int64_t count, int64_t vocabulary,
                         int32_t *out)
{
    for (int64_t i = 0; i < count; i++) {
        const int64_t token = token_at(store, start + i);
        if (!fits(token, vocabulary))
            error_lost(unfit, store->bin->path, (long long)(start + i), (long long)token, (long long)vocabulary);
        out[i] = (int32_t)token;
    }
}
