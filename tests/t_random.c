/* Random data has the lengths and tokens of its distributions; a window is equal whoever asks for it and when; the
 * windows of a sequence cover it. t_loader_ranks checks ranks and restarts. */
#include "base/error.h"
#include "base/memory.h"
#include "check.h"
#include "loader/loader.h"
#include "data/random_windows.h"

#include <stdlib.h>

enum { SEED = 17 };

static const struct windows_layout uncut = {(int64_t)1 << 40, 0, WINDOWS_EACH, false,
                                            false}; /* a sequence is one window */

static struct token_window locate(const struct random_windows *random, int64_t w)
{
    const struct window_source *source = random_windows_source(random);
    struct token_window window;
    source->class->locate(source->self, &w, 1, &window);
    return window;
}

static void read_tokens(const struct random_windows *random, const struct token_window *window, int64_t from,
                        int64_t count, int32_t *tokens)
{
    const struct window_source *source = random_windows_source(random);
    source->class->read(source->self, window, from, count, tokens);
}

/* Mean, median and the deviation of the logarithm, each within 5 standard deviations of a sample's. */
static void test_lengths(int64_t median, int64_t mean)
{
    enum { SEQUENCES = 200000 };
    const struct random_windows_settings settings = {"esm2", 33, median, mean};
    struct random_windows *random = random_windows_create(&settings, &uncut, SEED);
    const double sigma = sqrt(2 * log((double)mean / (double)median)), root = sqrt(SEQUENCES);
    double sum = 0, logs = 0, squares = 0, below = 0;
    int64_t wrong = 0;
    for (int64_t i = 0; i < SEQUENCES; i++) {
        struct token_window window = locate(random, i);
        double length = (double)window.length, distance = log(length / (double)median);
        wrong += window.sequence != i || window.start != 0 || !window.has_bos || !window.has_eos || length < 1;
        sum += length;
        logs += distance;
        squares += distance * distance;
        below += distance < 0 ? 1 : distance == 0 ? 0.5 : 0;
    }
    CHECK(wrong == 0);
    CHECK_NEAR(sum / SEQUENCES, (double)mean, 0, 5 * (double)mean * sqrt(expm1(sigma * sigma)) / root);
    CHECK_NEAR(logs / SEQUENCES, 0, 0, 5 * sigma / root);
    CHECK_NEAR(squares / SEQUENCES, sigma * sigma, 0, 5 * sigma * sigma * sqrt(2) / root);
    CHECK_NEAR(below / SEQUENCES, 0.5, 0, 5 * 0.5 / root);
    random_windows_destroy(random);
}

/* Pearson's sum of `cells` counts that should be equal, as standard deviations from its mean. */
static double excess(const int64_t *counts, int64_t cells, int64_t trials)
{
    double expected = (double)trials / (double)cells, sum = 0, freedom = (double)cells - 1;
    for (int64_t i = 0; i < cells; i++)
        sum += ((double)counts[i] - expected) * ((double)counts[i] - expected) / expected;
    return (sum - freedom) / sqrt(2 * freedom);
}

/* Every id from `first` on is as frequent as any other, and nothing else comes. */
static void test_tokens(const char *tokenizer, int64_t vocabulary, int32_t first, int64_t plain)
{
    enum { LENGTH = 100000, SEQUENCES = 20 };
    const struct random_windows_settings settings = {tokenizer, vocabulary, LENGTH, LENGTH};
    struct random_windows *random = random_windows_create(&settings, &uncut, SEED);
    int64_t *counts = memory_allocate(plain * (int64_t)sizeof *counts), wrong = 0;
    int32_t *tokens = memory_allocate(LENGTH * (int64_t)sizeof *tokens);
    for (int64_t s = 0; s < SEQUENCES; s++) {
        struct token_window window = locate(random, s);
        CHECK(window.length == LENGTH);
        read_tokens(random, &window, 0, LENGTH, tokens);
        for (int64_t t = 0; t < LENGTH; t++) {
            if (tokens[t] >= first && tokens[t] < first + plain)
                counts[tokens[t] - first]++;
            else
                wrong++;
        }
    }
    CHECK(wrong == 0);
    CHECK_NEAR(excess(counts, plain, (int64_t)LENGTH * SEQUENCES), 0, 0, 5);
    memory_free(counts);
    memory_free(tokens);
    random_windows_destroy(random);
}

