#include "data/megatron_windows.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/range.h"
#include "data/megatron_order.h"

#include <xxhash.h>

struct megatron_windows {
    struct window_source source;
    const struct megatron_store *store;
    struct megatron_part part;
    int64_t window;
    struct megatron_order order; /* empty in file order */
};

static void locate_in_file(void *self, const int64_t *w, int64_t count, struct token_window *out)
{
    const struct megatron_windows *windows = self;
    for (int64_t i = 0; i < count; i++)
        out[i] = (struct token_window){.number = w[i],
                                       .start = windows->part.start + w[i] * windows->window,
                                       .length = windows->window,
                                       .followed = true};
}

static void read_in_file(void *self, const struct token_window *window, int64_t from, int64_t count, int32_t *tokens)
{
    const struct megatron_windows *windows = self;
    megatron_store_read(windows->store, window->start + from, count, windows->source.tokenizer->vocabulary, tokens);
}

static void locate_in_order(void *self, const int64_t *w, int64_t count, struct token_window *out)
{
    const struct megatron_windows *windows = self;
    for (int64_t i = 0; i < count; i++)
        out[i] =
            (struct token_window){.number = windows->order.shuffle[w[i]], .length = windows->window, .followed = true};
}

static void check_piece(const struct megatron_windows *windows, int64_t place, int64_t start, int64_t count)
{
    const int64_t places = windows->order.epochs * windows->part.count;
    if (place >= places || start < 0 || start > windows->store->token_count - count)
        error_lost("%s: was changed while it was open", windows->store->index->path);
}

/* Reads piece by piece, each from one sequence. */
static void read_in_order(void *self, const struct token_window *window, int64_t from, int64_t count, int32_t *tokens)
{
    const struct megatron_windows *windows = self;
    const struct megatron_place begin = windows->order.begins[window->number];
    int64_t place = begin.sequence, skip = begin.token + from;
    for (; count > 0; place++) {
        check_piece(windows, place, 0, 0);
        const int64_t sequence = windows->order.sequences[place];
        const int64_t length = megatron_store_length(windows->store, sequence);
        if (skip >= length) {
            skip -= length;
            continue;
        }
        const int64_t piece = MIN(length - skip, count);
        const int64_t start = megatron_store_start(windows->store, sequence) + skip;
        check_piece(windows, place, start, piece);
        megatron_store_read(windows->store, start, piece, windows->source.tokenizer->vocabulary, tokens);
        tokens += piece;
        count -= piece;
        skip = 0;
    }
}

static struct megatron_windows *allocate(const struct megatron_store *store, const struct megatron_part *part,
                                         int64_t window)
{
    struct megatron_windows *windows = memory_allocate(sizeof *windows);
    windows->store = store;
    windows->part = *part;
    windows->window = window;
    return windows;
}

int megatron_windows_create(struct megatron_windows **out, const struct megatron_store *store,
                            const struct megatron_part *part, const struct tokenizer *tokenizer, int64_t window)
{
    static const struct window_source_class class = {locate_in_file, read_in_file};
    const int64_t samples = megatron_samples(part->tokens, window);
    *out = NULL;
    if (samples == 0)
        return megatron_too_short(store, part, window);
    *out = allocate(store, part, window);
    (*out)->source = (struct window_source){&class, *out, tokenizer, samples, NULL};
    return ERROR_NONE;
}

int megatron_windows_create_ordered(struct megatron_windows **out, const struct megatron_store *store,
                                    const struct megatron_part *part, const struct tokenizer *tokenizer, int64_t window,
                                    int64_t samples, uint32_t seed)
{
    static const struct window_source_class class = {locate_in_order, read_in_order};
    struct megatron_windows *windows = allocate(store, part, window);
    int code = megatron_order_create(&windows->order, store, part, samples, window, seed);
    windows->source = (struct window_source){&class, windows, tokenizer, windows->order.samples, NULL};
    if (code != ERROR_NONE) {
        megatron_windows_destroy(windows);
        windows = NULL;
    }
    *out = windows;
    return code;
}

void megatron_windows_destroy(struct megatron_windows *windows)
{
    if (windows == NULL)
        return;
    megatron_order_destroy(&windows->order);
    memory_free(windows);
}

const struct window_source *megatron_windows_source(const struct megatron_windows *windows)
{
    return &windows->source;
}

uint64_t megatron_windows_checksum(const struct megatron_windows *windows)
{
    const uint64_t all[] = {windows->store->checksum, (uint64_t)windows->part.first, (uint64_t)windows->part.count,
                            windows->order.checksum};
    return XXH3_64bits(all, sizeof all);
}
