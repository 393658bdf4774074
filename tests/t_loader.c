/* The loader against a plain model of its stream: every window's tokens and labels in the order of the permutation,
 * epoch after epoch. Rows, ranks, restarts and passes may cut that stream up, and must not change it. */
#include "base/clock.h"
#include "base/random.h"
#include "check.h"
#include "data/blend.h"
#include "data/loader.h"
#include "data/shuffle.h"
#include "data/token_store.h"
#include "data/windows.h"
#include "stores.h"

#include <hdf5.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static struct comm *world;

static struct loader *create(const struct loader_settings *settings, int data_rank, int data_ranks)
{
    struct loader *loader;
    if (loader_create(&loader, settings, world, world, data_rank, data_ranks) != ERROR_NONE)
        error_fatal("loader_create failed");
    return loader;
}

/* A stream of (token, label) pairs. */
struct read_stream {
    int32_t *pairs; /* [2 * count] */
    int64_t count, room;
};

static void push(struct read_stream *stream, int32_t token, int32_t label)
{
    if (stream->count == stream->room) {
        stream->room = 2 * stream->room + 4096;
        stream->pairs = memory_grow(stream->pairs, stream->room * 8);
    }
    stream->pairs[2 * stream->count] = token;
    stream->pairs[2 * stream->count++ + 1] = label;
}

/* Upper-casing, then masking, as GenomicDataCollator orders them. */
static int32_t as_label(const struct loader_settings *settings, int32_t token)
{
    if (settings->uppercase_labels && token >= 97 && token <= 122)
        token -= 32;
    if (settings->mask_degenerate && (token == 0 || strchr("ACGTacgt", token) == NULL))
        token = -100;
    return token;
}

/* One epoch by the definition of windows, straight from the texts; `epoch` also tells stores of a blend apart. */
static void push_epoch(struct read_stream *stream, const struct loader_settings *settings, char *const *sequences,
                       int64_t count, int64_t epoch)
{
    struct list {
        int64_t begin, length;
    } *windows = NULL;
    int64_t found = 0, room = 0, bytes = 0;
    int32_t *all = NULL; /* all windows' tokens, one window behind the other */
    for (int64_t s = 0; s < count; s++) {
        int64_t length = (int64_t)strlen(sequences[s]);
        bool ends = settings->special == LOADER_SPECIAL_SEQUENCE;
        int64_t total = ends ? length + 2 : length, capacity = ends ? settings->window : settings->window - 2;
        for (int64_t from = 0; length > 0; from += capacity - settings->overlap) {
            int64_t to = from + capacity < total ? from + capacity : total;
            all = memory_grow(all, (bytes + settings->window) * 4);
            if (found == room) {
                room = 2 * room + 64;
                windows = memory_grow(windows, room * (int64_t)sizeof *windows);
            }
            windows[found].begin = bytes;
            if (!ends)
                all[bytes++] = 2;
            for (int64_t t = from; t < to; t++)
                all[bytes++] = !ends ? sequences[s][t] : t == 0 ? 2 : t == total - 1 ? 0 : sequences[s][t - 1];
            if (!ends)
                all[bytes++] = 0;
            windows[found].length = bytes - windows[found].begin;
            found++;
            if (to == total)
                break;
        }
    }
    struct shuffle order = shuffle_create(found, settings->seed, epoch);
    for (int64_t w = 0; w < found; w++) {
        struct list window = windows[settings->shuffle ? shuffle_at(&order, w) : w];
        for (int64_t t = 0; t < window.length; t++)
            push(stream, all[window.begin + t],
                 t + 1 < window.length ? as_label(settings, all[window.begin + t + 1]) : -100);
    }
    free(all);
    free(windows);
}

/* Checks a step's tables and padding; appends its real tokens in the order of rows. */
static void push_step(struct read_stream *stream, const struct batch *batches, int64_t micro_batches,
                      const struct loader_settings *settings)
{
    int64_t wrong = 0;
    for (int64_t m = 0; m < micro_batches; m++) {
        const struct batch *batch = &batches[m];
        int64_t real = 0, valid = 0;
        for (int64_t row = 0; row < batch->rows; row++) {
            int64_t at = row * batch->row_tokens, stop = at + batch->row_tokens;
            bool ended = false;
            for (int64_t s = row * batch->max_segments; s < (row + 1) * batch->max_segments; s++) {
                ended = ended || batch->segment_length[s] == 0;
                if (ended) {
                    wrong += batch->segment_length[s] != 0;
                    continue;
                }
                wrong += batch->segment_start[s] != at;
                for (int32_t i = 0; i < batch->segment_length[s]; i++, at++) {
                    wrong += batch->positions[at] != i;
                    valid += batch->labels[at] != -100;
                    push(stream, batch->tokens[at], batch->labels[at]);
                }
                real += batch->segment_length[s];
            }
            for (; at < stop; at++)
                wrong += batch->tokens[at] != 1 || batch->labels[at] != -100 || batch->positions[at] != 0;
            wrong += settings->format == LOADER_PADDED && batch->max_segments > 1 &&
                     batch->segment_length[row * batch->max_segments + 1] != 0;
        }
        wrong += real != batch->real || valid != batch->valid;
    }
    CHECK(wrong == 0);
}