/* Tokens know nothing of those near them, of those of the next sequence, or of another seed's. */
static void test_independence(void)
{
    enum { LENGTH = 400000, PLAIN = 28, FIRST = 4, LAGS = 8, OTHERS = 2 };
    const struct random_windows_settings settings = {"esm2", 33, LENGTH, LENGTH};
    struct random_windows *random[2];
    int32_t *tokens = memory_allocate(LENGTH * (int64_t)sizeof *tokens), *others[OTHERS];
    for (int i = 0; i < 2; i++)
        random[i] = random_windows_create(&settings, &uncut, SEED + (uint64_t)i);
    struct token_window window = locate(random[0], 0), next = locate(random[0], 1), same = locate(random[1], 0);
    read_tokens(random[0], &window, 0, LENGTH, tokens);
    for (int i = 0; i < OTHERS; i++)
        others[i] = memory_allocate(LENGTH * (int64_t)sizeof *tokens);
    read_tokens(random[0], &next, 0, LENGTH, others[0]);
    read_tokens(random[1], &same, 0, LENGTH, others[1]);
    for (int k = 0; k < LAGS + OTHERS; k++) {
        static int64_t pairs[PLAIN * PLAIN];
        memset(pairs, 0, sizeof pairs);
        int64_t lag = k < LAGS ? k + 1 : 0;
        const int32_t *other = k < LAGS ? tokens : others[k - LAGS];
        for (int64_t t = lag; t < LENGTH; t++)
            pairs[(tokens[t - lag] - FIRST) * PLAIN + other[t] - FIRST]++;
        CHECK_NEAR(excess(pairs, PLAIN * PLAIN, LENGTH - lag), 0, 0, 5);
    }
    for (int i = 0; i < OTHERS; i++)
        memory_free(others[i]);
    memory_free(tokens);
    for (int i = 0; i < 2; i++)
        random_windows_destroy(random[i]);
}

/* Windows by the rule, from the sequences' lengths; blocks asked for in any order; tokens in any pieces. */
static void test_windows(const struct windows_layout *layout)
{
    enum { BLOCKS = 9, ALL = BLOCKS * RANDOM_BLOCK };
    const struct random_windows_settings settings = {"esm2", 33, 50, 90};
    struct random_windows *whole = random_windows_create(&settings, &uncut, SEED);
    struct random_windows *cut = random_windows_create(&settings, layout, SEED);
    struct random_windows *far = random_windows_create(&settings, layout, SEED);
    int32_t *tokens = NULL, *piece = memory_allocate(layout->window * (int64_t)sizeof *piece);
    struct token_window before = {.sequence = -1};
    int64_t wrong = 0, several = 0, length = 0;
    for (int64_t w = 0; w < ALL; w++) {
        int64_t other = (w * 1021 + 77) % ALL; /* all of them, jumping between blocks */
        struct token_window window = locate(cut, w), there = locate(far, other), here = locate(far, w);
        wrong += window.number != w || there.number != other || here.sequence != window.sequence ||
                 here.start != window.start || here.length != window.length;
        if (window.sequence != before.sequence || w % RANDOM_BLOCK == 0) {
            /* the one before ends its sequence, unless its block ends it */
            wrong += w % RANDOM_BLOCK != 0 && layout->mode != WINDOWS_FIRST && before.start + before.length != length;
            wrong += window.sequence != (w % RANDOM_BLOCK == 0 ? w : before.sequence + 1);
            wrong += window.start != 0 || !window.has_bos;
            struct token_window all = locate(whole, window.sequence);
            length = all.length;
            tokens = memory_grow(tokens, length * (int64_t)sizeof *tokens);
            read_tokens(whole, &all, 0, length, tokens);
        } else { /* room for EOS alone may begin behind the last token */
            wrong += window.start != before.start + before.length - layout->overlap;
            several++;
        }
        wrong += window_length(&window) > layout->window || window.start + window.length > length;
        for (int64_t from = 0; from < window.length;) {
            int64_t count = 1 + (w + from) % 7;
            count = count < window.length - from ? count : window.length - from;
            read_tokens(cut, &window, from, count, piece + from);
            from += count;
        }
        wrong += window.length > 0 && memcmp(piece, tokens + window.start, (size_t)window.length * sizeof *piece) != 0;
        before = window;
    }
    CHECK(wrong == 0);
    CHECK((several > 0) == (layout->mode != WINDOWS_FIRST));
    free(tokens);
    memory_free(piece);
    random_windows_destroy(whole);
    random_windows_destroy(cut);
    random_windows_destroy(far);
}

