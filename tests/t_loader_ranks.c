/* The global batches are equal on 1 to 4 ranks and after a restart in mid-epoch: from one store, two stores, a Megatron
 * data set with a store, and random data. Load balancing assigns rows by cost. */
#include "loader/balance.h"
#include "loader_stream.h"

#include <math.h>

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

static bool has_full_rows(const struct batch *batch)
{
    bool full = batch->max_segments == 1;
    for (int64_t row = 0; row < batch->rows; row++)
        full = full && batch->segment_length[row * batch->max_segments] == batch->row_tokens;
    return full;
}

/* Of windows most of which fill their rows: ranks say the same of micro-batches that they compute at the same time, and
 * it is so of all of them. */
static void test_full_rows(struct loader_settings settings, int ranks)
{
    enum { STEPS = 12 };
    int64_t said[2] = {0};
    struct loader *loaders[4];
    settings.random = (struct random_windows_settings){"esm2", 33, 900, 1000};
    settings.global_rows = 23; /* the last micro-batches are not whole */
    settings.window = settings.row_tokens;
    for (int r = 0; r < ranks; r++)
        loaders[r] = create(&settings, r, ranks);
    for (int step = 0; step < STEPS; step++) {
        const struct batch *batches[4];
        for (int r = 0; r < ranks; r++)
            batches[r] = loader_next(loaders[r]);
        for (int64_t m = 0; m < loader_micro_batches(loaders[0]); m++) {
            bool full = true;
            for (int r = 0; r < ranks; r++)
                full = full && has_full_rows(&batches[r][m]);
            for (int r = 0; r < ranks; r++)
                CHECK(batches[r][m].full == full);
            said[full]++;
        }
    }
    CHECK(said[false] > 0 && (said[true] > 0) == (settings.format == LOADER_PADDED));
    for (int r = 0; r < ranks; r++)
        loader_destroy(loaders[r]);
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
        settings.balance = variant & 1;
        settings.micro_rows = 1 + (variant & 1);
        test_full_rows(settings, 1 + variant % 4);
    }
}

/* -- Micro-batches balanced by cost (loader/balance.h) ------------------------------------------------------------- */

static void test_assignment(void)
{
    static const struct {
        int64_t costs[6], rounds, ranks, places[6];
    } cases[] = {
        {{5, 1, 9, 4}, 2, 2, {1, 2, 0, 3}},             /* 9 and 5, then 1 and 4 */
        {{3, 3, 3, 3, 0, 0}, 3, 2, {0, 1, 2, 3, 4, 5}}, /* as they are */
        {{1, 2, 3}, 1, 3, {2, 1, 0}},
        {{1, 2, 3, 4, 5, 8}, 2, 3, {3, 4, 5, 2, 1, 0}}, /* 8, 5, 4, then 1, 2, 3 */
        {{1, 3, 9, 2, 2, 3}, 3, 2, {4, 1, 0, 2, 5, 3}}, /* 9 and 3, 2 and 3, then 1 and 2 */
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        int64_t places[6];
        balance_micro_batches(cases[c].costs, cases[c].rounds, cases[c].ranks, places);
        for (int64_t k = 0; k < cases[c].rounds * cases[c].ranks; k++)
            CHECK(places[k] == cases[c].places[k]);
    }
}

/* Twice the pairs, but for the diagonal: 5 tokens that see 2 each have 5 * 2 - 1 pairs, of 25 without a window. */
static void test_cost(void)
{
    CHECK(balance_cost(5, 0) == 25 && balance_cost(5, 5) == 25 && balance_cost(5, 9) == 25);
    CHECK(balance_cost(5, 2) == 25 - 9 && balance_cost(5, 1) == 9);
}

static double cost_of(const struct batch *batch)
{
    double cost = 0;
    for (int64_t s = 0; s < batch->rows * batch->max_segments; s++)
        cost += (double)batch->segment_length[s] * batch->segment_length[s];
    return cost;
}

enum { BALANCED_ROWS = 71, MOST_MICRO_BATCHES = 72 };

/* The next step of some ranks: its micro-batches by their numbers, and by how much the costs of the dearest ranks
 * exceed the mean's, where ranks wait for each other in each round and where they wait once. */
struct balanced_step {
    const struct batch *batches[MOST_MICRO_BATCHES];
    int64_t places[MOST_MICRO_BATCHES]; /* round * ranks + rank */
    int64_t count;
    double lost[2];
};

static struct balanced_step next_step(struct loader *const *loaders, int ranks, int64_t step)
{
    const int64_t rounds = loader_micro_batches(loaders[0]);
    struct balanced_step balanced = {.count = rounds * ranks};
    double sums[4] = {0}, most[2] = {0}, mean = 0;
    const struct batch *own[4];
    for (int r = 0; r < ranks; r++)
        own[r] = loader_next(loaders[r]);
    for (int64_t m = 0; m < rounds; m++) {
        double round = 0;
        for (int r = 0; r < ranks; r++) {
            const struct batch *batch = &own[r][m];
            const int64_t k = batch->number - step * ((int64_t)1 << 32);
            CHECK(k >= 0 && k < balanced.count && balanced.batches[k] == NULL);
            if (k >= 0 && k < balanced.count) {
                balanced.batches[k] = batch;
                balanced.places[k] = m * ranks + r;
            }
            sums[r] += cost_of(batch);
            mean += cost_of(batch) / ranks;
            round = fmax(round, cost_of(batch));
        }
        most[0] += round;
    }
    for (int r = 0; r < ranks; r++)
        most[1] = fmax(most[1], sums[r]);
    for (int once = 0; once < 2; once++)
        balanced.lost[once] = most[once] - mean;
    return balanced;
}