enum { TEXTS = 9, SECOND = 5 /* the first text of the second store */ };

/* Sequences of many lengths, 0 among them, with lower case and N. */
static void make_texts(char *texts[TEXTS])
{
    static const int lengths[TEXTS] = {700, 0, 1, 61, 62, 63, 400, 2, 1500};
    for (int i = 0; i < TEXTS; i++) {
        struct random_key key = {5, RANDOM_TEST, (uint64_t)i};
        texts[i] = memory_grow(NULL, lengths[i] + 1);
        for (int t = 0; t < lengths[i]; t++)
            texts[i][t] = "ACGTacgtNRACGTAC"[random_bits(&key, (uint64_t)t) >> 60];
        texts[i][lengths[i]] = '\0';
    }
}

static struct loader_settings small_settings(const char *store)
{
    return (struct loader_settings){.stores = store,
                                    .seed = 99,
                                    .row_tokens = 96,
                                    .window = 64,
                                    .overlap = 11,
                                    .max_segments = 5,
                                    .global_rows = 7,
                                    .micro_rows = 2,
                                    .split = true,
                                    .mask_degenerate = true,
                                    .uppercase_labels = true,
                                    .shuffle = true};
}

/* Three epochs and a little more: no token is lost, doubled or given another label, however rows are cut. */
static void test_stream(const char *store, char *const *texts)
{
    for (int variant = 0; variant < 64; variant++) {
        struct loader_settings settings = small_settings(store);
        settings.split = variant & 1;
        settings.shuffle = variant & 2;
        settings.special = variant & 4 ? LOADER_SPECIAL_SEQUENCE : LOADER_SPECIAL_WINDOW;
        settings.mask_degenerate = variant & 8;
        settings.uppercase_labels = variant & 16;
        settings.format = variant & 32 ? LOADER_PADDED : LOADER_PACKED;
        settings.max_segments = 1 + variant % 7;
        struct read_stream wanted = {0}, got = {0};
        for (int64_t epoch = 0; epoch < 4; epoch++)
            push_epoch(&wanted, &settings, texts, TEXTS, epoch);
        struct loader *loader = create(&settings, 0, 1);
        CHECK(loader_window_tokens(loader) * 4 == wanted.count);
        while (got.count <= wanted.count * 3 / 4)
            push_step(&got, loader_next(loader), loader_micro_batches(loader), &settings);
        CHECK(got.count <= wanted.count && memcmp(got.pairs, wanted.pairs, (size_t)got.count * 8) == 0);
        CHECK(loader_position(loader).epoch[0] == 3);
        loader_destroy(loader);
        free(wanted.pairs);
        free(got.pairs);
    }
}

