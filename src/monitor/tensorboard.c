#include "monitor/tensorboard.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "file/open.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PREFIX "events.out.tfevents."

static const uint32_t crc_polynomial = 0x82F63B78, crc_mask = 0xA282EAD8;
enum { HEAD_BYTES = 12, TAIL_BYTES = 4, LARGEST_RECORD = 1 << 20 };

/* Fields of event.proto and summary.proto, and wire types of fields. */
enum { EVENT_TIME = 1, EVENT_STEP = 2, EVENT_VERSION = 3, EVENT_SUMMARY = 5, EVENT_SESSION = 7 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_SIMPLE = 2, VALUE_TENSOR = 8, VALUE_METADATA = 9 };
enum { SESSION_STATUS = 1, SESSION_START = 1 };
enum { TENSOR_DTYPE = 1, TENSOR_SHAPE = 2, TENSOR_STRINGS = 8, DTYPE_STRING = 7 }; /* tensor.proto, types.proto */
enum { METADATA_PLUGIN = 1, METADATA_CLASS = 4, PLUGIN_NAME = 1, CLASS_TENSOR = 2 };
enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

/* -- Checksums --------------------------------------------------------------------------------------------------- */

uint32_t tensorboard_crc(const void *data, int64_t bytes)
{
    static uint32_t table[256];
    if (table[1] == 0)
        for (uint32_t i = 0; i < 256; i++) {
            table[i] = i;
            for (int bit = 0; bit < 8; bit++)
                table[i] = table[i] >> 1 ^ ((table[i] & 1) != 0 ? crc_polynomial : 0);
        }
    const unsigned char *at = data;
    uint32_t crc = UINT32_MAX;
    for (int64_t i = 0; i < bytes; i++)
        crc = crc >> 8 ^ table[(crc ^ at[i]) & 0xFF];
    return ~crc;
}

uint32_t tensorboard_masked_crc(const void *data, int64_t bytes)
{
    uint32_t crc = tensorboard_crc(data, bytes);
    return (crc >> 15 | crc << 17) + crc_mask;
}

/* -- Messages ---------------------------------------------------------------------------------------------------- */

struct message {
    unsigned char *data;
    int64_t bytes, capacity;
};

static void put_bytes(struct message *m, const void *data, int64_t bytes)
{
    if (bytes == 0)
        return;
    if (m->bytes + bytes > m->capacity) {
        m->capacity = 2 * (m->bytes + bytes);
        m->data = memory_grow(m->data, m->capacity);
    }
    memcpy(m->data + m->bytes, data, (size_t)bytes);
    m->bytes += bytes;
}

static void put_little_endian(struct message *m, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        put_bytes(m, &(unsigned char){(unsigned char)(value >> 8 * i)}, 1);
}

static void put_varint(struct message *m, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        put_little_endian(m, (value & 0x7F) | 0x80, 1);
    put_little_endian(m, value, 1);
}

static void put_key(struct message *m, int field, int wire)
{
    put_varint(m, (uint64_t)(field << 3 | wire));
}

static void put_field(struct message *m, int field, const void *data, int64_t bytes)
{
    put_key(m, field, WIRE_BYTES);
    put_varint(m, (uint64_t)bytes);
    put_bytes(m, data, bytes);
}

static void put_now(struct message *m)
{
    double seconds = clock_of_day();
    uint64_t bits;
    memcpy(&bits, &seconds, sizeof bits);
    put_key(m, EVENT_TIME, WIRE_64);
    put_little_endian(m, bits, 8);
}

static void put_step(struct message *m, int64_t step)
{
    put_key(m, EVENT_STEP, WIRE_VARINT);
    put_varint(m, (uint64_t)step);
}

static void put_scalar(struct message *summary, const struct tensorboard_scalar *scalar)
{
    struct message value = {0};
    float number = (float)scalar->value;
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    put_field(&value, VALUE_TAG, scalar->tag, (int64_t)strlen(scalar->tag));
    put_key(&value, VALUE_SIMPLE, WIRE_32);
    put_little_endian(&value, bits, 4);
    put_field(summary, SUMMARY_VALUE, value.data, value.bytes);
    free(value.data);
}

