#include "data/windows.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER_ENTRIES = 1 << 16 };

static const char magic[8] = "CISTWIN1";

/* Tokens that one window takes of what is cut, and how many tokens of a sequence there are to cut. */
static int64_t capacity(const struct windows_layout *layout)
{
    return layout->cut == WINDOWS_ENDS ? layout->window : layout->window - 2;
}

static int64_t cuttable(const struct windows_layout *layout, int64_t length)
{
    if (layout->cut == WINDOWS_FIRST)
        return length < capacity(layout) ? length : capacity(layout);
    return layout->cut == WINDOWS_ENDS ? length + 2 : length;
}

int64_t windows_count(const struct windows_layout *layout, int64_t length)
{
    int64_t room = capacity(layout), step = room - layout->overlap, rest = cuttable(layout, length) - room;
    if (length == 0)
        return 0;
    return rest <= 0 ? 1 : (rest + step - 1) / step + 1;
}

int64_t windows_tokens(const struct windows_layout *layout, int64_t length)
{
    int64_t count = windows_count(layout, length);
    if (count == 0)
        return 0;
    int64_t shared = (count - 1) * layout->overlap;
    return cuttable(layout, length) + shared + (layout->cut == WINDOWS_ENDS ? 0 : 2 * count);
}

struct window windows_cut(const struct windows_layout *layout, int64_t length, int64_t k)
{
    int64_t from = k * (capacity(layout) - layout->overlap), to = from + capacity(layout);
    if (to > cuttable(layout, length))
        to = cuttable(layout, length);
    struct window window = {.has_bos = true, .has_eos = true};
    if (layout->cut == WINDOWS_ENDS) { /* from and to count BOS as token 0 and EOS as token length + 1 */
        window.has_bos = from == 0;
        window.has_eos = to == length + 2;
        from = from == 0 ? 0 : from - 1;
        to = window.has_eos ? length : to - 1;
    }
    window.start = from;
    window.length = to - from;
    return window;
}

int windows_check_layout(const struct windows_layout *layout)
{
    if (layout->window < 4)
        return error_user("key data.window = %lld: a window holds at least 4 tokens", (long long)layout->window);
    if (layout->overlap < 0 || layout->overlap >= capacity(layout))
        return error_user("key data.overlap = %lld: must be between 0 and %lld for data.window = %lld",
                          (long long)layout->overlap, (long long)capacity(layout) - 1, (long long)layout->window);
    if (layout->cut == WINDOWS_FIRST && layout->overlap > 0)
        return error_user("key data.overlap = %lld: must be 0 with data.truncate, which leaves one window a sequence",
                          (long long)layout->overlap);
    return ERROR_NONE;
}

static struct windows_header header_of(const struct token_store *store, const struct windows_layout *layout)
{
    struct windows_header header = {.checksum = store->checksum,
                                    .window = layout->window,
                                    .overlap = layout->overlap,
                                    .cut = layout->cut,
                                    .sequences = store->sequences};
    memcpy(header.magic, magic, sizeof magic);
    return header;
}

/* Receives `count` entries of first[], in order. */
typedef int (*receiver)(void *self, const uint64_t *entries, int64_t count);

static int stopped(const struct token_store *store)
{
    char *message =
        memory_format("%s: a signal came while its windows were counted; nothing is lost, start again", store->path);
    int code = error_restate(ERROR_REQUEUE, message);
    free(message);
    return code;
}

/* Scans the store's offsets, hands all entries of first[] on and fills in the header's totals. Billions of sequences
 * take minutes, so it looks out for a signal. */