/* One rank may have fewer micro-batches: those that are empty. */
static bool same_step(const struct balanced_step *a, const struct balanced_step *b)
{
    bool same = true;
    for (int64_t k = 0; k < a->count && k < b->count; k++)
        same = same && memcmp(a->batches[k]->tokens, b->batches[k]->tokens, (size_t)batch_bytes(a->batches[k])) == 0 &&
               a->batches[k]->valid == b->batches[k]->valid && a->batches[k]->real == b->batches[k]->real;
    for (int64_t k = a->count; k < b->count; k++)
        same = same && b->batches[k]->real == 0;
    return same;
}

/* The same micro-batches in every step on any number of ranks, balanced or not; balanced, the dearest ranks exceed the
 * mean by at most a third as much. A loader that begins again at every other step, where one rank is, has each where it
 * was.
 */
static void test_balance(int ranks, int64_t micro_rows)
{
    enum { STEPS = 12 };
    struct loader_settings settings = small_settings(NULL);
    settings.random = (struct random_windows_settings){"esm2", 33, 60, 150};
    settings.row_tokens = settings.window = 512;
    settings.max_segments = 16;
    settings.global_rows = BALANCED_ROWS;
    settings.micro_rows = micro_rows;
    settings.mask_probability = 0.15;
    struct loader *plain[4], *balanced[4], *again[4], *whole = create(&settings, 0, 1);
    double plain_lost[2] = {0}, balanced_lost[2] = {0};
    for (int r = 0; r < ranks; r++) {
        settings.balance = false;
        plain[r] = create(&settings, r, ranks);
        settings.balance = true;
        balanced[r] = create(&settings, r, ranks);
        again[r] = create(&settings, r, ranks);
    }
    for (int step = 0; step < STEPS; step++) {
        struct blend_position position = loader_position(whole);
        for (int r = 0; r < ranks && step % 2 == 1; r++)
            loader_seek(again[r], &position, step);
        blend_position_destroy(&position);
        const struct balanced_step a = next_step(&whole, 1, step), b = next_step(plain, ranks, step);
        const struct balanced_step c = next_step(balanced, ranks, step), d = next_step(again, ranks, step);
        CHECK(same_step(&a, &b) && same_step(&b, &c) && same_step(&c, &d));
        CHECK(memcmp(c.places, d.places, sizeof c.places) == 0);
        for (int once = 0; once < 2; once++) {
            plain_lost[once] += b.lost[once];
            balanced_lost[once] += c.lost[once];
        }
    }
    for (int once = 0; once < 2; once++)
        CHECK(3 * balanced_lost[once] <= plain_lost[once] && (plain_lost[once] > 0) == (ranks > 1));
    for (int r = 0; r < ranks; r++) {
        loader_destroy(plain[r]);
        loader_destroy(balanced[r]);
        loader_destroy(again[r]);
    }
    loader_destroy(whole);
}

/* Validation: one pass. */
static void test_balance_once(const char *store, int ranks)
{
    struct loader_settings settings = small_settings(store);
    settings.balance = settings.once = true;
    struct loader *whole = create(&settings, 0, 1), *balanced[4];
    for (int r = 0; r < ranks; r++)
        balanced[r] = create(&settings, r, ranks);
    for (int64_t step = 0; step < loader_steps_once(whole); step++) {
        const struct balanced_step a = next_step(&whole, 1, step), b = next_step(balanced, ranks, step);
        CHECK(same_step(&a, &b));
    }
    loader_destroy(whole);
    for (int r = 0; r < ranks; r++)
        loader_destroy(balanced[r]);
}

/* A Megatron data set and a store in one stream. */
static void test_mixed(const struct texts *texts)
{
    const char *prefix = stores_path("set");
    char *paths = memory_format("%s, %s.idx", texts->first, prefix);
    stores_write_megatron(prefix, texts->all, TEXTS);
    struct loader_settings settings = small_settings(paths);
    settings.weights = "1, 3";
    settings.overlap = 0;
    settings.megatron = (struct megatron_settings){.tokenizer = "nucleotide", .parts = "90,10"};
    test_ranks(&settings);
    free(paths);
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
    test_mixed(&texts);
    test_random();
    test_numbers(texts.first);
    test_assignment();
    test_cost();
    for (int ranks = 1; ranks <= 4; ranks++) {
        for (int64_t micro_rows = 1; micro_rows <= 3; micro_rows++)
            test_balance(ranks, micro_rows);
        test_balance_once(texts.first, ranks);
    }
    return texts_end(&texts);
}