/* Rows as the rule of packing says, for windows of 64 tokens each and rows of 96. */
static void test_rows(void)
{
    const char *path = stores_path("rows.h5");
    char *text = memory_grow(NULL, 62 * 40 + 1); /* 40 windows of 62 bases without overlap */
    memset(text, 'A', 62 * 40);
    text[62 * 40] = '\0';
    stores_write(path, &text, 1);
    struct loader_settings settings = small_settings(path);
    settings.overlap = 0;
    static const struct {
        bool split;
        int64_t max_segments;
        int32_t rows[3][3]; /* segment lengths of the first rows */
    } cases[] = {{true, 5, {{64, 32, 0}, {32, 64, 0}, {64, 32, 0}}},
                 {false, 5, {{64, 0, 0}, {64, 0, 0}, {64, 0, 0}}},
                 {true, 1, {{64, 0, 0}, {64, 0, 0}, {64, 0, 0}}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        settings.split = cases[i].split;
        settings.max_segments = cases[i].max_segments;
        struct loader *loader = create(&settings, 0, 1);
        const struct batch *batches = loader_next(loader);
        for (int64_t row = 0; row < 3; row++)
            for (int64_t s = 0; s < settings.max_segments && s < 3; s++)
                CHECK(batches[row / 2].segment_length[row % 2 * settings.max_segments + s] == cases[i].rows[row][s]);
        /* the token before a cut keeps its label, the last one of a window has none */
        if (cases[i].max_segments > 1 && cases[i].split) {
            CHECK(batches[0].labels[95] == 'A' && batches[0].labels[63] == -100);
            CHECK(batches[0].labels[96 + 31] == -100 && batches[0].tokens[96 + 31] == 0);
        }
        loader_destroy(loader);
    }
    free(text);
}

/* GenomicDataCollator's examples: inputs are left as they are, labels upper-cased and masked. */
static void test_labels(void)
{
    static const struct {
        const char *text;
        bool uppercase, mask;
        int32_t labels[6]; /* of BOS and the five bases: the base that follows, at last EOS */
    } cases[] = {{"acgtN", true, false, {65, 67, 71, 84, 78, 0}},
                 {"acgtn", false, true, {97, 99, 103, 116, -100, -100}},
                 {"AcNRt", true, true, {65, 67, -100, -100, 84, -100}},
                 {"aCn@#", false, false, {97, 67, 110, 64, 35, 0}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = stores_path("labels.h5");
        char *text = memory_string(cases[i].text);
        stores_write(path, &text, 1);
        struct loader_settings settings = small_settings(path);
        settings.uppercase_labels = cases[i].uppercase;
        settings.mask_degenerate = cases[i].mask;
        settings.once = true;
        struct loader *loader = create(&settings, 0, 1);
        const struct batch *batch = loader_next(loader);
        CHECK(batch->tokens[0] == 2 && batch->tokens[6] == 0);
        for (int t = 0; t < 5; t++)
            CHECK(batch->tokens[t + 1] == text[t]);
        CHECK(memcmp(batch->labels, cases[i].labels, sizeof cases[i].labels) == 0);
        CHECK(batch->labels[6] == -100);
        loader_destroy(loader);
        free(text);
    }
}

/* The recipe's packing golden: 15 full rows of 1024 and a rest. */
static void test_golden(void)
{
    const char *path = stores_path("periodic.h5");
    char *sequences[STORES_PERIODIC];
    stores_periodic(sequences);
    stores_write(path, sequences, STORES_PERIODIC);
    stores_free(sequences, STORES_PERIODIC);
    struct loader_settings settings = small_settings(path);
    settings.row_tokens = settings.window = 1024;
    settings.overlap = 200;
    settings.max_segments = 64;
    settings.global_rows = 1000; /* more than there are */
    settings.micro_rows = 1;
    settings.once = true;
    struct loader *loader = create(&settings, 0, 1);
    CHECK(loader_windows(loader) == 17 && loader_window_tokens(loader) == 15834);
    CHECK(loader_steps_once(loader) == 1 && loader_micro_batches(loader) == 16);
    const struct batch *batches = loader_next(loader);
    for (int row = 0; row < 15; row++)
        CHECK(batches[row].real == 1024);
    CHECK(batches[15].real == 15834 - 15 * 1024);
    loader_destroy(loader);
}

/* A global batch, put together from all ranks, as text that equals another's exactly when the batches do. */
static void push_global(struct read_stream *stream, struct loader *const *loaders, int ranks,
                        const struct loader_settings *settings)
{
    const struct batch *steps[4];
    int64_t empty = 0;
    for (int r = 0; r < ranks; r++)
        steps[r] = loader_next(loaders[r]);
    int64_t slots = loader_micro_batches(loaders[0]) * ranks * settings->micro_rows;
    for (int64_t g = 0; g < slots; g++) {
        int64_t group = g / settings->micro_rows, row = g % settings->micro_rows;
        const struct batch *batch = &steps[group % ranks][group / ranks];
        if (g >= settings->global_rows) {
            empty += batch->segment_length[row * batch->max_segments] != 0;
            continue;
        }
        for (int64_t s = 0; s < batch->max_segments; s++)
            push(stream, batch->segment_start[row * batch->max_segments + s] - (int32_t)(row * batch->row_tokens),
                 batch->segment_length[row * batch->max_segments + s]);
        for (int64_t t = row * batch->row_tokens; t < (row + 1) * batch->row_tokens; t++)
            push(stream, batch->tokens[t], batch->labels[t]);
    }
    CHECK(empty == 0);
}

/* Where no segment is, the start means nothing. */
static void forget_starts(struct read_stream *stream)
{
    for (int64_t i = 0; i < stream->count; i++)
        if (stream->pairs[2 * i + 1] == 0)
            stream->pairs[2 * i] = 0;
}

/* Of those settings whatever the ranks and rows of a micro-batch. */
static void test_ranks(const struct loader_settings *base)
{
    enum { STEPS = 12 };
    struct read_stream reference = {0};
    for (int ranks = 1; ranks <= 4; ranks++)
        for (int64_t micro = 1; micro <= 3; micro++) {
            struct loader_settings settings = *base;
            settings.micro_rows = micro;
            struct loader *loaders[4];
            struct read_stream got = {0};
            for (int r = 0; r < ranks; r++)
                loaders[r] = create(&settings, r, ranks);
            for (int step = 0; step < STEPS; step++)
                push_global(&got, loaders, ranks, &settings);
            forget_starts(&got);
            for (int r = 0; r < ranks; r++)
                loader_destroy(loaders[r]);
            if (reference.count == 0) {
                reference = got;
                continue;
            }
            CHECK(got.count == reference.count && memcmp(got.pairs, reference.pairs, (size_t)got.count * 8) == 0);
            free(got.pairs);
        }
    /* restart after every step, in a new loader on another number of ranks and by seeking back in the old one */
    struct loader_settings settings = *base;
    settings.micro_rows = 1;
    int64_t step_pairs = reference.count / STEPS;
    struct loader *whole = create(&settings, 0, 1);
    struct blend_position start = loader_position(whole);
    for (int step = 0; step < STEPS; step++) {
        struct blend_position position = loader_position(whole);
        struct loader *loaders[2] = {create(&settings, 0, 2), create(&settings, 1, 2)};
        struct read_stream got = {0}, plain = {0};
        for (int r = 0; r < 2; r++)
            loader_seek(loaders[r], &position);
        push_global(&got, loaders, 2, &settings);
        push_global(&plain, &whole, 1, &settings);
        forget_starts(&got);
        forget_starts(&plain);
        const int32_t *wanted = reference.pairs + 2 * step * step_pairs;
        CHECK(got.count == step_pairs && memcmp(got.pairs, wanted, (size_t)step_pairs * 8) == 0);
        CHECK(plain.count == step_pairs && memcmp(plain.pairs, wanted, (size_t)step_pairs * 8) == 0);
        struct blend_position after = loader_position(loaders[1]), also = loader_position(whole);
        CHECK(memcmp(&after, &also, sizeof after) == 0);
        for (int r = 0; r < 2; r++)
            loader_destroy(loaders[r]);
        free(got.pairs);
        free(plain.pairs);
    }
    struct read_stream again = {0};
    loader_seek(whole, &start);
    push_global(&again, &whole, 1, &settings);
    forget_starts(&again);
    CHECK(memcmp(again.pairs, reference.pairs, (size_t)step_pairs * 8) == 0);
    CHECK(loader_wait_seconds(whole) >= 0);
    loader_destroy(whole);
    free(again.pairs);
    free(reference.pairs);
}

/* Random data, in each kind of rows, masked and not. */
static void test_random(void)
{
    for (int variant = 0; variant < 8; variant++) {
        struct loader_settings settings = small_settings(NULL);
        settings.random = (struct random_windows_settings){"esm2", 33, variant & 1 ? 30 : 0, variant & 1 ? 50 : 0};
        settings.mask_probability = variant & 2 ? 0.15 : 0;
        settings.format = variant & 4 ? LOADER_PADDED : LOADER_PACKED;
        settings.split = variant != 1;
        test_ranks(&settings);
    }
}

/* -- Several stores ---------------------------------------------------------------------------------------------- */

/* `count` windows of 62 bases each, as a store. */
static void write_windows(const char *path, int64_t count)
{
    char *text = memory_grow(NULL, 62 * count + 1);
    memset(text, 'A', (size_t)(62 * count));
    text[62 * count] = '\0';
    stores_write(path, &text, 1);
    free(text);
}

/* What a blend of stores must do, window by window: shares kept at every prefix, each store's windows each once in each
 * of its epochs, other orders for equal stores, and from any position the same windows again. */
static void walk_blend(const struct window_source *const *windows, const double *weights, int stores,
                       double most_behind)
{
    enum { WALK = 3000, AGAIN = 40 };
    static struct {
        int store;
        int64_t start;
    } walked[WALK];
    const struct blend_settings settings = {.shuffle = true, .seed = 11};
    struct blend blend = blend_create(&settings, windows, weights, stores), other = blend;
    int64_t given[BLEND_STORES] = {0}, wrong = 0;
    int64_t *seen[BLEND_STORES];
    struct blend_position *positions = memory_allocate(WALK * (int64_t)sizeof *positions);
    double ahead = 0, behind = 0;
    long double sum = 0; /* reaches beyond doubles, as weights may together */
    for (int d = 0; d < stores; d++) {
        seen[d] = memory_allocate(windows[d]->windows * (int64_t)sizeof *seen[d]);
        sum += weights != NULL ? weights[d] : (double)windows[d]->windows;
    }
    for (int i = 0; i < WALK; i++) {
        int d;
        positions[i] = blend.position;
        struct window window = blend_window(&blend, &d);
        int64_t count = windows[d]->windows, epoch = given[d] / count;
        wrong += blend.position.epoch[d] != epoch || blend.position.window[d] != given[d] % count;
        wrong += seen[d][window.start / 62]++ != epoch;
        struct shuffle order = shuffle_create(count, settings.seed, (int64_t)d << 48 | epoch);
        wrong += window.start != 62 * shuffle_at(&order, given[d] % count);
        walked[i].store = d;
        walked[i].start = window.start;
        blend_advance(&blend, d);
        given[d]++;
        for (int k = 0; k < stores; k++) {
            double weight = weights != NULL ? weights[k] : (double)windows[k]->windows;
            double owed = (double)(weight / sum) * (i + 1) - (double)given[k];
            ahead = fmax(ahead, -owed);
            behind = fmax(behind, owed);
        }
    }
    CHECK(wrong == 0);
    CHECK(ahead < 1);
    if (!check_report(__FILE__, __LINE__, behind < most_behind, "no store falls behind"))
        fprintf(stderr, "    %g windows behind, bound %g\n", behind, most_behind);
    for (int i = 0; i < WALK - AGAIN; i += 37) {
        blend_seek(&other, &positions[i]);
        for (int k = i; k < i + AGAIN; k++) {
            int d;
            struct window window = blend_window(&other, &d);
            wrong += d != walked[k].store || window.start != walked[k].start;
            blend_advance(&other, d);
        }
    }
    CHECK(wrong == 0);
    for (int d = 0; d < stores; d++)
        memory_free(seen[d]);
    memory_free(positions);
}

static void test_blend(void)
{
    enum { STORES = 8 };
    static const int64_t counts[STORES] = {40, 40, 7, 300, 1, 40, 13, 90};
    struct token_store *stores[STORES];
    struct windows *opened[STORES];
    const struct window_source *windows[BLEND_STORES];
    const struct windows_layout layout = {64, 0, WINDOWS_EACH};
    for (int d = 0; d < STORES; d++) {
        char name[32];
        snprintf(name, sizeof name, "blend%d.h5", d);
        write_windows(stores_path(name), counts[d]);
        CHECK(token_store_open(&stores[d], stores_path(name)) == ERROR_NONE);
        CHECK(windows_open(&opened[d], stores[d], &layout, world) == ERROR_NONE);
    }
    for (int d = 0; d < BLEND_STORES; d++)
        windows[d] = &opened[d % STORES]->source;
    walk_blend(windows, NULL, 1, 1e-9);
    struct blend equal = blend_create(&(struct blend_settings){.shuffle = true}, windows, NULL, 2);
    for (int i = 0, d; i < 20; i++) { /* of equals the first */
        blend_window(&equal, &d);
        CHECK(d == i % 2);
        blend_advance(&equal, d);
    }
    for (int stores_used = 2; stores_used <= 3; stores_used++) {
        static const double weights[][3] = {{1, 1, 1}, {2, 1, 1}, {0.3, 0.7, 0.2}, {1e-3, 1, 5}, {1e300, 1e308, 1e308}};
        walk_blend(windows, NULL, stores_used, 1);
        for (size_t i = 0; i < sizeof weights / sizeof *weights; i++)
            walk_blend(windows, weights[i], stores_used, 1);
    }
    for (uint64_t trial = 0; trial < 40; trial++) { /* weights over three orders of magnitude */
        struct random_key key = {8, RANDOM_TEST, trial};
        double weights[BLEND_STORES];
        for (uint64_t d = 0; d < BLEND_STORES; d++)
            weights[d] = pow(10, 3 * random_uniform(&key, d));
        walk_blend(windows, weights, 4 + (int)trial % (BLEND_STORES - 3), 2);
    }
    for (int d = 0; d < STORES; d++) {
        windows_close(opened[d]);
        token_store_close(stores[d]);
    }
}

/* The position in a stream of windows, each of which begins with BOS, behind the window that begins at `at`. */
static int64_t window_end(const struct read_stream *stream, int64_t at)
{
    do
        at++;
    while (at < stream->count && stream->pairs[2 * at] != 2);
    return at;
}

/* The loader's tokens and labels of two stores are those of each alone, taken in turns by the rule. */
static void test_two_stores(const char *both, const char *weights, double first_share, char *const *texts)
{
    struct loader_settings settings = small_settings(both);
    settings.weights = weights;
    struct read_stream parts[2] = {{0}}, wanted = {0}, got = {0};
    for (int64_t epoch = 0; epoch < 6; epoch++) {
        push_epoch(&parts[0], &settings, texts, TEXTS, epoch);
        push_epoch(&parts[1], &settings, texts + SECOND, TEXTS - SECOND, (int64_t)1 << 48 | epoch);
    }
    int64_t at[2] = {0, 0}, given[2] = {0, 0};
    while (at[0] < parts[0].count && at[1] < parts[1].count) {
        double all = (double)(given[0] + given[1] + 1);
        int d = (1 - first_share) * all - (double)given[1] > first_share * all - (double)given[0];
        int64_t end = window_end(&parts[d], at[d]);
        for (; at[d] < end; at[d]++)
            push(&wanted, parts[d].pairs[2 * at[d]], parts[d].pairs[2 * at[d] + 1]);
        given[d]++;
    }
    struct loader *loader = create(&settings, 0, 1);
    while (got.count < wanted.count - 7 * 96)
        push_step(&got, loader_next(loader), loader_micro_batches(loader), &settings);
    CHECK(got.count <= wanted.count && memcmp(got.pairs, wanted.pairs, (size_t)got.count * 8) == 0);
    CHECK((loader_window_tokens(loader) == (parts[0].count + parts[1].count) / 6));
    loader_destroy(loader);
    free(parts[0].pairs);
    free(parts[1].pairs);
    free(wanted.pairs);
    free(got.pairs);
}

static void test_store_lists(const char *first, const char *second)
{
    static const struct {
        const char *format, *weights;
    } mistakes[] = {{"%s,%s", "1"},     {"%s,%s", "1,2,3"},   {"%s,%s", "1,0"},   {"%s,%s", "1,-2"}, {"%s,%s", "1,nan"},
                    {"%s,%s", "inf,1"}, {"%s,%s", "1,1e999"}, {"%s,%s", "1,two"}, {"%s,%s", "1,"},   {"%s,%s", "1 2,3"},
                    {"%s,,%s", ""},     {"%s , %s,", ""},     {",%s,%s", ""},     {"%s,%s.no", ""}};
    struct loader *loader;
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        char list[1024];
        snprintf(list, sizeof list, mistakes[i].format, first, second);
        struct loader_settings settings = small_settings(list);
        settings.weights = mistakes[i].weights;
        CHECK(loader_create(&loader, &settings, world, world, 0, 1) == ERROR_USER && loader == NULL);
    }
    char many[40000] = "";
    for (int d = 0; d < BLEND_STORES; d++)
        strcat(strcat(many, d == 0 ? "" : ", "), first);
    struct loader_settings settings = small_settings(many);
    settings.weights = "";
    loader = create(&settings, 0, 1);
    CHECK(loader_position(loader).stores == BLEND_STORES);
    loader_destroy(loader);
    strcat(strcat(many, ","), second);
    CHECK(loader_create(&loader, &settings, world, world, 0, 1) == ERROR_USER);

    /* one store's checksum stays its own; several have one that knows their order */
    char one_two[1024], two_one[1024];
    snprintf(one_two, sizeof one_two, "%s,%s", first, second);
    snprintf(two_one, sizeof two_one, "%s,%s", second, first);
    const char *const lists[] = {first, second, one_two, two_one};
    uint64_t checksums[4];
    for (int i = 0; i < 4; i++) {
        settings = small_settings(lists[i]);
        settings.weights = "";
        loader = create(&settings, 0, 1);
        checksums[i] = loader_checksum(loader);
        loader_destroy(loader);
        for (int k = 0; k < i; k++)
            CHECK(checksums[i] != checksums[k]);
    }
    struct token_store *store;
    CHECK(token_store_open(&store, first) == ERROR_NONE && store->checksum == checksums[0]);
    token_store_close(store);
}

/* One pass: everything once, then empty rows, and the same again after a seek to the start. */
static void test_once(const char *store, char *const *texts)
{
    for (int variant = 0; variant < 4; variant++) {
        struct loader_settings settings = small_settings(store);
        settings.once = true;
        settings.shuffle = variant & 1;
        settings.format = variant & 2 ? LOADER_PADDED : LOADER_PACKED;
        struct read_stream wanted = {0};
        push_epoch(&wanted, &settings, texts, TEXTS, 0);
        struct loader *loader = create(&settings, 0, 1);
        for (int pass = 0; pass < 2; pass++) {
            struct read_stream got = {0};
            loader_seek(loader, &(struct blend_position){0});
            for (int64_t step = 0; step < loader_steps_once(loader); step++) {
                CHECK(got.count < wanted.count);
                push_step(&got, loader_next(loader), loader_micro_batches(loader), &settings);
            }
            CHECK(got.count == wanted.count && memcmp(got.pairs, wanted.pairs, (size_t)got.count * 8) == 0);
            const struct batch *batches = loader_next(loader);
            for (int64_t m = 0; m < loader_micro_batches(loader); m++)
                CHECK(batches[m].real == 0 && batches[m].valid == 0);
            free(got.pairs);
        }
        loader_destroy(loader);
        free(wanted.pairs);
    }
}

/* A group of two in one process: what its rank 0 broadcasts waits in a queue for rank 1. */
static struct {
    unsigned char *bytes;
    int64_t written, read, room;
} queue;

static void queue_broadcast(struct comm *comm, void *data, int64_t bytes, int root)
{
    (void)root;
    if (comm->rank == 0) {
        if (queue.written + bytes > queue.room) {
            queue.room = 2 * (queue.written + bytes);
            queue.bytes = memory_grow(queue.bytes, queue.room);
        }
        memcpy(queue.bytes + queue.written, data, (size_t)bytes);
        queue.written += bytes;
    } else {
        memcpy(data, queue.bytes + queue.read, (size_t)bytes);
        queue.read += bytes;
    }
}

static void test_group(const char *store)
{
    static const struct comm_class class = {.broadcast = queue_broadcast};
    struct comm members[2] = {{0, 2, &class, NULL}, {1, 2, &class, NULL}};
    struct loader_settings settings = small_settings(store);
    struct loader *loaders[2];
    for (int r = 0; r < 2; r++)
        CHECK(loader_create(&loaders[r], &settings, world, &members[r], 0, 1) == ERROR_NONE);
    for (int step = 0; step < 6; step++) {
        const struct batch *sent = loader_next(loaders[0]), *received = loader_next(loaders[1]);
        for (int64_t m = 0; m < loader_micro_batches(loaders[0]); m++) {
            CHECK(memcmp(sent[m].tokens, received[m].tokens, (size_t)batch_bytes(&sent[m])) == 0);
            CHECK(sent[m].valid == received[m].valid && sent[m].real == received[m].real);
        }
        struct blend_position a = loader_position(loaders[0]), b = loader_position(loaders[1]);
        CHECK(memcmp(&a, &b, sizeof a) == 0);
        CHECK(queue.read == queue.written);
    }
    for (int r = 0; r < 2; r++)
        loader_destroy(loaders[r]);
    free(queue.bytes);
}

/* Each mistake is the user's, whatever else is right. comm_agree prints the messages. */
static void test_mistakes(const char *store)
{
    enum { MISTAKES = 9 };
    for (int i = 0; i < MISTAKES; i++) {
        struct loader_settings settings = small_settings(store);
        int64_t *const places[MISTAKES] = {&settings.row_tokens,  &settings.window,     &settings.window,
                                           &settings.overlap,     &settings.overlap,    &settings.max_segments,
                                           &settings.global_rows, &settings.micro_rows, &settings.micro_rows};
        static const int64_t values[MISTAKES] = {100, 97, 3, 62, -1, 0, 0, 0, (int64_t)1 << 31};
        *places[i] = values[i];
        struct loader *loader;
        CHECK(loader_create(&loader, &settings, world, world, 0, 1) == ERROR_USER && loader == NULL);
    }
    struct loader_settings settings = small_settings(stores_path("absent.h5"));
    struct loader *loader;
    CHECK(loader_create(&loader, &settings, world, world, 0, 1) == ERROR_USER);
    char *nothing[] = {memory_string("")};
    settings.stores = stores_path("nothing.h5");
    stores_write(settings.stores, nothing, 1);
    CHECK(loader_create(&loader, &settings, world, world, 0, 1) == ERROR_USER);
    free(nothing[0]);
}

static int64_t private_bytes(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    long long kilobytes = 0;
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        sscanf(line, "RssAnon: %lld", &kilobytes);
    if (file != NULL)
        fclose(file);
    return kilobytes * 1024;
}

static void add_attribute(hid_t file, const char *name, hid_t type, const void *value)
{
    hid_t space = H5Screate(H5S_SCALAR), attribute = H5Acreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    H5Awrite(attribute, type, value);
    H5Aclose(attribute);
    H5Sclose(space);
}

/* A store of `records` sequences of `length` tokens whose tokens are a hole in the file. */
static void write_sparse(const char *path, int64_t records, int64_t length)
{
    enum { CHUNK = 1 << 20 };
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), layout = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_alloc_time(layout, H5D_ALLOC_TIME_EARLY);
    H5Pset_fill_time(layout, H5D_FILL_TIME_NEVER);
    static const char *const names[] = {"tokens", "names", "offsets"};
    const hid_t types[] = {H5T_STD_U8LE, H5T_STD_U8LE, H5T_STD_I64LE};
    const hsize_t counts[] = {(hsize_t)(records * length), 0, (hsize_t)(records + 1)};
    for (int i = 0; i < 3; i++) {
        hid_t space = H5Screate_simple(1, &counts[i], NULL);
        hid_t dataset = H5Dcreate2(file, names[i], types[i], space, H5P_DEFAULT, layout, H5P_DEFAULT);
        int64_t *chunk = memory_allocate(CHUNK * 8);
        for (int64_t from = 0; i == 2 && from <= records; from += CHUNK) {
            hsize_t start = (hsize_t)from, count = (hsize_t)(records + 1 - from < CHUNK ? records + 1 - from : CHUNK);
            for (hsize_t k = 0; k < count; k++)
                chunk[k] = (from + (int64_t)k) * length;
            hid_t part = H5Screate_simple(1, &count, NULL);
            H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &count, NULL);
            H5Dwrite(dataset, H5T_NATIVE_INT64, part, space, H5P_DEFAULT, chunk);
            H5Sclose(part);
        }
        memory_free(chunk);
        H5Dclose(dataset);
        H5Sclose(space);
    }
    H5Pclose(layout);
    hid_t string = H5Tcopy(H5T_C_S1);
    H5Tset_size(string, sizeof "nucleotide");
    int64_t version = STORE_VERSION, vocabulary = 256;
    uint64_t checksum = 1;
    add_attribute(file, "cistron_store", H5T_NATIVE_INT64, &version);
    add_attribute(file, "vocabulary", H5T_NATIVE_INT64, &vocabulary);
    add_attribute(file, "checksum", H5T_NATIVE_UINT64, &checksum);
    add_attribute(file, "tokenizer", string, "nucleotide");
    H5Tclose(string);
    H5Fclose(file);
}