static int scan(const struct token_store *store, const struct windows_layout *layout, struct windows_header *header,
                receiver receive, void *self)
{
    uint64_t *entries = memory_allocate(BUFFER_ENTRIES * (int64_t)sizeof *entries);
    int64_t used = 0, before = 0;
    int code = ERROR_NONE;
    for (int64_t i = 0; i <= store->sequences && code == ERROR_NONE; i++) {
        int64_t offset = token_store_offset(store, i);
        if (offset < before || offset > store->token_count) {
            code = error_user("%s: damaged: offset %lld is not between the one before and the last; prepare it anew",
                              store->path, (long long)i);
            break;
        }
        header->windows += windows_count(layout, offset - before);
        header->tokens += windows_tokens(layout, offset - before);
        before = offset;
        entries[used++] = (uint64_t)header->windows;
        if (used == BUFFER_ENTRIES || i == store->sequences) {
            code = receive(self, entries, used);
            if (code == ERROR_NONE && i < store->sequences && signals_stopping())
                code = stopped(store);
            used = 0;
        }
    }
    memory_free(entries);
    return code;
}

static int receive_in_memory(void *self, const uint64_t *entries, int64_t count)
{
    uint64_t **next = self;
    memcpy(*next, entries, (size_t)count * sizeof *entries);
    *next += count;
    return ERROR_NONE;
}

static int receive_in_file(void *self, const uint64_t *entries, int64_t count)
{
    return fwrite(entries, sizeof *entries, (size_t)count, self) == (size_t)count ? ERROR_NONE : ERROR_ENVIRONMENT;
}

static int receive_nothing(void *self, const uint64_t *entries, int64_t count)
{
    (void)self, (void)entries, (void)count;
    return ERROR_NONE;
}

int windows_measure(const struct token_store *store, const struct windows_layout *layout, int64_t *windows,
                    int64_t *tokens)
{
    struct windows_header header = header_of(store, layout);
    int code = windows_check_layout(layout);
    if (code == ERROR_NONE)
        code = scan(store, layout, &header, receive_nothing, NULL);
    *windows = header.windows;
    *tokens = header.tokens;
    return code;
}

static char *side_path(const struct token_store *store, const struct windows_layout *layout)
{
    static const char *const cuts[] = {[WINDOWS_EACH] = "each", [WINDOWS_ENDS] = "ends", [WINDOWS_FIRST] = "first"};
    return memory_format("%s.windows-%lld-%lld-%s", store->path, (long long)layout->window, (long long)layout->overlap,
                         cuts[layout->cut]);
}

/* Makes the side file: whole under a temporary name, then renamed. *made is false where the folder cannot be
 * written, which is no error. */
static int make_side_file(const struct token_store *store, const struct windows_layout *layout, const char *path,
                          bool *made)
{
    *made = false;
    char *temporary = memory_format("%s.tmp-%ld", path, (long)getpid());
    FILE *file = fopen(temporary, "wb");
    if (file == NULL) {
        free(temporary);
        return ERROR_NONE;
    }
    struct windows_header header = header_of(store, layout);
    int code = receive_in_file(file, (const uint64_t *)&header, sizeof header / sizeof(uint64_t));
    if (code == ERROR_NONE)
        code = scan(store, layout, &header, receive_in_file, file);
    bool written = code == ERROR_NONE && fseeko(file, 0, SEEK_SET) == 0 &&
                   fwrite(&header, sizeof header, 1, file) == 1 && fflush(file) == 0 && fsync(fileno(file)) == 0;
    written = fclose(file) == 0 && written;
    *made = written && rename(temporary, path) == 0;
    if (!*made)
        unlink(temporary);
    free(temporary);
    return code == ERROR_ENVIRONMENT ? ERROR_NONE : code;
}