/* Adds a scalar tensor of one string, marked for the plugin that shows texts. */
static void put_text(struct message *summary, const char *tag, const char *text)
{
    struct message value = {0}, tensor = {0}, metadata = {0}, plugin = {0};
    put_key(&tensor, TENSOR_DTYPE, WIRE_VARINT);
    put_varint(&tensor, DTYPE_STRING);
    put_field(&tensor, TENSOR_SHAPE, "", 0);
    put_field(&tensor, TENSOR_STRINGS, text, (int64_t)strlen(text));
    put_field(&plugin, PLUGIN_NAME, "text", 4);
    put_field(&metadata, METADATA_PLUGIN, plugin.data, plugin.bytes);
    put_key(&metadata, METADATA_CLASS, WIRE_VARINT);
    put_varint(&metadata, CLASS_TENSOR);
    put_field(&value, VALUE_TAG, tag, (int64_t)strlen(tag));
    put_field(&value, VALUE_TENSOR, tensor.data, tensor.bytes);
    put_field(&value, VALUE_METADATA, metadata.data, metadata.bytes);
    put_field(summary, SUMMARY_VALUE, value.data, value.bytes);
    free(value.data);
    free(tensor.data);
    free(metadata.data);
    free(plugin.data);
}

/* Writes a record with one write(), so that a kill leaves all or nothing of it. Frees the event. */
static bool write_record(struct tensorboard *board, struct message *event)
{
    struct message record = {0};
    put_little_endian(&record, (uint64_t)event->bytes, 8);
    put_little_endian(&record, tensorboard_masked_crc(record.data, 8), 4);
    put_bytes(&record, event->data, event->bytes);
    put_little_endian(&record, tensorboard_masked_crc(event->data, event->bytes), 4);
    ssize_t written;
    do
        written = write(board->descriptor, record.data, (size_t)record.bytes);
    while (written < 0 && errno == EINTR);
    bool whole = written == record.bytes;
    if (written >= 0 && !whole)
        errno = ENOSPC;
    free(record.data);
    free(event->data);
    return whole;
}

/* -- A new file -------------------------------------------------------------------------------------------------- */

static bool is_event_file(const char *name)
{
    return strncmp(name, PREFIX, strlen(PREFIX)) == 0;
}

/* Returns the second for a new file's name. TensorBoard reads files in the order of names, which begin with a second:
 * the new one sorts after all others, even if two programs start in one second or the clock was set back. */
static long long next_second(const char *folder)
{
    long long second = (long long)time(NULL);
    DIR *dir = opendir(folder);
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry != NULL; entry = readdir(dir))
        if (is_event_file(entry->d_name)) {
            long long existing = atoll(entry->d_name + strlen(PREFIX));
            second = existing >= second ? existing + 1 : second;
        }
    if (dir != NULL)
        closedir(dir);
    return second;
}

/* The files of a linked folder may belong to somebody else. */
static int refuse_link(const char *folder)
{
    struct stat status;
    if (lstat(folder, &status) != 0 || !S_ISLNK(status.st_mode))
        return ERROR_NONE;
    return error_environment("%s: is a symbolic link, which is not followed", folder);
}