/* 100 million records: offsets beyond 2^31, start-up within 10 s once the side file is there, flat private memory. */
static void test_large(void)
{
    const int64_t records = 100000000, length = 45;
    struct statvfs disk;
    if (statvfs(stores_folder, &disk) != 0 || (double)disk.f_bavail * (double)disk.f_frsize < 3e9) {
        printf("less than 3 GB free in %s: the large store is skipped\n", stores_folder);
        return;
    }
    const char *path = stores_path("large.h5");
    write_sparse(path, records, length);
    struct loader_settings settings = small_settings(path);
    double start = clock_seconds();
    struct loader *loader = create(&settings, 0, 1);
    double first = clock_seconds() - start;
    loader_destroy(loader);
    int64_t before = private_bytes();
    start = clock_seconds();
    loader = create(&settings, 0, 1);
    const struct batch *batches = loader_next(loader);
    double second = clock_seconds() - start;
    int64_t growth = private_bytes() - before;
    CHECK(batches[0].real == 2 * 96);
    CHECK(loader_windows(loader) == records && loader_window_tokens(loader) == records * (length + 2));
    loader_destroy(loader);
    printf("100 M records: side file made in %.2f s, start-up with it %.3f s, private memory %.2f MB more\n", first,
           second, (double)growth * 1e-6);
    CHECK(second < 10);
    CHECK(growth < 8000000);

    struct token_store *store;
    struct windows *windows;
    CHECK(token_store_open(&store, path) == ERROR_NONE);
    struct windows_layout layout = {settings.window, settings.overlap, WINDOWS_EACH};
    CHECK(windows_open(&windows, store, &layout, world) == ERROR_NONE);
    int64_t hint = 0;
    struct window last = windows_locate(windows, records - 1, &hint);
    CHECK(last.sequence == records - 1 && last.start == (records - 1) * length && last.length == length);
    CHECK(last.start > (int64_t)1 << 32);
    int32_t tokens[45];
    token_store_read(store, last.start, last.length, tokens);
    CHECK(tokens[44] == 0);
    windows_close(windows);
    token_store_close(store);
    unlink(path);
}

