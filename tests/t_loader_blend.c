/* Blends of several stores draw windows by their weights, which every prefix of the stream keeps; the loader's rows
 * follow. */
#include "loader/blend.h"
#include "data/token_store.h"
#include "data/windows.h"
#include "loader_stream.h"

#include <unistd.h>

enum { MANY = 32 };

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
    struct data_blend blend = blend_create(&settings, windows, weights, stores), other = blend_copy(&blend);
    int64_t given[MANY] = {0}, wrong = 0;
    int64_t *seen[MANY];
    struct blend_position *positions = memory_allocate(WALK * (int64_t)sizeof *positions);
    double ahead = 0, behind = 0;
    long double sum = 0; /* reaches beyond doubles, as weights may together */
    for (int d = 0; d < stores; d++) {
        seen[d] = memory_allocate(windows[d]->windows * (int64_t)sizeof *seen[d]);
        sum += weights != NULL ? weights[d] : (double)windows[d]->windows;
    }
    for (int i = 0; i < WALK; i++) {
        int d;
        positions[i] = blend_position_create(stores);
        blend_position_set(&positions[i], &blend.position);
        struct token_window window = blend_window(&blend, &d);
        int64_t count = windows[d]->windows, epoch = given[d] / count;
        wrong += blend.position.epoch[d] != epoch || blend.position.window[d] != given[d] % count;
        wrong += seen[d][window.start / 62]++ != epoch;
        struct index_shuffle order = shuffle_create(count, settings.seed, (int64_t)d << 48 | epoch);
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
            struct token_window window = blend_window(&other, &d);
            wrong += d != walked[k].store || window.start != walked[k].start;
            blend_advance(&other, d);
        }
    }
    CHECK(wrong == 0);
    for (int d = 0; d < stores; d++)
        memory_free(seen[d]);
    for (int i = 0; i < WALK; i++)
        blend_position_destroy(&positions[i]);
    memory_free(positions);
    blend_destroy(&blend);
    blend_destroy(&other);
}

/* From a blend of stores A, B to one of C, A, C: each new share holds from the first window on, A goes on in its order
 * where it was, and the two that begin have orders of their own. */
static void test_carry(const struct window_source *const *windows)
{
    enum { BEFORE = 50, AFTER = 60 };
    const struct window_source *const first[2] = {windows[0], windows[2]};
    const struct window_source *const second[3] = {windows[6], windows[0], windows[6]};
    static const double weights[2] = {1, 2}, others[3] = {1, 2, 1};
    static const int64_t from[3] = {-1, 0, -1};
    const struct blend_settings settings = {.shuffle = true, .seed = 11};
    struct data_blend old = blend_create(&settings, first, weights, 2),
                      blend = blend_create(&settings, second, others, 3);
    int64_t wrong = 0, given[3] = {0, 0, 0}, key[3] = {2, 0, 3}, passed = 0;
    for (int i = 0, d; i < BEFORE; i++) {
        blend_window(&old, &d);
        passed += d == 0;
        blend_advance(&old, d);
    }
    CHECK(passed == 17); /* of 50, a third */
    old.position.offset = 5;
    struct blend_position place = blend_carry(&blend, &old.position, from);
    CHECK(blend_has(&blend, &place) && place.offset == 0);
    blend_seek(&blend, &place);
    for (int i = 0, d; i < AFTER; i++) {
        const struct token_window window = blend_window(&blend, &d);
        const int64_t count = second[d]->windows, number = given[d] + (d == 1 ? passed : 0);
        struct index_shuffle order = shuffle_create(count, settings.seed, key[d] << 48 | (number / count));
        wrong += window.start != 62 * shuffle_at(&order, number % count);
        blend_advance(&blend, d);
        given[d]++;
        for (int k = 0; k < 3; k++)
            wrong += fabs(others[k] / 4 * (i + 1) - (double)given[k]) > 1;
    }
    CHECK(wrong == 0);
    CHECK(blend_has(&blend, &blend.position));
    place.before[1]++; /* more than it has given */
    CHECK(!blend_has(&blend, &place));
    place.before[1] = place.key[1] = -1;
    CHECK(!blend_has(&blend, &place));
    blend_position_destroy(&place);
    blend_destroy(&old);
    blend_destroy(&blend);
}

/* Known by content, each once; told by path what has changed there. */
static void test_provenance(void)
{
    struct data_provenance old = provenance_create(4), new_ = provenance_create(4);
    static const int64_t contents[2][4] = {{10, 20, 20, 30}, {20, 40, 30, 20}},
                         paths[2][4] = {{1, 2, 3, 4}, {1, 5, 6, 7}};
    int64_t from[4];
    memcpy(old.content, contents[0], sizeof contents[0]);
    memcpy(new_.content, contents[1], sizeof contents[1]);
    memcpy(old.path, paths[0], sizeof paths[0]);
    memcpy(new_.path, paths[1], sizeof paths[1]);
    CHECK(provenance_match(&old, &new_, from) == -1);
    CHECK(from[0] == 1 && from[1] == -1 && from[2] == 3 && from[3] == 2);
    new_.path[1] = 1; /* of 10, which is gone */
    CHECK(provenance_match(&old, &new_, from) == 1);
    new_.path[1] = 2; /* of 20, which lies elsewhere now */
    CHECK(provenance_match(&old, &new_, from) == -1);
    CHECK(provenance_path("a") != provenance_path("b"));
    provenance_destroy(&old);
    provenance_destroy(&new_);
}

