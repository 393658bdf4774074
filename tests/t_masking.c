/* Masks, token dropout and keys of dropout masks have their rates and keys, and are equal in every layout of rows, on 1
 * to 3 ranks and after a restart, but differ between epochs. A list of masked places was computed apart in Python.
 * data.truncate and ids beyond the vocabulary are checked. */
#include "base/random.h"
#include "loader/blend.h"
#include "loader/masking.h"
#include "loaders.h"

#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TEXTS = 9, MASK = 32, CLS = 0, EOS = 2, PAD = 1, UNK = 3 /* ESM-2's */ };

static struct token_masking esm2_masking(double probability)
{
    return (struct token_masking){tokenizer_find("esm2"), 42, probability, NULL};
}

/* |count - trials p| within 4 standard deviations. */
static void check_share(int64_t count, int64_t trials, double p)
{
    CHECK_NEAR((double)count, (double)trials * p, 0, 4 * sqrt((double)trials * p * (1 - p)));
}

/* A million residues, all alanine: what becomes of them, at two probabilities. */
static void test_rates(void)
{
    enum { WINDOWS = 1000, LENGTH = 1000, ALL = WINDOWS * LENGTH, ALANINE = 5 };
    static const double probabilities[] = {0.15, 0.4};
    static int32_t tokens[LENGTH], labels[LENGTH];
    for (int i = 0; i < 2; i++) {
        const double p = probabilities[i];
        const struct token_masking masking = esm2_masking(p);
        int64_t selected = 0, told = 0, pairs = 0, became[33] = {0}, wrong = 0;
        for (int64_t w = 0; w < WINDOWS; w++) {
            for (int t = 0; t < LENGTH; t++)
                tokens[t] = ALANINE;
            told += masking_apply(&masking, 3, w, 0, LENGTH, tokens, labels);
            for (int t = 0; t < LENGTH; t++) {
                const bool is = labels[t] != BATCH_IGNORED;
                wrong += tokens[t] < 0 || tokens[t] >= 33 || (is ? labels[t] : tokens[t]) != ALANINE;
                selected += is;
                pairs += t > 0 && is && labels[t - 1] != BATCH_IGNORED;
                if (is)
                    became[tokens[t]]++;
            }
        }
        CHECK(wrong == 0 && selected == told);
        check_share(selected, ALL, p);
        check_share(pairs, ALL - WINDOWS, p * p); /* neighbours know nothing of each other */
        check_share(became[MASK], selected, 0.8 + 0.1 / 33);
        check_share(became[ALANINE], selected, 0.1 + 0.1 / 33);
        double sum = 0;
        for (int id = 0; id < 33; id++) {
            if (id != MASK && id != ALANINE)
                check_share(became[id], selected, 0.1 / 33);
            check_share(became[id], selected, masking_likelihood(masking.tokenizer, ALANINE, id));
            sum += masking_likelihood(masking.tokenizer, ALANINE, id);
        }
        CHECK_NEAR(sum, 1, 0, 1e-12);
    }
}

/* Never a special token, not even among others; all the rest, AMPLIFY's '|' too. */
static void test_specials(void)
{
    static const char *const names[] = {"esm2", "amplify"};
    for (int i = 0; i < 2; i++) {
        struct token_masking masking = {tokenizer_find(names[i]), 42, 0.5, NULL};
        const int vocabulary = (int)masking.tokenizer->vocabulary;
        int selected[33] = {0};
        for (int64_t w = 0; w < 200; w++) {
            int32_t tokens[33], labels[33];
            for (int t = 0; t < vocabulary; t++)
                tokens[t] = t;
            masking_apply(&masking, 0, w, 0, vocabulary, tokens, labels);
            for (int t = 0; t < vocabulary; t++) {
                selected[t] += labels[t] == t;
                CHECK(labels[t] == t || (labels[t] == BATCH_IGNORED && tokens[t] == t));
            }
        }
        for (int id = 0; id < vocabulary; id++) {
            const bool special = i == 0 ? id <= 3 || id == 32 : id <= 4;
            CHECK((selected[id] == 0) == special);
        }
    }
}

/* Bases: N is never selected where it has no label, a lower-case letter's label is its capital if that is requested,
 * and a random token is one of four. */
