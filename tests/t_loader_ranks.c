/* The same global batches on any number of ranks and after a restart, from one store, two, and random data. */
#include "loader_stream.h"

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

static bool same_place(const struct blend_position *a, const struct blend_position *b)
{
    const size_t bytes = (size_t)a->stores * sizeof *a->epoch;
    return a->stores == b->stores && a->offset == b->offset && memcmp(a->epoch, b->epoch, bytes) == 0 &&
           memcmp(a->window, b->window, bytes) == 0;
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
            loader_seek(loaders[r], &position, step);
        push_global(&got, loaders, 2, &settings);
        push_global(&plain, &whole, 1, &settings);
        forget_starts(&got);
        forget_starts(&plain);
        const int32_t *wanted = reference.pairs + 2 * step * step_pairs;
        CHECK(got.count == step_pairs && memcmp(got.pairs, wanted, (size_t)step_pairs * 8) == 0);
        CHECK(plain.count == step_pairs && memcmp(plain.pairs, wanted, (size_t)step_pairs * 8) == 0);
        struct blend_position after = loader_position(loaders[1]), also = loader_position(whole);
        CHECK(same_place(&after, &also));
        blend_position_destroy(&after);
        blend_position_destroy(&also);
        blend_position_destroy(&position);
        for (int r = 0; r < 2; r++)
            loader_destroy(loaders[r]);
        free(got.pairs);
        free(plain.pairs);
    }
    struct read_stream again = {0};
    loader_seek(whole, &start, 0);
    blend_position_destroy(&start);
    push_global(&again, &whole, 1, &settings);
    forget_starts(&again);
    CHECK(memcmp(again.pairs, reference.pairs, (size_t)step_pairs * 8) == 0);
    CHECK(loader_wait_seconds(whole) >= 0);
    loader_destroy(whole);
    free(again.pairs);
    free(reference.pairs);
}

static int by_number(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* No two micro-batches of a training have one number, whatever their ranks; from any step on, a loader that begins
 * there, or has been elsewhere before, gives the same ones again. */
static void test_numbers(const char *store)
{
    enum { RANKS = 3, STEPS = 9, MOST = RANKS * STEPS * 2 };
    struct loader_settings settings = small_settings(store);
    struct loader *loaders[RANKS];
    int64_t all[MOST], count = 0, wrong = 0;
    settings.micro_rows = 2; /* of 7 rows: rank 0 has two micro-batches with rows, the others one and an empty one */
    for (int r = 0; r < RANKS; r++)
        loaders[r] = create(&settings, r, RANKS);
    struct loader *wanderer = create(&settings, 1, RANKS);
    for (int step = 0; step < STEPS; step++) {
        struct blend_position position = loader_position(loaders[1]);
        CHECK(loader_step(loaders[1]) == step && loader_micro_batches(loaders[1]) == 2);
        loader_seek(wanderer, &position, step);
        const struct batch *again = loader_next(wanderer);
        for (int r = 0; r < RANKS; r++) {
            const struct batch *batches = loader_next(loaders[r]);
            for (int m = 0; m < 2; m++) {
                wrong += r == 1 && batches[m].number != again[m].number;
                all[count++] = batches[m].number;
            }
        }
        blend_position_destroy(&position);
    }
    CHECK(wrong == 0);
    qsort(all, MOST, sizeof all[0], by_number);
    for (int i = 1; i < MOST; i++)
        wrong += all[i] == all[i - 1];
    CHECK(wrong == 0);
    for (int r = 0; r < RANKS; r++)
        loader_destroy(loaders[r]);
    loader_destroy(wanderer);
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

int main(void)
{
    struct texts texts;
    texts_begin(&texts);
    struct loader_settings settings = small_settings(texts.first);
    test_ranks(&settings);
    settings = small_settings(texts.both);
    settings.weights = "1, 2.5";
    test_ranks(&settings);
    test_random();
    test_numbers(texts.first);
    return texts_end(&texts);
}