static void test_blend(void)
{
    enum { STORES = 8 };
    static const int64_t counts[STORES] = {40, 40, 7, 300, 1, 40, 13, 90};
    struct token_store *stores[STORES];
    struct store_windows *opened[STORES];
    const struct window_source *windows[MANY];
    const struct windows_layout layout = {64, 0, WINDOWS_EACH, false, false};
    for (int d = 0; d < STORES; d++) {
        char name[32];
        snprintf(name, sizeof name, "blend%d.h5", d);
        write_windows(stores_path(name), counts[d]);
        CHECK(token_store_open(&stores[d], stores_path(name)) == ERROR_NONE);
        CHECK(windows_open(&opened[d], stores[d], &layout, world) == ERROR_NONE);
    }
    for (int d = 0; d < MANY; d++)
        windows[d] = &opened[d % STORES]->source;
    walk_blend(windows, NULL, 1, 1e-9);
    struct data_blend equal = blend_create(&(struct blend_settings){.shuffle = true}, windows, NULL, 2);
    for (int i = 0, d; i < 20; i++) { /* of equals the first */
        blend_window(&equal, &d);
        CHECK(d == i % 2);
        blend_advance(&equal, d);
    }
    blend_destroy(&equal);
    for (int stores_used = 2; stores_used <= 3; stores_used++) {
        static const double weights[][3] = {{1, 1, 1}, {2, 1, 1}, {0.3, 0.7, 0.2}, {1e-3, 1, 5}, {1e300, 1e308, 1e308}};
        walk_blend(windows, NULL, stores_used, 1);
        for (size_t i = 0; i < sizeof weights / sizeof *weights; i++)
            walk_blend(windows, weights[i], stores_used, 1);
    }
    test_carry(windows);
    test_provenance();
    for (uint64_t trial = 0; trial < 40; trial++) { /* weights over three orders of magnitude */
        struct random_key key = {8, RANDOM_TEST, trial};
        double weights[MANY];
        for (uint64_t d = 0; d < MANY; d++)
            weights[d] = pow(10, 3 * random_uniform(&key, d));
        walk_blend(windows, weights, 4 + (int)trial % (MANY - 3), 2);
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
        CHECK(loader_create(&loader, &settings, world, 0, 1) == ERROR_USER && loader == NULL);
    }
    /* by name and by a pattern, many stores; a place among them is found again */
    enum { SHARDS = 200 };
    char shard[400], list[1024];
    for (int d = 0; d < SHARDS; d++) {
        snprintf(shard, sizeof shard, "%s/shard%04d.h5", stores_folder, d);
        CHECK(link(d % 2 == 0 ? first : second, shard) == 0);
    }
    snprintf(list, sizeof list, "%s, %s/shard*.h5", second, stores_folder);
    struct loader_settings settings = small_settings(list);
    settings.weights = "";
    loader = create(&settings, 0, 1);
    struct read_stream steps[2] = {{0}};
    for (int step = 0; step < 30; step++)
        loader_next(loader);
    struct blend_position position = loader_position(loader);
    CHECK(position.stores == 1 + SHARDS && position.window[0] + position.epoch[0] > 0);
    CHECK(position.window[SHARDS] + position.epoch[SHARDS] > 0); /* many of them have given already */
    CHECK(loader_has_position(loader, &position));
    push_step(&steps[0], loader_next(loader), loader_micro_batches(loader), &settings);
    loader_seek(loader, &position, 30);
    push_step(&steps[1], loader_next(loader), loader_micro_batches(loader), &settings);
    CHECK(steps[0].count == steps[1].count && memcmp(steps[0].pairs, steps[1].pairs, (size_t)steps[0].count * 8) == 0);
    for (int i = 0; i < 2; i++)
        free(steps[i].pairs);
    blend_position_destroy(&position);
    loader_destroy(loader);
    /* too many, and a pattern of none */
    const int64_t bytes = (BLEND_STORES + 1) * (int64_t)(strlen(first) + 2);
    char *many = memory_allocate(bytes + 1), *end = many;
    for (int d = 0; d <= BLEND_STORES; d++)
        end = stpcpy(stpcpy(end, d == 0 ? "" : ", "), first);
    settings.stores = many;
    CHECK(loader_create(&loader, &settings, world, 0, 1) == ERROR_USER);
    memory_free(many);
    snprintf(list, sizeof list, "%s/splinter*.h5", stores_folder);
    settings.stores = list;
    CHECK(loader_create(&loader, &settings, world, 0, 1) == ERROR_USER);

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

int main(void)
{
    struct texts texts;
    texts_begin(&texts);
    test_blend();
    test_two_stores(texts.both, "1, 2.5", 1 / 3.5, texts.all);
    /* windows of 62 bases, 11 of them shared: 14 + 1 + 1 + 1 + 2 + 8 + 1 + 30; the second's 2 + 8 + 1 + 30 */
    test_two_stores(texts.both, "", 58 / 99.0, texts.all);
    test_store_lists(texts.first, texts.second);
    return texts_end(&texts);
}