/* Everything that makes another stream makes another checksum. */
static void test_checksums(void)
{
    const struct windows_layout layout = {64, 0, WINDOWS_EACH, false, false};
    const struct random_windows_settings base = {"nucleotide", 300, 50, 90};
    uint64_t checksums[9];
    for (int i = 0; i < 9; i++) {
        struct random_windows_settings settings = base;
        struct windows_layout other = layout;
        settings.tokenizer = i == 1 ? "esm2" : base.tokenizer;
        settings.vocabulary += i == 2;
        settings.median += i == 3;
        settings.mean += i == 4;
        other.window += i == 5;
        other.overlap += i == 6;
        other.mode = i == 7 ? WINDOWS_ENDS : WINDOWS_EACH;
        struct random_windows *random = random_windows_create(&settings, &other, SEED + (i == 8));
        struct random_windows *again = random_windows_create(&settings, &other, SEED + (i == 8));
        checksums[i] = random_windows_checksum(random);
        CHECK(random_windows_checksum(again) == checksums[i]);
        for (int k = 0; k < i; k++)
            CHECK(checksums[i] != checksums[k]);
        random_windows_destroy(random);
        random_windows_destroy(again);
    }
}

static void test_mistakes(void)
{
    static const struct {
        int64_t vocabulary, median, mean;
        int code;
    } cases[] = {{256, 0, 0, ERROR_NONE}, {256, 9, 9, ERROR_NONE},    {256, 9, 0, ERROR_USER}, {256, 0, 9, ERROR_USER},
                 {256, 9, 8, ERROR_USER}, {128256, 9, 9, ERROR_NONE}, {5, 0, 0, ERROR_NONE},   {4, 0, 0, ERROR_USER}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct random_windows_settings settings = {"nucleotide", cases[i].vocabulary, cases[i].median,
                                                         cases[i].mean};
        CHECK(random_windows_check(&settings) == cases[i].code);
        error_clear();
    }
}

/* Sequences that fill their windows: rows without padding, special tokens where a tokenizer has them, and every next
 * token is a label, whatever the keys of nucleotides say. */
static void test_rows(enum loader_special special)
{
    enum { ROWS = 6, TOKENS = 64, VOCABULARY = 1000 };
    const struct loader_settings settings = {.random = {"nucleotide", VOCABULARY, 0, 0},
                                             .seed = SEED,
                                             .row_tokens = TOKENS,
                                             .window = TOKENS,
                                             .max_segments = 4,
                                             .global_rows = ROWS,
                                             .micro_rows = ROWS,
                                             .special = special,
                                             .split = true,
                                             .mask_degenerate = true,
                                             .uppercase_labels = true,
                                             .shuffle = true};
    const struct windows_layout layout = loader_layout(&settings);
    struct random_windows *random = random_windows_create(&settings.random, &layout, SEED);
    struct comm *world = comm_self();
    struct loader *loader;
    CHECK(loader_create(&loader, &settings, world, 0, 1) == ERROR_NONE);
    CHECK(loader_vocabulary(loader) == VOCABULARY && strcmp(loader_tokenizer(loader)->name, "nucleotide") == 0);
    const struct batch *batch = loader_next(loader);
    CHECK(batch->real == ROWS * TOKENS && batch->valid == ROWS * (TOKENS - 1));
    for (int64_t row = 0; row < ROWS; row++) {
        const int32_t *tokens = batch->tokens + row * TOKENS, *labels = batch->labels + row * TOKENS;
        int32_t plain[TOKENS]; /* in the stream's order, though a store's windows would be shuffled */
        struct token_window window = locate(random, row);
        read_tokens(random, &window, 0, window.length, plain);
        CHECK(window.length == TOKENS - 2 && memcmp(tokens + 1, plain, sizeof plain - 2 * sizeof *plain) == 0);
        CHECK(batch->segment_start[row * 4] == row * TOKENS && batch->segment_length[row * 4] == TOKENS);
        CHECK(tokens[0] == 2 && tokens[TOKENS - 1] == 0 && labels[TOKENS - 1] == BATCH_IGNORED);
        for (int t = 0; t + 1 < TOKENS; t++)
            CHECK(labels[t] == tokens[t + 1] && (t == 0 || (tokens[t] >= 4 && tokens[t] < VOCABULARY)));
    }
    loader_destroy(loader);
    random_windows_destroy(random);
    comm_destroy(world);
}

int main(void)
{
    test_lengths(270, 340);
    test_lengths(2200, 4000);
    test_tokens("esm2", 33, 4, 28);
    test_tokens("amplify", 27, 5, 22);
    test_tokens("nucleotide", 256, 4, 252);
    test_tokens("nucleotide", 128256, 4, 128252);
    test_independence();
    test_windows(&(struct windows_layout){40, 0, WINDOWS_EACH, false, false});
    test_windows(&(struct windows_layout){40, 11, WINDOWS_EACH, false, false});
    test_windows(&(struct windows_layout){40, 0, WINDOWS_FIRST, false, false});
    test_windows(&(struct windows_layout){40, 0, WINDOWS_ENDS, false, false});
    test_checksums();
    test_mistakes();
    test_rows(LOADER_SPECIAL_WINDOW);
    test_rows(LOADER_SPECIAL_SEQUENCE);
    return check_end();
}
