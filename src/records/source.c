#include "records/source.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/range.h"
#include "file/path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#include <zlib.h>
#include <zstd.h>

enum { RAW_BYTES = 1 << 18, ZSTD_WINDOW_LOG = 31 /* as written by `zstd --long=31` */ };

enum source_kind { SOURCE_PLAIN, SOURCE_GZIP, SOURCE_ZSTD };

struct record_source {
    char *name;
    int file;
    enum source_kind kind;
    uint8_t *raw; /* [RAW_BYTES]; begin .. end - 1 is not consumed yet */
    int64_t begin, end;
    int64_t raw_bytes;
    XXH3_state_t *hash;
    z_stream inflater;
    ZSTD_DCtx *zstd;
    bool inside;               /* inside a gzip member or a zstd frame */
    uint8_t head[SOURCE_HEAD]; /* first decompressed bytes; head_begin .. head_end - 1 are not consumed yet */
    int64_t head_begin, head_end;
};

/* Reads until `wanted` raw bytes are in the buffer or the file ends. */
static int fill(struct record_source *source, int64_t wanted)
{
    if (source->begin == source->end)
        source->begin = source->end = 0;
    while (source->end - source->begin < wanted) {
        ssize_t count = read(source->file, source->raw + source->end, (size_t)(RAW_BYTES - source->end));
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return error_environment("%s: cannot read: %s", source->name, strerror(errno));
        if (count == 0)
            break;
        XXH3_64bits_update(source->hash, source->raw + source->end, (size_t)count);
        source->end += count;
        source->raw_bytes += count;
    }
    return ERROR_NONE;
}

/* Returns whether a zstd frame begins, or a skippable frame, which pzstd writes before each frame. */
static bool begins_zstd(const uint8_t *head)
{
    return memcmp(head, "\x28\xb5\x2f\xfd", 4) == 0 ||
           ((head[0] & 0xf0) == 0x50 && memcmp(head + 1, "\x2a\x4d\x18", 3) == 0);
}

static int detect(struct record_source *source)
{
    int code = fill(source, 4);
    if (code != ERROR_NONE)
        return code;
    int64_t count = source->end;
    const uint8_t *head = source->raw;
    if (count >= 2 && head[0] == 0x1f && head[1] == 0x8b) {
        source->kind = SOURCE_GZIP;
        if (inflateInit2(&source->inflater, 15 + 16) != Z_OK)
            error_fatal("zlib cannot start");
    } else if (count >= 4 && begins_zstd(head)) {
        source->kind = SOURCE_ZSTD;
        source->zstd = ZSTD_createDCtx();
        if (source->zstd == NULL)
            error_fatal("zstd cannot start");
        ZSTD_DCtx_setParameter(source->zstd, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG);
    }
    return ERROR_NONE;
}

int source_open(struct record_source **out, const char *path)
{
    bool standard = strcmp(path, "-") == 0;
    int file = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    *out = NULL;
    if (file < 0)
        return error_user("%s: cannot open: %s", path, path_failure(path, errno));
    if (fstat(file, &status) == 0 && S_ISDIR(status.st_mode)) {
        if (!standard)
            close(file);
        return error_user("%s: is a folder; name the files in it", path);
    }
    struct record_source *source = memory_allocate(sizeof *source);
    source->name = memory_string(standard ? "<stdin>" : path);
    source->file = file;
    source->raw = memory_allocate(RAW_BYTES);
    source->hash = XXH3_createState();
    if (source->hash == NULL)
        error_fatal("out of memory");
    XXH3_64bits_reset(source->hash);
    int code = detect(source);
    if (code != ERROR_NONE) {
        source_close(source);
        return code;
    }
    *out = source;
    return ERROR_NONE;
}

static int truncated(const struct record_source *source)
{
    return error_user("%s: the compressed file is truncated after %lld bytes; fetch it again", source->name,
                      (long long)source->raw_bytes);
}

static int damaged(const struct record_source *source, const char *what)
{
    return error_user("%s: damaged %s data near byte %lld: %s", source->name,
                      source->kind == SOURCE_GZIP ? "gzip" : "zstd",
                      (long long)(source->raw_bytes - (source->end - source->begin)), what);
}

static int read_gzip(struct record_source *source, uint8_t *buffer, int64_t capacity, int64_t *got)
{
    z_stream *inflater = &source->inflater;
    if (!source->inside && source->raw_bytes > source->end - source->begin) {
        /* next member, if any; gzip files may be padded with zeros */
        while (source->begin < source->end && source->raw[source->begin] == 0)
            source->begin++;
        if (source->begin == source->end)
            return ERROR_NONE;
        inflateReset(inflater);
    }
    inflater->next_in = source->raw + source->begin;
    inflater->avail_in = (uInt)(source->end - source->begin);
    inflater->next_out = buffer;
    inflater->avail_out = (uInt)capacity;
    int result = inflate(inflater, Z_NO_FLUSH);
    source->begin = source->end - inflater->avail_in;
    source->inside = result != Z_STREAM_END;
    *got = capacity - inflater->avail_out;
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
        return damaged(source, inflater->msg != NULL ? inflater->msg : "inflate failed");
    return ERROR_NONE;
}