/* Maps the side file if it is there, whole, and of this store. */
static bool map_side_file(struct windows *windows, const struct windows_layout *layout, const char *path)
{
    struct windows_header wanted = header_of(windows->store, layout), header;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    int64_t bytes = (int64_t)sizeof header + (wanted.sequences + 1) * (int64_t)sizeof(uint64_t);
    struct stat status;
    void *map = MAP_FAILED;
    if (fstat(file, &status) == 0 && status.st_size == bytes)
        map = mmap(NULL, (size_t)bytes, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (map == MAP_FAILED)
        return false;
    memcpy(&header, map, sizeof header);
    wanted.windows = header.windows;
    wanted.tokens = header.tokens;
    const uint64_t *first = (const uint64_t *)((const char *)map + sizeof header);
    if (memcmp(&header, &wanted, sizeof header) != 0 || first[header.sequences] != (uint64_t)header.windows) {
        munmap(map, (size_t)bytes);
        return false;
    }
    windows->header = header;
    windows->first = first;
    windows->map = map;
    windows->map_bytes = bytes;
    return true;
}

static int make_table(struct windows *windows, const struct windows_layout *layout)
{
    windows->table = memory_allocate((windows->store->sequences + 1) * (int64_t)sizeof *windows->table);
    windows->first = windows->table;
    windows->header = header_of(windows->store, layout);
    uint64_t *next = windows->table;
    return scan(windows->store, layout, &windows->header, receive_in_memory, &next);
}

static struct window locate(void *self, int64_t w, int64_t *hint)
{
    return windows_locate(self, w, hint);
}

static void read_tokens(void *self, const struct window *window, int64_t from, int64_t count, int32_t *tokens)
{
    const struct windows *windows = self;
    const struct token_store *store = windows->store;
    int64_t start = window->start + from;
    token_store_read(store, start, count, tokens);
    for (int64_t i = 0; i < count; i++)
        if (tokens[i] >= store->vocabulary)
            error_fatal("%s: damaged: token %lld is %d, but %s has %lld tokens; prepare it anew", store->path,
                        (long long)(start + i), (int)tokens[i], store->tokenizer->name, (long long)store->vocabulary);
}

int windows_open(struct windows **out, const struct token_store *store, const struct windows_layout *layout,
                 struct comm *world)
{
    static const struct window_source_class class = {locate, read_tokens};
    struct windows *windows = memory_allocate(sizeof *windows);
    windows->store = store;
    char *path = side_path(store, layout);
    bool mapped = false;
    int code = windows_check_layout(layout);
    if (code == ERROR_NONE && world->rank == 0) {
        bool made = false;
        mapped = map_side_file(windows, layout, path);
        if (!mapped)
            code = make_side_file(store, layout, path, &made);
    }
    code = comm_agree(world, code);
    if (code == ERROR_NONE) {
        if (!mapped)
            mapped = map_side_file(windows, layout, path);
        int64_t without = comm_sum_i64(world, !mapped);
        if (without > 0)
            log_warn("%s: %lld ranks cannot read it, and keep a table of %.1f MB each instead; "
                     "let the store's folder be written to once, and be seen by all nodes",
                     path, (long long)without, (double)(store->sequences + 1) * 8e-6);
        if (!mapped)
            code = make_table(windows, layout);
        code = comm_agree(world, code);
    }
    free(path);
    windows->source = (struct window_source){&class, windows, store->tokenizer, windows->header.windows};
    if (code != ERROR_NONE) {
        windows_close(windows);
        windows = NULL;
    }
    *out = windows;
    return code;
}

void windows_close(struct windows *windows)
{
    if (windows == NULL)
        return;
    if (windows->map != NULL)
        munmap(windows->map, (size_t)windows->map_bytes);
    memory_free(windows->table);
    memory_free(windows);
}

/* The sequence with first[i] <= w < first[i + 1]. */
static int64_t find_sequence(const struct windows *windows, uint64_t w, int64_t hint)
{
    const uint64_t *first = windows->first;
    for (int64_t i = hint; i <= hint + 1; i++)
        if (i >= 0 && i < windows->header.sequences && first[i] <= w && w < first[i + 1])
            return i;
    int64_t low = 0, high = windows->header.sequences; /* first[low] <= w < first[high] */
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (first[middle] <= w)
            low = middle;
        else
            high = middle;
    }
    return low;
}

struct window windows_locate(const struct windows *windows, int64_t w, int64_t *hint)
{
    struct windows_layout layout = {windows->header.window, windows->header.overlap,
                                    (enum windows_cut)windows->header.cut};
    int64_t i = *hint = find_sequence(windows, (uint64_t)w, *hint);
    int64_t begin = token_store_offset(windows->store, i), length = token_store_offset(windows->store, i + 1) - begin;
    struct window window = windows_cut(&layout, length, w - (int64_t)windows->first[i]);
    window.number = w;
    window.sequence = i;
    window.start += begin;
    return window;
}
