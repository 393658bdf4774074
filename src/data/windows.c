#include "data/windows.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/range.h"

enum { IN_STEP = 64 /* windows whose sequences are searched at once */ };

int windows_measure(const struct token_store *store, const struct windows_layout *layout, int64_t *windows,
                    int64_t *tokens)
{
    struct windows_header header = {.windows = 0};
    int code = windows_check_layout(layout);
    if (code == ERROR_NONE)
        code = windows_index_measure(store, layout, &header);
    *windows = header.windows;
    *tokens = header.tokens;
    return code;
}

static void locate(void *self, const int64_t *w, int64_t count, struct token_window *windows)
{
    windows_locate(self, w, count, windows);
}

static void read_tokens(void *self, const struct token_window *window, int64_t from, int64_t count, int32_t *tokens)
{
    const struct store_windows *windows = self;
    const struct token_store *store = windows->index.store;
    int64_t start = window->start + from;
    token_store_read(store, start, count, tokens);
    for (int64_t i = 0; i < count; i++)
        if (tokens[i] >= store->vocabulary)
            error_lost("%s: is damaged: token %lld is %d, but %s has %lld tokens; prepare it again", store->path,
                       (long long)(start + i), (int)tokens[i], store->tokenizer->name, (long long)store->vocabulary);
}

/* Returns whether this rank checks the store for all ranks of the node that have the same file open. */
static bool is_leader(const struct token_store *store, struct comm *world)
{
    struct comm *node = comm_split_node(world);
    uint64_t file[2] = {store->map->device, store->map->inode};
    comm_broadcast(node, file, sizeof file, 0);
    const bool leader = node->rank == 0 || file[0] != store->map->device || file[1] != store->map->inode;
    comm_destroy(node);
    return leader;
}

/* Sets windows->index.first. Rank 0 makes the side file, then leaders that see another folder make theirs, then all
 * ranks map it. */
static int obtain(struct store_windows *windows, const struct windows_layout *layout, struct comm *world)
{
    const bool leader = is_leader(windows->index.store, world) || world->rank == 0;
    int code = comm_agree(world, world->rank == 0 ? windows_index_obtain(&windows->index, layout) : ERROR_NONE);
    if (code == ERROR_NONE)
        code = comm_agree(world, leader && windows->index.first == NULL ? windows_index_obtain(&windows->index, layout)
                                                                        : ERROR_NONE);
    if (code != ERROR_NONE)
        return code;
    const bool checked = windows->index.first != NULL;
    if (!checked)
        windows_index_map(&windows->index, layout, leader);
    const int64_t without = comm_sum_i64(world, windows->index.first == NULL);
    const int64_t unchecked = comm_sum_i64(world, leader && !checked);
    if (without > 0)
        log_warn(
            "%s: the window index cannot be written to its folder, so each of %lld ranks counts the windows at every "
            "start (%.1f MB of memory), and the checksum is not verified; let a first run write to the folder",
            windows->index.store->path, (long long)without, (double)(windows->index.store->sequences + 1) * 8e-6);
    else if (unchecked > 0)
        log_warn(
            "%s: its checksum is not verified, since its folder is not writable; cistron inspect --verify verifies it",
            windows->index.store->path);
    return comm_agree(world,
                      windows->index.first == NULL ? windows_index_tabulate(&windows->index, layout) : ERROR_NONE);
}

int windows_open(struct store_windows **out, const struct token_store *store, const struct windows_layout *layout,
                 struct comm *world)
{
    static const struct window_source_class class = {locate, read_tokens};
    struct store_windows *windows = memory_allocate(sizeof *windows);
    windows->index.store = store;
    int code = comm_agree(world, windows_check_layout(layout));
    if (code == ERROR_NONE)
        code = obtain(windows, layout, world);
    windows->source = (struct window_source){&class, windows, store->tokenizer, windows->index.header.windows,
                                             store->label_count > 0 ? store : NULL};
    if (code != ERROR_NONE) {
        windows_close(windows);
        windows = NULL;
    }
    *out = windows;
    return code;
}

void windows_close(struct store_windows *windows)
{
    if (windows == NULL)
        return;
    windows_index_close(&windows->index);
    memory_free(windows);
}

/* Writes to sequences[count] the sequence i of each window: first[i] <= w < first[i + 1]. Bisects for all windows in
 * step and without branches, so that the processor waits for the memory of many windows at once. */
static void find_sequences(const struct store_windows *windows, const int64_t *w, int64_t count, int64_t *sequences)
{
    const uint64_t *first = windows->index.first;
    for (int64_t i = 0; i < count; i++)
        sequences[i] = 0;
    for (int64_t left = windows->index.header.sequences; left > 1; left -= left / 2)
        for (int64_t i = 0; i < count; i++) {
            const int64_t right = -(int64_t)(first[sequences[i] + left / 2] <= (uint64_t)w[i]); /* all bits, or none */
            sequences[i] += left / 2 & right;
        }
}

static struct token_window window_of(const struct store_windows *windows, const struct windows_layout *layout,
                                     int64_t w, int64_t sequence)
{
    const struct token_store *store = windows->index.store;
    const int64_t begin = token_store_offset(store, sequence), length = token_store_offset(store, sequence + 1) - begin;
    const int64_t k = w - (int64_t)windows->index.first[sequence];
    if (token_store_check_offset(store, sequence + 1) != ERROR_NONE || k < 0 || k >= windows_count(layout, length))
        error_lost("%s: sequence %lld or its entry in the window index was changed while it was open", store->path,
                   (long long)sequence);
    struct token_window window = windows_at(layout, length, k);
    window.number = w;
    window.sequence = sequence;
    window.start += begin;
    return window;
}

void windows_locate(const struct store_windows *windows, const int64_t *w, int64_t count, struct token_window *out)
{
    const struct windows_header *header = &windows->index.header;
    const struct windows_layout layout = windows_layout_from(header->window, header->overlap, header->code);
    int64_t sequences[IN_STEP];
    for (int64_t from = 0; from < count; from += IN_STEP) {
        const int64_t some = MIN(count - from, IN_STEP);
        find_sequences(windows, w + from, some, sequences);
        for (int64_t i = 0; i < some; i++)
            out[from + i] = window_of(windows, &layout, w[from + i], sequences[i]);
    }
}
