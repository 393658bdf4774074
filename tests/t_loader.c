/* The loader matches a plain model of its stream: every window's tokens and labels in the order of the permutation,
 * epoch after epoch, for every way in which rows divide the stream. */
#include "loader_stream.h"

#include <math.h>

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
        settings.no_bos = variant % 3 == 1;
        settings.no_eos = variant % 5 > 2;
        settings.reverse_complement = settings.special == LOADER_SPECIAL_WINDOW ? variant / 8 % 3 * 0.5 : 0;
        struct read_stream wanted = {0}, got = {0};
        for (int64_t epoch = 0; epoch < 4; epoch++)
            push_epoch(&wanted, &settings, texts, TEXTS, epoch);
        struct loader *loader = create(&settings, 0, 1);
        CHECK(loader_window_tokens(loader) * 4 == wanted.count);
        while (got.count <= wanted.count * 3 / 4)
            push_step(&got, loader_next(loader), loader_micro_batches(loader), &settings);
        CHECK(got.count <= wanted.count && memcmp(got.pairs, wanted.pairs, (size_t)got.count * 8) == 0);
        struct blend_position position = loader_position(loader);
        CHECK(position.epoch[0] == 3);
        blend_position_destroy(&position);
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
    stores_write_periodic(path);
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
            loader_seek(loader, &(struct blend_position){0}, 0);
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

/* Half of the windows of long rows are reversed, others in each epoch; windows cut by a row's end stay whole. */
static void test_strands(const char *store)
{
    struct loader_settings settings = small_settings(store);
    struct read_stream plain = {0}, half = {0};
    for (int way = 0; way < 2; way++) {
        struct read_stream *got = way == 0 ? &plain : &half;
        settings.shuffle = false;
        settings.reverse_complement = way * 0.5;
        struct loader *loader = create(&settings, 0, 1);
        while (got->count < 2 * loader_window_tokens(loader))
            push_step(got, loader_next(loader), loader_micro_batches(loader), &settings);
        loader_destroy(loader);
    }
    int64_t same = 0, windows = 0;
    for (int64_t i = 0, next; i < half.count; i = next) { /* windows begin with BOS */
        bool equal = true;
        for (next = i + 1; next < half.count && half.pairs[2 * next] != 2; next++)
            equal &= half.pairs[2 * next] == plain.pairs[2 * next];
        windows += next - i > 30;
        same += next - i > 30 && equal;
    }
    printf("%lld of %lld windows are read forwards\n", (long long)same, (long long)windows);
    CHECK(windows > 60 && same > windows / 4 && same < windows * 3 / 4);
    free(plain.pairs);
    free(half.pairs);
}

/* loader_count_rows finds the rows up to the last token of the last window, which reading all rows finds too. */
static void test_epochs(const char *both)
{
    static const double epochs[] = {1, 2, 0.5, 1.37, 0.001};
    for (int variant = 0; variant < 20; variant++) {
        struct loader_settings settings = small_settings(both);
        settings.split = variant & 1;
        settings.format = variant & 2 ? LOADER_PADDED : LOADER_PACKED;
        settings.weights = "2, 1";
        const double wanted = epochs[variant / 4];
        struct loader *loader = create(&settings, 0, 1);
        const int64_t windows = (int64_t)fmax(floor(wanted * (double)loader_windows(loader) + 0.5), 1);
        int64_t rows = 0, read = 0, begun = 0, found = 0;
        while (begun <= windows) {
            const struct batch *batches = loader_next(loader);
            for (int64_t m = 0; m < loader_micro_batches(loader); m++)
                for (int64_t row = 0; row < batches[m].rows && m * batches[m].rows + row < settings.global_rows;
                     row++) {
                    read++;
                    for (int64_t s = 0; s < batches[m].max_segments; s++) {
                        const int64_t slot = row * batches[m].max_segments + s;
                        const bool there = batches[m].segment_length[slot] > 0;
                        begun += there && batches[m].tokens[batches[m].segment_start[slot]] == 2; /* BOS */
                        rows = there && begun <= windows ? read : rows;
                    }
                }
        }
        loader_destroy(loader);
        CHECK(loader_count_rows(&found, &settings, wanted, world) == ERROR_NONE);
        if (found != rows)
            printf("variant %d, %g epochs: %lld rows, counted %lld\n", variant, wanted, (long long)rows,
                   (long long)found);
        CHECK(found == rows);
    }
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
        CHECK(loader_create(&loader, &settings, world, 0, 1) == ERROR_USER && loader == NULL);
    }
    struct loader_settings settings = small_settings(store);
    struct loader *loader;
    settings.reverse_complement = 0.5;
    settings.special = LOADER_SPECIAL_SEQUENCE;
    CHECK(loader_create(&loader, &settings, world, 0, 1) == ERROR_USER);
    settings = small_settings(stores_path("absent.h5"));
    CHECK(loader_create(&loader, &settings, world, 0, 1) == ERROR_USER);
    char *nothing[] = {memory_string("")};
    settings.stores = stores_path("nothing.h5");
    stores_write(settings.stores, nothing, 1);
    CHECK(loader_create(&loader, &settings, world, 0, 1) == ERROR_USER);
    free(nothing[0]);
}

int main(void)
{
    struct texts texts;
    texts_begin(&texts);
    test_stream(texts.first, texts.all);
    test_rows();
    test_labels();
    test_golden();
    test_once(texts.first, texts.all);
    test_strands(texts.first);
    test_epochs(texts.both);
    test_mistakes(texts.first);
    return texts_end(&texts);
}
