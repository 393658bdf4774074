#include "data/random_windows.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/random.h"

#include <math.h>
#include <xxhash.h>

static const int64_t all_windows = (int64_t)1 << 48; /* more than any run consumes, and exact in a double */
static const double longest =
    1099511627776.0; /* 2^40, far in the tail of any length distribution that a deck may request */

enum { DRAWN = 4 /* tokens per draw */, TOKENIZER_IDS = 256 /* special ids are below */ };

/* Ids first .. first + count - 1. */
struct id_range {
    int32_t first;
    int64_t count;
};

struct random_windows {
    struct window_source source;
    struct random_windows_settings settings;
    struct windows_layout layout;
    uint64_t seed;
    double sigma;               /* standard deviation of the logarithm of lengths */
    struct tokenizer tokenizer; /* the tokenizer of the settings, with their vocabulary */
    struct id_range plain;      /* ids that are drawn */
    int64_t block;              /* number of the block in `windows`; -1: none */
    struct token_window windows[RANDOM_BLOCK];
};

/* Returns the tokenizer with the settings' vocabulary. Ids that are not special have no meaning, bases neither. */
static struct tokenizer make_tokenizer(const struct random_windows_settings *settings)
{
    struct tokenizer tokenizer = *tokenizer_find(settings->tokenizer);
    tokenizer.vocabulary = settings->vocabulary;
    tokenizer.bases = false;
    return tokenizer;
}

/* Returns the longest range of ids without a special one; tokenizers have special ids at the ends of the vocabulary. */
static struct id_range find_plain(const struct tokenizer *tokenizer)
{
    const int64_t vocabulary = tokenizer->vocabulary;
    struct id_range best = {0, 0}, now = {0, 0};
    for (int32_t id = 0; id < vocabulary && id < TOKENIZER_IDS; id++) {
        if (tokenizer_is_special(tokenizer, id))
            now = (struct id_range){id + 1, 0};
        else if (++now.count > best.count)
            best = now;
    }
    if (vocabulary > TOKENIZER_IDS && (now.count += vocabulary - TOKENIZER_IDS) > best.count)
        best = now;
    return best;
}

int random_windows_check(const struct random_windows_settings *settings)
{
    if ((settings->median == 0) != (settings->mean == 0) || settings->mean < settings->median)
        return error_user("keys data.random_median = %lld, data.random_mean = %lld: the mean of log-normal lengths "
                          "must be at least their median; or set both to 0 for sequences that fill their windows",
                          (long long)settings->median, (long long)settings->mean);
    const struct tokenizer tokenizer = make_tokenizer(settings);
    if (find_plain(&tokenizer).count == 0)
        return error_user("key model.vocabulary = %lld: data.source = \"random\" needs a vocabulary with ids that are "
                          "not special tokens",
                          (long long)settings->vocabulary);
    return ERROR_NONE;
}

static int64_t draw_length(const struct random_windows *r, int64_t sequence)
{
    if (r->settings.median == 0)
        return r->layout.window - windows_specials(&r->layout);
    const struct random_key key = {r->seed, RANDOM_DATA_LENGTH, 0};
    double length = (double)r->settings.median * exp(r->sigma * random_normal(&key, (uint64_t)sequence));
    return length < 1 ? 1 : (int64_t)(fmin(length, longest) + 0.5);
}

static void make_block(struct random_windows *r, int64_t block)
{
    int64_t first = block * RANDOM_BLOCK; /* number of the block's first window, and of its first sequence */
    int count = 0;
    for (int64_t sequence = first; count < RANDOM_BLOCK; sequence++) {
        int64_t length = draw_length(r, sequence), pieces = windows_count(&r->layout, length);
        for (int64_t k = 0; k < pieces && count < RANDOM_BLOCK; k++) {
            struct token_window window = windows_at(&r->layout, length, k);
            window.number = first + count;
            window.sequence = sequence;
            r->windows[count++] = window;
        }
    }
    r->block = block;
}

static void locate(void *self, const int64_t *w, int64_t count, struct token_window *windows)
{
    struct random_windows *r = self;
    for (int64_t i = 0; i < count; i++) {
        if (w[i] / RANDOM_BLOCK != r->block)
            make_block(r, w[i] / RANDOM_BLOCK);
        windows[i] = r->windows[w[i] % RANDOM_BLOCK];
    }
}

static void read_tokens(void *self, const struct token_window *window, int64_t from, int64_t count, int32_t *tokens)
{
    const struct random_windows *r = self;
    const struct random_key key = {r->seed, RANDOM_DATA_TOKEN, (uint64_t)window->sequence};
    const struct random_series series = random_series_of(&key);
    uint64_t place = (uint64_t)(window->start + from), stop = place + (uint64_t)count;
    while (place < stop) {
        uint32_t words[DRAWN];
        random_series_words(&series, place / DRAWN, words);
        do
            *tokens++ = r->plain.first + (int32_t)(((uint64_t)words[place % DRAWN] * (uint64_t)r->plain.count) >> 32);
        while (++place < stop && place % DRAWN != 0);
    }
}

struct random_windows *random_windows_create(const struct random_windows_settings *settings,
                                             const struct windows_layout *layout, uint64_t seed)
{
    static const struct window_source_class class = {locate, read_tokens};
    struct random_windows *r = memory_allocate(sizeof *r);
    r->settings = *settings;
    r->layout = *layout;
    r->seed = seed;
    r->sigma = settings->median > 0 ? sqrt(2 * log((double)settings->mean / (double)settings->median)) : 0;
    r->tokenizer = make_tokenizer(settings);
    r->plain = find_plain(&r->tokenizer);
    r->block = -1;
    r->source = (struct window_source){&class, r, &r->tokenizer, all_windows, NULL};
    return r;
}

void random_windows_destroy(struct random_windows *r)
{
    memory_free(r);
}

const struct window_source *random_windows_source(const struct random_windows *r)
{
    return &r->source;
}

uint64_t random_windows_checksum(const struct random_windows *r)
{
    const int64_t all[] = {(int64_t)r->seed, r->settings.median, r->settings.mean,  r->plain.first,
                           r->plain.count,   r->layout.window,   r->layout.overlap, windows_code(&r->layout)};
    return XXH3_64bits(all, sizeof all);
}