static void test_bases(void)
{
    enum { LENGTH = 1000, WINDOWS = 200 };
    static int32_t tokens[LENGTH], labels[LENGTH];
    struct token_masking masking = {tokenizer_find("nucleotide_mask"), 42, 0.15, NULL};
    const int32_t mask = masking.tokenizer->mask;
    int32_t *table = label_table(masking.tokenizer, true, true);
    CHECK(label_table(tokenizer_find("esm2"), true, true) == NULL);
    for (int with = 0; with < 2; with++) {
        int64_t selected = 0, of_n = 0, became[256] = {0}, wrong = 0;
        masking.label_of = with ? table : NULL;
        for (int64_t w = 0; w < WINDOWS; w++) {
            for (int t = 0; t < LENGTH; t++)
                tokens[t] = t % 2 ? 'N' : 'a';
            masking_apply(&masking, 0, w, 0, LENGTH, tokens, labels);
            for (int t = 0; t < LENGTH; t++) {
                of_n += t % 2 && labels[t] != BATCH_IGNORED;
                wrong += with && t % 2 && tokens[t] != 'N';
                if (t % 2 || labels[t] == BATCH_IGNORED)
                    continue;
                selected++;
                became[tokens[t]]++;
                wrong += labels[t] != (with ? 'A' : 'a');
            }
        }
        CHECK(wrong == 0);
        check_share(of_n, WINDOWS * LENGTH / 2, with ? 0 : 0.15);
        check_share(selected, WINDOWS * LENGTH / 2, 0.15);
        double sum = 0;
        for (int id = 0; id < 256; id++) {
            const bool base = id == 'A' || id == 'C' || id == 'G' || id == 'T';
            const double p = id == mask ? 0.8 : id == 'a' ? 0.1 : base ? 0.025 : 0;
            CHECK_NEAR(masking_likelihood(masking.tokenizer, 'a', id), p, 0, 1e-15);
            check_share(became[id], selected, p);
            sum += p;
        }
        CHECK_NEAR(sum, 1, 0, 1e-12);
    }
    memory_free(table);
}

enum { STRETCH = 4000 };

/* Which of a window's places are selected. */
static void select_places(uint64_t seed, uint64_t epoch, int64_t window, int64_t offset, int64_t count, bool *is)
{
    struct token_masking masking = esm2_masking(0.15);
    int32_t tokens[STRETCH], labels[STRETCH];
    masking.seed = seed;
    for (int64_t t = 0; t < count; t++)
        tokens[t] = 4 + (int32_t)((offset + t) % 20);
    masking_apply(&masking, epoch, window, offset, count, tokens, labels);
    for (int64_t t = 0; t < count; t++)
        is[t] = labels[t] != BATCH_IGNORED;
}

/* Seed, epoch, store, window and place each give other masks; a stretch is masked as the window that it is of. */
static void test_keys(void)
{
    static bool base[STRETCH], other[STRETCH];
    select_places(42, blend_epoch(0, 0), 7, 0, STRETCH, base);
    for (int i = 0; i < 5; i++) {
        int64_t both = 0;
        select_places(42 + (i == 0), blend_epoch(i == 1, i == 2), 7 + (i == 3), i == 4, STRETCH, other);
        for (int t = 0; t < STRETCH; t++)
            both += base[t] && other[t];
        check_share(both, STRETCH, 0.15 * 0.15);
    }
    for (int64_t cut = 1; cut < STRETCH; cut += 777) {
        select_places(42, blend_epoch(0, 0), 7, 0, cut, other);
        select_places(42, blend_epoch(0, 0), 7, cut, STRETCH - cut, other + cut);
        CHECK(memcmp(base, other, sizeof base) == 0);
    }
    /* A run that is resumed with a later version must mask as before: tests/golden/make_masks.py. */
    static const int golden[] = {3, 6, 9, 14, 16, 23, 25, 27, 32, 34, 38, 59, 60, 85, 91, 98, 99};
    const int known = (int)(sizeof golden / sizeof *golden);
    int found = 0, wrong = 0;
    select_places(42, blend_epoch(2, 5), 123456789, 3, 100, other);
    for (int t = 0; t < 100; t++)
        if (other[t]) {
            wrong += found >= known || golden[found] != t;
            found++;
        }
    CHECK(wrong == 0 && found == known);
}

/* -- Token dropout ----------------------------------------------------------------------------------------------- */