int tensorboard_open(struct tensorboard *board, const char *folder, int64_t step)
{
    *board = (struct tensorboard){NULL};
    int linked = refuse_link(folder);
    if (linked != ERROR_NONE)
        return linked;
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return error_environment("%s: cannot create the folder: %s", folder, strerror(errno));
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    board->path = memory_format("%s/" PREFIX "%010lld.%s.%ld.0", folder, next_second(folder), host, (long)getpid());
    board->descriptor = open(board->path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
    if (board->descriptor < 0) {
        int code = error_environment("%s: cannot create it: %s", board->path, strerror(errno));
        free(board->path);
        board->path = NULL;
        return code;
    }

    struct message version = {0};
    put_now(&version);
    put_field(&version, EVENT_VERSION, "brain.Event:2", (int64_t)strlen("brain.Event:2"));
    bool written = write_record(board, &version);
    if (written && step > 0) {
        struct message start = {0}, session = {0};
        put_key(&session, SESSION_STATUS, WIRE_VARINT);
        put_varint(&session, SESSION_START);
        put_now(&start);
        put_step(&start, step + 1); /* points from this step on are dropped */
        put_field(&start, EVENT_SESSION, session.data, session.bytes);
        free(session.data);
        written = write_record(board, &start);
    }
    return written ? ERROR_NONE : error_environment("%s: cannot write it: %s", board->path, strerror(errno));
}

void tensorboard_close(struct tensorboard *board)
{
    if (board->path != NULL)
        close(board->descriptor);
    free(board->path);
    board->path = NULL;
}

/* Frees the summary. */
static void write_summary(struct tensorboard *board, int64_t step, struct message *summary)
{
    struct message event = {0};
    put_now(&event);
    put_step(&event, step);
    put_field(&event, EVENT_SUMMARY, summary->data, summary->bytes);
    free(summary->data);
    if (write_record(board, &event))
        return;
    /* readers cannot find records after a partly written one */
    log_warn("%s: cannot write it: %s; the run continues without event files until its next start", board->path,
             strerror(errno));
    tensorboard_close(board);
}

void tensorboard_write(struct tensorboard *board, int64_t step, const struct tensorboard_scalar *scalars, int count)
{
    if (board->path == NULL)
        return;
    struct message summary = {0};
    for (int i = 0; i < count; i++)
        put_scalar(&summary, &scalars[i]);
    write_summary(board, step, &summary);
}

void tensorboard_write_text(struct tensorboard *board, int64_t step, const char *tag, const char *text)
{
    if (board->path == NULL)
        return;
    struct message summary = {0};
    put_text(&summary, tag, text);
    write_summary(board, step, &summary);
}

/* -- Truncating -------------------------------------------------------------------------------------------------- */

static uint64_t little_endian(const unsigned char *at, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << 8 * i;
    return value;
}

static bool get_varint(const unsigned char **at, const unsigned char *end, uint64_t *value)
{
    *value = 0;
    for (int shift = 0; shift < 64 && *at < end; shift += 7) {
        unsigned char byte = *(*at)++;
        *value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

/* Reads the step of an event, 0 if it has none. Returns false if the bytes are not an event. */
static bool event_step(const unsigned char *at, int64_t bytes, int64_t *step)
{
    const unsigned char *end = at + bytes;
    uint64_t key, value;
    *step = 0;
    while (at < end) {
        if (!get_varint(&at, end, &key))
            return false;
        int64_t skip = 0;
        int wire = (int)(key & 7);
        if (wire == WIRE_VARINT || wire == WIRE_BYTES) {
            if (!get_varint(&at, end, &value))
                return false;
            if (wire == WIRE_BYTES)
                skip = value > (uint64_t)bytes ? bytes + 1 : (int64_t)value;
            else if (key >> 3 == EVENT_STEP)
                *step = (int64_t)value;
        } else if (wire == WIRE_64 || wire == WIRE_32) {
            skip = wire == WIRE_64 ? 8 : 4;
        } else {
            return false;
        }
        if (skip > end - at)
            return false;
        at += skip;
    }
    return true;
}

/* Reads the next record's event into `data` (LARGEST_RECORD bytes). Returns false at the end or at a damaged record. */
static bool read_record(FILE *file, unsigned char *data, int64_t *bytes)
{
    unsigned char head[HEAD_BYTES], tail[TAIL_BYTES];
    if (fread(head, 1, sizeof head, file) != sizeof head ||
        little_endian(head + 8, 4) != tensorboard_masked_crc(head, 8))
        return false;
    uint64_t length = little_endian(head, 8);
    if (length > LARGEST_RECORD || fread(data, 1, (size_t)length, file) != length)
        return false;
    *bytes = (int64_t)length;
    return fread(tail, 1, sizeof tail, file) == sizeof tail &&
           little_endian(tail, 4) == tensorboard_masked_crc(data, *bytes);
}

static int truncate_file(const char *path, int64_t step)
{
    struct stat status;
    if (lstat(path, &status) == 0 && (S_ISLNK(status.st_mode) || status.st_nlink > 1))
        return error_environment("%s: is a link, so records after step %lld are not removed", path, (long long)step);
    FILE *file = open_stream(path);
    if (file == NULL)
        return error_environment("%s: cannot open it: %s", path, open_failure());
    unsigned char *data = memory_allocate(LARGEST_RECORD);
    off_t kept = 0;
    int64_t bytes, at;
    bool holds_steps = false;
    while (read_record(file, data, &bytes) && event_step(data, bytes, &at) && at <= step) {
        kept = ftello(file);
        holds_steps = holds_steps || at > 0;
    }
    memory_free(data);
    bool unreadable = ferror(file) != 0;
    fclose(file);
    if (unreadable)
        return error_environment("%s: cannot read it", path);
    if (holds_steps ? truncate(path, kept) != 0 : unlink(path) != 0)
        return error_environment("%s: cannot truncate it at step %lld: %s", path, (long long)step, strerror(errno));
    return ERROR_NONE;
}

int tensorboard_truncate(const char *folder, int64_t step)
{
    int code = refuse_link(folder);
    DIR *dir = code == ERROR_NONE ? opendir(folder) : NULL;
    if (code != ERROR_NONE)
        return code;
    if (dir == NULL)
        return errno == ENOENT ? ERROR_NONE : error_environment("%s: cannot open it: %s", folder, strerror(errno));
    for (struct dirent *entry = readdir(dir); entry != NULL && code == ERROR_NONE; entry = readdir(dir))
        if (is_event_file(entry->d_name)) {
            char *path = memory_format("%s/%s", folder, entry->d_name);
            code = truncate_file(path, step);
            free(path);
        }
    closedir(dir);
    return code;
}