static int read_zstd(struct record_source *source, uint8_t *buffer, int64_t capacity, int64_t *got)
{
    ZSTD_inBuffer in = {source->raw, (size_t)source->end, (size_t)source->begin};
    ZSTD_outBuffer out = {buffer, (size_t)capacity, 0};
    size_t result = ZSTD_decompressStream(source->zstd, &out, &in);
    source->begin = (int64_t)in.pos;
    *got = (int64_t)out.pos;
    if (ZSTD_isError(result))
        return damaged(source, ZSTD_getErrorName(result));
    source->inside = result != 0;
    return ERROR_NONE;
}

/* source_read after the head. */
static int read_plain(struct record_source *source, uint8_t *buffer, int64_t capacity, int64_t *got)
{
    if (capacity > 1 << 30)
        capacity = 1 << 30; /* zlib counts in 32 bits */
    for (*got = 0; *got == 0;) {
        int code = fill(source, 1);
        if (code != ERROR_NONE)
            return code;
        bool end = source->begin == source->end;
        if (end && !source->inside)
            return ERROR_NONE;
        if (source->kind == SOURCE_PLAIN) {
            *got = MIN(source->end - source->begin, capacity);
            memcpy(buffer, source->raw + source->begin, (size_t)*got);
            source->begin += *got;
        } else if (source->kind == SOURCE_GZIP) {
            code = read_gzip(source, buffer, capacity, got);
        } else {
            code = read_zstd(source, buffer, capacity, got);
        }
        if (code != ERROR_NONE)
            return code;
        if (end && *got == 0 && source->inside)
            return truncated(source);
    }
    return ERROR_NONE;
}

int source_read(struct record_source *source, void *buffer, int64_t capacity, int64_t *got)
{
    *got = source->head_end - source->head_begin;
    if (*got == 0)
        return read_plain(source, buffer, capacity, got);
    if (*got > capacity)
        *got = capacity;
    memcpy(buffer, source->head + source->head_begin, (size_t)*got);
    source->head_begin += *got;
    return ERROR_NONE;
}

int source_head(struct record_source *source, const uint8_t **head, int64_t *bytes)
{
    int64_t got = 1;
    int code = ERROR_NONE;
    while (code == ERROR_NONE && got > 0 && source->head_end < SOURCE_HEAD) {
        code = read_plain(source, source->head + source->head_end, SOURCE_HEAD - source->head_end, &got);
        source->head_end += got;
    }
    *head = source->head + source->head_begin;
    *bytes = source->head_end - source->head_begin;
    return code;
}

void source_skip(struct record_source *source, int64_t bytes)
{
    source->head_begin += bytes;
}

int source_size(const struct record_source *source, int64_t *bytes)
{
    struct stat status;
    *bytes = 0;
    if (source->file == STDIN_FILENO || fstat(source->file, &status) != 0 || !S_ISREG(status.st_mode))
        return error_user("%s: a file of this format is read from its end: give its path, not a pipe", source->name);
    if (source->kind != SOURCE_PLAIN)
        return error_user("%s: a file of this format is read from its end: decompress it first", source->name);
    *bytes = status.st_size;
    return ERROR_NONE;
}

int source_read_at(const struct record_source *source, void *buffer, int64_t bytes, int64_t offset)
{
    for (int64_t done = 0; done < bytes;) {
        ssize_t count = pread(source->file, (char *)buffer + done, (size_t)(bytes - done), offset + done);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return error_environment("%s: cannot read: %s", source->name, strerror(errno));
        if (count == 0)
            return error_user("%s: became shorter while it was read", source->name);
        done += count;
    }
    return ERROR_NONE;
}

int source_pass(struct record_source *source, int64_t offset)
{
    int code = ERROR_NONE;
    int64_t before = -1;
    while (code == ERROR_NONE && source->raw_bytes < offset && source->raw_bytes > before) {
        before = source->raw_bytes;
        source->begin = source->end = 0; /* their content is not needed here */
        code = fill(source, 1);
    }
    return code;
}

int64_t source_raw_bytes(const struct record_source *source)
{
    return source->raw_bytes;
}

uint64_t source_checksum(const struct record_source *source)
{
    return XXH3_64bits_digest(source->hash);
}

const char *source_name(const struct record_source *source)
{
    return source->name;
}

void source_close(struct record_source *source)
{
    if (source == NULL)
        return;
    if (source->kind == SOURCE_GZIP)
        inflateEnd(&source->inflater);
    ZSTD_freeDCtx(source->zstd);
    XXH3_freeState(source->hash);
    if (source->file != STDIN_FILENO)
        close(source->file);
    memory_free(source->raw);
    free(source->name);
    memory_free(source);
}
