#include "data/windows.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"

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

static struct token_window locate(void *self, int64_t w, int64_t *hint)
{
    return windows_locate(self, w, hint);
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
    windows->source = (struct window_source){&class, windows, store->tokenizer, windows->index.header.windows};
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

/* Returns the sequence i with first[i] <= w < first[i + 1]. */
static int64_t find_sequence(const struct store_windows *windows, uint64_t w, int64_t hint)
{
    const uint64_t *first = windows->index.first;
    for (int64_t i = hint; i <= hint + 1; i++)
        if (i >= 0 && i < windows->index.header.sequences && first[i] <= w && w < first[i + 1])
            return i;
    int64_t low = 0, high = windows->index.header.sequences; /* invariant: first[low] <= w < first[high] */
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (first[middle] <= w)
            low = middle;
        else
            high = middle;
    }
    return low;
}

struct token_window windows_locate(const struct store_windows *windows, int64_t w, int64_t *hint)
{
    const struct windows_header *header = &windows->index.header;
    const struct windows_layout layout = windows_layout_from(header->window, header->overlap, header->code);
    int64_t i = *hint = find_sequence(windows, (uint64_t)w, *hint);
    int64_t begin = token_store_offset(windows->index.store, i),
            length = token_store_offset(windows->index.store, i + 1) - begin;
    int64_t k = w - (int64_t)windows->index.first[i];
    if (token_store_check_offset(windows->index.store, i + 1) != ERROR_NONE || k < 0 ||
        k >= windows_count(&layout, length))
        error_lost("%s: sequence %lld or its entry in the window index was changed while it was open",
                   windows->index.store->path, (long long)i);
    struct token_window window = windows_at(&layout, length, k);
    window.number = w;
    window.sequence = i;
    window.start += begin;
    return window;
}
