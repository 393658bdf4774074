#include "file/block.h"
#include "file/disk.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/range.h"
#include "file/open.h"
#include "file/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
/* xxhash is the fastest hash that every distribution packages; a checkpoint is hashed while it is written. */
#include <xxhash.h>

enum {
    READ_BYTES = 512 << 10, /* small enough to be hashed from a core's cache */
    END_LINE_BYTES = 21     /* "end ", 16 digits, a newline */
};

void block_list_add(struct block_list *list, struct hash_block block)
{
    if (list->count == list->capacity) {
        list->capacity = list->capacity == 0 ? 64 : 2 * list->capacity;
        list->blocks = memory_grow(list->blocks, list->capacity * (int64_t)sizeof *list->blocks);
    }
    list->blocks[list->count++] = block;
}

void block_list_destroy(struct block_list *list)
{
    free(list->blocks);
    *list = (struct block_list){NULL, 0, 0};
}

int block_hash_range(int descriptor, const char *path, int64_t offset, int64_t length, uint64_t *hash)
{
    XXH3_state_t *state = XXH3_createState();
    char *buffer = memory_allocate(MIN(length, READ_BYTES));
    int code = ERROR_NONE;
    if (state == NULL)
        error_fatal("out of memory for a hash");
    XXH3_64bits_reset(state);
    for (int64_t done = 0; done < length && code == ERROR_NONE;) {
        int64_t bytes = MIN(length - done, READ_BYTES);
        code = file_read(descriptor, path, buffer, bytes, offset + done);
        if (code == ERROR_NONE)
            XXH3_64bits_update(state, buffer, (size_t)bytes);
        done += bytes;
    }
    *hash = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    memory_free(buffer);
    return code;
}

static const char head[] = "cistron-blocks ", mark[] = " t";