int main(void)
{
    stores_begin();
    world = comm_self();
    char *texts[TEXTS];
    make_texts(texts);
    char *store = memory_string(stores_path("texts.h5"));
    stores_write(store, texts, TEXTS);
    test_stream(store, texts);
    test_rows();
    test_labels();
    test_golden();
    struct loader_settings settings = small_settings(store);
    test_ranks(&settings);
    test_random();
    test_blend();
    char *second = memory_string(stores_path("second.h5"));
    stores_write(second, texts + SECOND, TEXTS - SECOND);
    char *both = memory_format("%s, %s", store, second);
    settings = small_settings(both);
    settings.weights = "1, 2.5";
    test_ranks(&settings);
    test_two_stores(both, "1, 2.5", 1 / 3.5, texts);
    /* windows of 62 bases, 11 of them shared: 14 + 1 + 1 + 1 + 2 + 8 + 1 + 30; the second's 2 + 8 + 1 + 30 */
    test_two_stores(both, "", 58 / 99.0, texts);
    test_store_lists(store, second);
    free(both);
    free(second);
    test_once(store, texts);
    test_group(store);
    test_mistakes(store);
    test_large();
    stores_free(texts, TEXTS);
    free(store);
    comm_destroy(world);
    stores_end();
    return check_end();
}