static void test_scale(void)
{
    static const struct {
        int32_t tokens[8];
        int count;
        double others; /* the factor of what is no mask */
    } cases[] = {{{0, 5, 32, 7, 2}, 5, 0.88 / 0.8},
                 {{0, 5, 6, 2}, 4, 0.88},
                 {{32, 32, 7, 32}, 4, 0.88 / 0.25},
                 {{32, 32}, 2, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float scale[8] = {0};
        masking_scale(tokenizer_find("esm2"), cases[i].tokens, cases[i].count, scale);
        for (int t = 0; t < cases[i].count; t++)
            CHECK_NEAR(scale[t], cases[i].tokens[t] == MASK ? 0 : cases[i].others, 1e-7, 0);
    }
}

/* -- The loader -------------------------------------------------------------------------------------------------- */

/* small_settings, masked. */
static struct loader_settings masked_settings(const char *store)
{
    struct loader_settings settings = small_settings(store);
    settings.mask_probability = 0.15;
    settings.token_dropout = true;
    settings.dropout_keys = true;
    settings.uppercase_labels = false;
    return settings;
}

struct pair {
    int32_t token, label, dropout_key;
};

/* The factors of one row's segments and padding, by their definition. */
static void check_row_scale(const struct batch *batch, int64_t row, bool dropout)
{
    int64_t at = row * batch->row_tokens, wrong = 0;
    const int64_t stop = at + batch->row_tokens;
    for (int64_t s = row * batch->max_segments; s < (row + 1) * batch->max_segments; s++) {
        double masks = 0, length = batch->segment_length[s];
        for (int64_t t = at; t < at + batch->segment_length[s]; t++)
            masks += batch->tokens[t] == MASK;
        for (int64_t end = at + batch->segment_length[s]; at < end; at++) {
            double wanted = batch->tokens[at] == MASK ? 0 : 0.88 / (1 - masks / length);
            wrong += !(fabs(batch->scale[at] - (dropout ? wanted : 1)) < 1e-6);
        }
    }
    for (; at < stop; at++)
        wrong += batch->tokens[at] != PAD || batch->labels[at] != BATCH_IGNORED || batch->scale[at] != !dropout;
    CHECK(wrong == 0);
}

/* The first `count` real tokens of the stream with their labels, whatever the layout; freed with memory_free(). */
static struct pair *take(const struct loader_settings *settings, int ranks, int64_t count)
{
    struct loader *loaders[3];
    struct pair *pairs = memory_allocate((count + 1) * (int64_t)sizeof *pairs);
    for (int r = 0; r < ranks; r++)
        loaders[r] = create(settings, r, ranks);
    for (int64_t taken = 0; taken < count;) {
        const struct batch *steps[3];
        for (int r = 0; r < ranks; r++)
            steps[r] = loader_next(loaders[r]);
        for (int64_t g = 0; g < settings->global_rows; g++) {
            int64_t group = g / settings->micro_rows, row = g % settings->micro_rows, real = 0;
            const struct batch *batch = &steps[group % ranks][group / ranks];
            check_row_scale(batch, row, settings->token_dropout);
            for (int64_t s = 0; s < batch->max_segments; s++)
                real += batch->segment_length[row * batch->max_segments + s];
            for (int64_t t = row * batch->row_tokens; real > 0 && taken < count; t++, real--)
                pairs[taken++] = (struct pair){batch->tokens[t], batch->labels[t], batch->dropout_keys[t]};
        }
    }
    for (int r = 0; r < ranks; r++)
        loader_destroy(loaders[r]);
    return pairs;
}

static bool same(const struct pair *a, const struct pair *b, int64_t count)
{
    return memcmp(a, b, (size_t)count * sizeof *a) == 0;
}

/* Packed and padded rows, cut windows or not, 1 to 3 ranks: the same tokens with the same labels, over two epochs. And
 * the labels are what stands at their place in the stream of an unmasked loader. */
static void test_layouts(const char *store)
{
    enum { COUNT = 12000 }; /* an epoch has 4912 */
    struct loader_settings settings = masked_settings(store);
    struct pair *masked = take(&settings, 1, COUNT);
    for (int variant = 0; variant < 24; variant++) {
        settings = masked_settings(store);
        settings.split = variant & 1;
        settings.format = variant & 2 ? LOADER_PADDED : LOADER_PACKED;
        settings.token_dropout = variant & 4;
        settings.micro_rows = 1 + variant % 3;
        settings.max_segments = 1 + variant % 5;
        struct pair *got = take(&settings, 1 + variant / 8, COUNT);
        CHECK(same(got, masked, COUNT));
        memory_free(got);
    }
    settings = masked_settings(store);
    settings.mask_probability = 0;
    struct pair *plain = take(&settings, 1, COUNT);
    int64_t wrong = 0, eligible = 0, selected = 0;
    for (int i = 0; i < COUNT; i++) {
        const bool special = plain[i].token <= 3;
        const bool is = masked[i].label != BATCH_IGNORED;
        wrong += is ? special || masked[i].label != plain[i].token : masked[i].token != plain[i].token;
        eligible += !special;
        selected += is;
    }
    CHECK(wrong == 0);
    check_share(selected, eligible, 0.15);
    memory_free(masked);
    memory_free(plain);
}

/* In the store's order each epoch has the same tokens: other masks in the second, the same again in a pass that
 * begins again, as each validation does. */
static void test_epochs(const char *store)
{
    struct loader_settings settings = masked_settings(store);
    settings.shuffle = false;
    struct loader *loader = create(&settings, 0, 1);
    const int64_t count = loader_window_tokens(loader);
    loader_destroy(loader);
    struct pair *two = take(&settings, 1, 2 * count);
    int64_t eligible = 0, both = 0, wrong = 0, same_keys = 0;
    for (int64_t t = 0; t < count; t++) {
        const struct pair a = two[t], b = two[count + t];
        same_keys += a.dropout_key == b.dropout_key || (t > 0 && a.dropout_key == two[t - 1].dropout_key);
        wrong += a.label != BATCH_IGNORED && b.label != BATCH_IGNORED && a.label != b.label;
        wrong += a.label == BATCH_IGNORED && b.label == BATCH_IGNORED && a.token != b.token;
        eligible += a.label != BATCH_IGNORED || a.token > 3;
        both += a.label != BATCH_IGNORED && b.label != BATCH_IGNORED;
    }
    CHECK(wrong == 0 && same_keys <= 1); /* of 2^32 */
    check_share(both, eligible, 0.15 * 0.15);

    settings.once = true;
    settings.micro_rows = settings.global_rows;
    loader = create(&settings, 0, 1);
    for (int pass = 0; pass < 2; pass++) {
        int64_t at = 0;
        loader_seek(loader, &(struct blend_position){0}, 0);
        for (int64_t step = 0; step < loader_steps_once(loader); step++) {
            const struct batch *batch = loader_next(loader);
            for (int64_t row = 0; row < batch->rows; row++)
                for (int64_t s = row * batch->max_segments; s < (row + 1) * batch->max_segments; s++)
                    for (int64_t t = 0; t < batch->segment_length[s]; t++, at++) {
                        const int64_t from = batch->segment_start[s] + t;
                        wrong += batch->tokens[from] != two[at].token || batch->labels[from] != two[at].label;
                    }
        }
        CHECK(wrong == 0 && at == count);
    }
    loader_destroy(loader);
    memory_free(two);
}

/* From every step's position on, a new loader gives what the old one gave: tokens, labels and factors. */
static void test_restart(const char *store)
{
    struct loader_settings settings = masked_settings(store);
    settings.micro_rows = settings.global_rows;
    struct loader *whole = create(&settings, 0, 1);
    for (int step = 0; step < 20; step++) {
        struct blend_position position = loader_position(whole);
        struct loader *again = create(&settings, 0, 1);
        loader_seek(again, &position, step);
        const struct batch *a = loader_next(whole), *b = loader_next(again);
        CHECK(memcmp(a->tokens, b->tokens, (size_t)batch_bytes(a)) == 0 && a->valid == b->valid && a->valid > 0);
        loader_destroy(again);
        blend_position_destroy(&position);
    }
    loader_destroy(whole);
}

/* data.truncate: every sequence's first 62 residues between <cls> and <eos>, in a side file of its own. */
static void test_truncate(const char *store, char *const *texts)
{
    struct loader_settings settings = masked_settings(store);
    settings.overlap = 0;
    settings.truncate = true;
    settings.shuffle = false;
    settings.mask_probability = 0;
    settings.token_dropout = false;
    settings.format = LOADER_PADDED;
    settings.global_rows = settings.micro_rows = TEXTS;
    settings.once = true;
    struct loader *loader = create(&settings, 0, 1);
    const struct batch *batch = loader_next(loader);
    int64_t row = 0, wrong = 0, tokens = 0;
    for (int i = 0; i < TEXTS; i++) {
        uint8_t ids[62];
        int64_t length = (int64_t)strlen(texts[i]) < 62 ? (int64_t)strlen(texts[i]) : 62;
        if (length == 0)
            continue;
        const int32_t *got = batch->tokens + row * batch->row_tokens;
        tokenizer_find("esm2")->encode_characters(texts[i], length, ids);
        wrong +=
            batch->segment_length[row++ * batch->max_segments] != length + 2 || got[0] != CLS || got[length + 1] != EOS;
        for (int64_t t = 0; t < length; t++)
            wrong += got[1 + t] != ids[t];
        tokens += length + 2;
    }
    CHECK(wrong == 0 && row == TEXTS - 1);
    CHECK(loader_windows(loader) == row && loader_window_tokens(loader) == tokens && batch->real == tokens);
    loader_destroy(loader);
    char *side = memory_format("%s.windows-64-0-first", store);
    CHECK(access(side, R_OK) == 0);
    free(side);
}

static int refused(const struct loader_settings *settings)
{
    struct loader *loader;
    return loader_create(&loader, settings, world, 0, 1) == ERROR_USER && loader == NULL;
}

/* comm_agree prints the messages. */
static void test_mistakes(const char *proteins)
{
    const char *bases = stores_path("bases.h5");
    char *text = memory_string("ACGTACGT");
    stores_write(bases, &text, 1);
    struct loader_settings settings = masked_settings(bases);
    CHECK(refused(&settings));
    settings.mask_probability = 0;
    CHECK(refused(&settings)); /* token dropout needs a mask token too */
    settings = masked_settings(proteins);
    settings.uppercase_labels = true;
    CHECK(refused(&settings));
    settings = masked_settings(proteins);
    settings.truncate = true;
    CHECK(refused(&settings)); /* windows that overlap */
    settings.overlap = 0;
    settings.special = LOADER_SPECIAL_SEQUENCE;
    CHECK(refused(&settings));
    free(text);
}

/* An id beyond the vocabulary would read beyond the embedding: it ends the program instead. So does a store that is cut
 * short while the loader's thread reads it, and not by a signal. */
static void test_damage(void)
{
    const char *path = stores_path("damaged.h5");
    char *text = memory_string("MKLVMKLVMKLV");
    stores_write_as("esm2", path, &text, 1);
    struct token_store *store;
    CHECK(token_store_open(&store, path) == ERROR_NONE);
    const off_t place = store->tokens - store->map->data + 5;
    token_store_close(store);
    char *temporary = memory_format("%s.windows-64-11-each.tmp", path);
    CHECK(mkdir(temporary, 0700) == 0); /* so no index can be made, and the store is not compared with its checksum */
    for (int damaged = 0; damaged < 3; damaged++) {
        if (damaged == 1) {
            int file = open(path, O_WRONLY);
            CHECK(file >= 0 && pwrite(file, "\x21", 1, place) == 1 && close(file) == 0);
        }
        pid_t child = fork();
        if (child == 0) {
            struct loader_settings settings = masked_settings(path);
            struct loader *loader = create(&settings, 0, 1);
            CHECK(damaged != 2 || truncate(path, 0) == 0);
            loader_next(loader);
            _exit(0);
        }
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
        CHECK(WEXITSTATUS(status) == (damaged ? ERROR_ENVIRONMENT : 0));
    }
    free(text);
}

/* Sequences of many lengths, 0 among them, with characters that are no token. */
static void make_texts(char **texts)
{
    static const int lengths[TEXTS] = {700, 62, 0, 61, 1, 63, 1500, 9, 1200};
    for (int i = 0; i < TEXTS; i++) {
        struct random_key key = {5, RANDOM_TEST, (uint64_t)i};
        texts[i] = memory_grow(NULL, lengths[i] + 1);
        for (int t = 0; t < lengths[i]; t++)
            texts[i][t] = "LAGVSERTIDPKQNFYMHWCXBUZO.-*lagv"[random_bits(&key, (uint64_t)t) >> 59];
        texts[i][lengths[i]] = '\0';
    }
}

int main(void)
{
    stores_begin();
    world = comm_self();
    char *texts[TEXTS];
    make_texts(texts);
    char *store = memory_string(stores_path("proteins.h5"));
    stores_write_as("esm2", store, texts, TEXTS);
    test_rates();
    test_specials();
    test_bases();
    test_keys();
    test_scale();
    test_layouts(store);
    test_epochs(store);
    test_restart(store);
    test_truncate(store, texts);
    test_mistakes(store);
    test_damage();
    stores_free(texts, TEXTS);
    free(store);
    comm_destroy(world);
    stores_end();
    return check_end();
}