static int by_offset(const void *a, const void *b)
{
    const struct hash_block *x = a, *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

void block_list_sort(struct block_list *list)
{
    if (list->count > 0)
        qsort(list->blocks, (size_t)list->count, sizeof *list->blocks, by_offset);
}

int block_list_complete(struct block_list *list, int descriptor, const char *path, int64_t bytes)
{
    block_list_sort(list);
    const int64_t written = list->count;
    int64_t covered = 0;
    for (int64_t i = 0; i <= written; i++) {
        int64_t next = i < written ? list->blocks[i].offset : bytes;
        if (next > covered) {
            uint64_t hash;
            int code = block_hash_range(descriptor, path, covered, next - covered, &hash);
            if (code != ERROR_NONE)
                return code;
            block_list_add(list, (struct hash_block){covered, next - covered, hash, false});
        }
        if (i < written)
            covered = next + list->blocks[i].length;
    }
    block_list_sort(list);
    return ERROR_NONE;
}

int block_list_write(const struct block_list *list, const char *path, int64_t bytes)
{
    char *text = NULL;
    size_t length = 0;
    FILE *memory = memory_stream(&text, &length);
    fprintf(memory, "%s2 %" PRId64 "\n", head, bytes);
    for (int64_t i = 0; i < list->count; i++)
        fprintf(memory, "%" PRId64 " %" PRId64 " %016" PRIx64 "%s\n", list->blocks[i].offset, list->blocks[i].length,
                list->blocks[i].hash, list->blocks[i].tensor ? mark : "");
    fflush(memory);
    fprintf(memory, "end %016" PRIx64 "\n", (uint64_t)XXH3_64bits(text, length));
    memory_stream_end(memory);
    int code;
    int descriptor = open_new(path);
    if (descriptor < 0)
        code = error_environment("%s: cannot create it: %s", path, open_failure());
    else
        code = file_finish(descriptor, path, file_write(descriptor, path, text, (int64_t)length, 0));
    free(text);
    return code;
}

static int damaged(const char *path, const char *what)
{
    return error_user("%s: is damaged (%s)", path, what);
}

/* The last line must be the hash of all lines before it; `last` is where it starts. */
static int check_end(const char *path, const char *text, int64_t length, const char **last)
{
    char wanted[END_LINE_BYTES + 1];
    *last = text + length - END_LINE_BYTES;
    if (length < END_LINE_BYTES)
        return damaged(path, "its end is missing");
    snprintf(wanted, sizeof wanted, "end %016" PRIx64 "\n", (uint64_t)XXH3_64bits(text, (size_t)(*last - text)));
    if (memcmp(*last, wanted, END_LINE_BYTES) != 0)
        return damaged(path, "its own hash does not match, or its end is missing");
    return ERROR_NONE;
}

/* Consumes a number and the character `ending`; false if they are not there. */
static bool parse_number(const char **text, int base, char ending, int64_t *value)
{
    char *stop;
    errno = 0;
    *value = (int64_t)strtoull(*text, &stop, base);
    bool good = stop != *text && *stop == ending && errno == 0;
    *text = stop + good;
    return good;
}

/* Consumes 16 hexadecimal digits; false if they are not there. */
static bool parse_hash(const char **text, int64_t *value)
{
    char *stop;
    *value = (int64_t)strtoull(*text, &stop, 16);
    const bool good = stop - *text == 16;
    *text = stop;
    return good;
}

/* Consumes `wanted`; false if it is not there. */
static bool skip_text(const char **text, const char *wanted)
{
    const bool there = strncmp(*text, wanted, strlen(wanted)) == 0;
    *text += there ? strlen(wanted) : 0;
    return there;
}

static int parse(struct block_list *list, const char *path, const char *text, int64_t length, int64_t *bytes)
{
    const char *last;
    int code = check_end(path, text, length, &last);
    if (code != ERROR_NONE)
        return code;
    const char *line = text;
    if (!skip_text(&line, head) || (!skip_text(&line, "1 ") && !skip_text(&line, "2 ")) ||
        !parse_number(&line, 10, '\n', bytes))
        return error_user("%s: is not a side file (hashes of a checkpoint) that this program can read", path);
    int64_t covered = 0;
    while (line < last) {
        int64_t offset, hash;
        bool good =
            parse_number(&line, 10, ' ', &offset) && parse_number(&line, 10, ' ', &length) && parse_hash(&line, &hash);
        const bool tensor = good && skip_text(&line, mark);
        good = good && skip_text(&line, "\n");
        if (!good || offset != covered || length <= 0 || length > *bytes - covered)
            return damaged(path, "its blocks are not consecutive");
        covered += length;
        block_list_add(list, (struct hash_block){offset, length, (uint64_t)hash, tensor});
    }
    if (covered != *bytes)
        return damaged(path, "its blocks do not cover the file");
    return ERROR_NONE;
}

int block_list_read(struct block_list *list, const char *path, int64_t *bytes)
{
    int descriptor = open_file(path);
    if (descriptor < 0)
        return error_environment("%s: cannot open it: %s", path, open_failure());
    const int64_t length = open_size(descriptor);
    char *text = NULL;
    int code = ERROR_NONE;
    if (length > BLOCK_SIDE_BYTES) {
        code =
            error_user("%s: is not a side file (hashes of a checkpoint): it has %lld bytes, but at most %d are allowed",
                       path, (long long)length, BLOCK_SIDE_BYTES);
    } else {
        text = memory_allocate(length + 1); /* zero-filled: ends with a NUL */
        code = file_read(descriptor, path, text, length, 0);
    }
    close(descriptor);
    if (code == ERROR_NONE)
        code = parse(list, path, text, length, bytes);
    memory_free(text);
    return code;
}

char *block_side_path(const char *path)
{
    return memory_format("%s" BLOCK_SIDE, path);
}

int block_check_output(const char *path, int how, const char *const inputs[], int64_t count)
{
    int code = disk_check_output(path, how | DISK_REPLACE, inputs, count);
    char *side = block_side_path(path);
    if (code == ERROR_NONE && access(path, F_OK) == 0 && access(side, F_OK) == 0)
        code = error_user("%s: is a checkpoint (%s has its hashes); choose another output", path, side);
    free(side);
    return code == ERROR_NONE ? disk_check_output(path, how, inputs, count) : code;
}
