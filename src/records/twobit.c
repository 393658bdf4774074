#include "records/twobit.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/range.h"
#include "records/source.h"

#include <ctype.h>
#include <string.h>

enum { PIECE = 1 << 18 /* letters, a multiple of 4 */, NAME_BYTES = 256, HEADER_BYTES = 16 };
static const uint32_t MAGIC = 0x1a412743;

struct twobit_block {
    int64_t first, count;
};

/* Blocks of a sequence, in order. */
struct twobit_blocks {
    struct twobit_block *list;
    int64_t count;
};

struct twobit_reader {
    struct record_source *source;
    bool swapped;
    int offset_bytes; /* of a place in the index */
    int64_t file_bytes, sequences, next;
    int64_t index; /* file offset of the next entry of the index */
    char name[NAME_BYTES];
    /* The current sequence. */
    int64_t length, done; /* letters, and those returned */
    int64_t packed;       /* file offset of its letters */
    struct twobit_blocks unknown, masked;
    uint8_t *bytes; /* [PIECE / 4] */
    char *letters;  /* [PIECE] */
};

static int refuse(const struct twobit_reader *r, const char *what)
{
    return error_user("%s: a damaged 2bit file: %s", source_name(r->source), what);
}

static int read_at(const struct twobit_reader *r, void *out, int64_t bytes, int64_t offset)
{
    if (offset < 0 || bytes < 0 || offset > r->file_bytes || bytes > r->file_bytes - offset)
        return refuse(r, "something lies beyond its end");
    return source_read_at(r->source, out, bytes, offset);
}

static uint32_t number_of(const struct twobit_reader *r, const uint8_t *at)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++)
        value |= (uint32_t)at[i] << 8 * (r->swapped ? 3 - i : i);
    return value;
}

static int read_number(const struct twobit_reader *r, int64_t offset, int64_t *number)
{
    uint8_t bytes[4];
    int code = read_at(r, bytes, sizeof bytes, offset);
    *number = code == ERROR_NONE ? number_of(r, bytes) : 0;
    return code;
}

static int create(void **reader, struct record_source *source, const struct record_settings *settings)
{
    (void)settings;
    struct twobit_reader *r = memory_allocate(sizeof *r);
    int64_t magic = 0, version = 0;
    *reader = r;
    r->source = source;
    r->bytes = memory_allocate(PIECE / 4);
    r->letters = memory_allocate(PIECE);
    int code = source_size(source, &r->file_bytes);
    if (code == ERROR_NONE)
        code = read_number(r, 0, &magic);
    r->swapped = magic != MAGIC;
    if (code == ERROR_NONE)
        code = read_number(r, 0, &magic);
    if (code == ERROR_NONE)
        code = read_number(r, 4, &version);
    if (code == ERROR_NONE && (magic != MAGIC || version > 1))
        code = refuse(r, "its version is neither 0 nor 1");
    if (code == ERROR_NONE)
        code = read_number(r, 8, &r->sequences);
    r->offset_bytes = version == 1 ? 8 : 4;
    r->index = HEADER_BYTES;
    return code;
}

static void destroy(void *reader)
{
    struct twobit_reader *r = reader;
    if (r == NULL)
        return;
    memory_free(r->unknown.list);
    memory_free(r->masked.list);
    memory_free(r->bytes);
    memory_free(r->letters);
    memory_free(r);
}

/* Reads the next entry of the index: name and file offset of a sequence. */
static int read_entry(struct twobit_reader *r, int64_t *offset)
{
    uint8_t size, place[8];
    int code = read_at(r, &size, 1, r->index);
    if (code == ERROR_NONE)
        code = read_at(r, r->name, size, r->index + 1);
    if (code == ERROR_NONE)
        code = read_at(r, place, r->offset_bytes, r->index + 1 + size);
    if (code != ERROR_NONE)
        return code;
    r->name[size] = '\0';
    for (int i = 0; i < size; i++)
        if (!isgraph((unsigned char)r->name[i]))
            return refuse(r, "a name has a blank or a control character");
    const uint32_t low = number_of(r, place), high = r->offset_bytes == 8 ? number_of(r, place + 4) : 0;
    *offset = r->offset_bytes == 4 ? (int64_t)low
              : r->swapped         ? (int64_t)((uint64_t)low << 32 | high)
                                   : (int64_t)((uint64_t)high << 32 | low);
    r->index += 1 + size + r->offset_bytes;
    return ERROR_NONE;
}

/* Reads a list of blocks at *at, and moves it behind them. */
static int read_blocks(struct twobit_reader *r, int64_t *at, struct twobit_blocks *blocks)
{
    int64_t count, end = 0;
    int code = read_number(r, *at, &count);
    if (code == ERROR_NONE && count > (r->file_bytes - *at) / 8)
        code = refuse(r, "something lies beyond its end");
    if (code != ERROR_NONE)
        return code;
    memory_free(blocks->list);
    blocks->list = memory_allocate(count * (int64_t)sizeof *blocks->list);
    blocks->count = count;
    uint8_t *numbers = memory_allocate(8 * count);
    code = read_at(r, numbers, 8 * count, *at + 4);
    for (int64_t i = 0; i < count && code == ERROR_NONE; i++) {
        struct twobit_block *block = &blocks->list[i];
        *block = (struct twobit_block){number_of(r, numbers + 4 * i), number_of(r, numbers + 4 * (count + i))};
        if (block->first < end || block->first + block->count > r->length)
            code = refuse(r, "blocks of a sequence are out of order, or beyond its end");
        end = block->first + block->count;
    }
    memory_free(numbers);
    *at += 4 + 8 * count;
    return code;
}

static int start_sequence(struct twobit_reader *r)
{
    int64_t at = 0;
    r->next++;
    r->done = r->length = 0;
    int code = read_entry(r, &at);
    if (code == ERROR_NONE)
        code = read_number(r, at, &r->length);
    at += 4;
    if (code == ERROR_NONE)
        code = read_blocks(r, &at, &r->unknown);
    if (code == ERROR_NONE)
        code = read_blocks(r, &at, &r->masked);
    r->packed = at + 4; /* after a reserved number */
    return code;
}

/* Changes letters first .. first + count - 1 of the sequence, which are in r->letters, where they are in blocks. */
static void apply(struct twobit_reader *r, const struct twobit_blocks *blocks, int64_t first, int64_t count,
                  bool unknown)
{
    int64_t low = 0, high = blocks->count;
    while (low < high) { /* the first block that ends after `first` */
        const int64_t middle = (low + high) / 2;
        const bool before = blocks->list[middle].first + blocks->list[middle].count <= first;
        low = before ? middle + 1 : low;
        high = before ? high : middle;
    }
    for (; low < blocks->count && blocks->list[low].first < first + count; low++) {
        const struct twobit_block *block = &blocks->list[low];
        const int64_t end = MIN(block->first + block->count, first + count);
        for (int64_t i = MAX(block->first, first); i < end; i++)
            r->letters[i - first] = unknown ? 'N' : (char)tolower((unsigned char)r->letters[i - first]);
    }
}

static int read_piece(struct twobit_reader *r, struct record_piece *piece)
{
    const int64_t first = r->done, count = MIN(r->length - first, PIECE);
    int code = read_at(r, r->bytes, (count + 3) / 4, r->packed + first / 4);
    if (code != ERROR_NONE)
        return code;
    for (int64_t i = 0; i < count; i++)
        r->letters[i] = "TCAG"[r->bytes[i / 4] >> (6 - 2 * (i % 4)) & 3];
    apply(r, &r->unknown, first, count, true);
    apply(r, &r->masked, first, count, false);
    r->done += count;
    *piece = (struct record_piece){RECORD_SEQUENCE, r->letters, count};
    return ERROR_NONE;
}

static int next(void *reader, struct record_piece *piece)
{
    struct twobit_reader *r = reader;
    if (r->done < r->length)
        return read_piece(r, piece);
    if (r->next == r->sequences) {
        *piece = (struct record_piece){.kind = RECORD_END};
        return source_pass(r->source, r->file_bytes);
    }
    int code = start_sequence(r);
    *piece = (struct record_piece){RECORD_NAME, r->name, (int64_t)strlen(r->name)};
    return code;
}

const struct record_class twobit_class = {"2bit", create, next, destroy, false};

bool twobit_begins(const uint8_t *head, int64_t bytes)
{
    return bytes >= 4 && (memcmp(head, "\x43\x27\x41\x1a", 4) == 0 || memcmp(head, "\x1a\x41\x27\x43", 4) == 0);
}
