/* What the data loader gives on one core: tokens per second of loader_next alone on random data, rows 32 x 1024 of the
 * ESM-2 tokenizer, masked with probability 0.15 and without; then the parts by themselves.
 *   make bench/loader_speed && bench/loader_speed [SECONDS A CASE]
 * With "large": what one of 16,384 ranks computes for a step of 400,000 windows, since every rank follows all rows. The
 * data is a store of SEQUENCES sequences (default 10 million) in TMPDIR, with the lengths of UniRef50 divided by 8, in
 * rows of 128 tokens; and random data of whole windows.
 *   bench/loader_speed large [SEQUENCES] */
#include "base/error.h"
#include "base/memory.h"
#include "base/random.h"
#include "loader/loader.h"
#include "loader/masking.h"
#include "loader/packer.h"
#include "prepare/token_store_writer.h"

#include <math.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ROWS = 32, ROW_TOKENS = 1024, SEGMENTS = 64, CALLS = 16 /* between looks at the clock */ };

static double seconds = 1;

/* Of all threads of this process: of the loader's and the caller's only one runs at a time. */
static double processor_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static struct loader_settings settings_of(bool padded, bool short_, double mask)
{
    return (struct loader_settings){.random = {"esm2", 33, short_ ? 270 : 0, short_ ? 340 : 0},
                                    .seed = 1,
                                    .row_tokens = ROW_TOKENS,
                                    .window = ROW_TOKENS,
                                    .max_segments = SEGMENTS,
                                    .global_rows = ROWS,
                                    .micro_rows = ROWS,
                                    .format = padded ? LOADER_PADDED : LOADER_PACKED,
                                    .split = true,
                                    .mask_probability = mask,
                                    .token_dropout = mask > 0};
}

static void report(const char *what, const char *data, double tokens, double took)
{
    printf("%-28s %-16s %8.1f M tokens/s %8.2f ns a token\n", what, data, tokens / took * 1e-6, took / tokens * 1e9);
}

static void whole(bool padded, bool short_, double mask)
{
    const struct loader_settings settings = settings_of(padded, short_, mask);
    struct comm *world = comm_self();
    struct loader *loader;
    if (loader_create(&loader, &settings, world, 0, 1) != ERROR_NONE)
        error_fatal("%s", error_message());
    loader_next(loader);
    double start = processor_seconds(), tokens = 0;
    while (processor_seconds() - start < seconds)
        for (int i = 0; i < CALLS; i++)
            tokens += (double)loader_next(loader)->real;
    char what[64];
    snprintf(what, sizeof what, "loader_next, %s%s", padded ? "padded" : "packed", mask > 0 ? ", masked" : "");
    report(what, short_ ? "median 270" : "whole windows", tokens, processor_seconds() - start);
    loader_destroy(loader);
    comm_destroy(world);
}

static void parts(bool short_)
{
    const struct loader_settings settings = settings_of(false, short_, 0.15);
    const struct windows_layout layout = loader_layout(&settings);
    struct random_windows *random = random_windows_create(&settings.random, &layout, settings.seed);
    const struct window_source *source = random_windows_source(random);
    const char *data = short_ ? "median 270" : "whole windows";
    static int32_t tokens[ROW_TOKENS], labels[ROW_TOKENS];
    static float scale[ROW_TOKENS];
    static struct packer_segment segments[SEGMENTS];
    const struct packer_settings rows = {ROW_TOKENS, SEGMENTS, true};
    struct data_blend blend = blend_create(&(struct blend_settings){.seed = 1}, &source, NULL, 1);
    double start = processor_seconds(), count = 0;
    while (processor_seconds() - start < seconds)
        for (int i = 0; i < CALLS; i++) {
            packer_next(&rows, &blend, segments);
            count += ROW_TOKENS;
        }
    report("packing alone", data, count, processor_seconds() - start);
    start = processor_seconds(), count = 0;
    for (int64_t w = 0; processor_seconds() - start < seconds; w++) {
        struct token_window window;
        source->class->locate(source->self, &w, 1, &window);
        source->class->read(source->self, &window, 0, window.length, tokens);
        count += (double)window.length;
    }
    report("generation alone", data, count, processor_seconds() - start);
    const struct token_masking masking = {source->tokenizer, 1, 0.15, NULL};
    start = processor_seconds(), count = 0;
    for (int64_t w = 0; processor_seconds() - start < seconds; w++) {
        struct token_window window;
        source->class->locate(source->self, &(int64_t){w % RANDOM_BLOCK}, 1, &window);
        for (int64_t i = 0; i < window.length; i++)
            tokens[i] = 5; /* any that is no special one */
        masking_apply(&masking, 0, w, 0, window.length, tokens, labels);
        count += (double)window.length;
    }
    report("masking alone", data, count, processor_seconds() - start);
    start = processor_seconds(), count = 0;
    for (int64_t w = 0; processor_seconds() - start < seconds; w++) {
        struct token_window window;
        source->class->locate(source->self, &(int64_t){w % RANDOM_BLOCK}, 1, &window);
        masking_scale(source->tokenizer, tokens, window.length, scale);
        count += (double)window.length;
    }
    report("token dropout alone", data, count, processor_seconds() - start);
    random_windows_destroy(random);
}

/* -- Large steps -------------------------------------------------------------------------------------------------- */

enum { LARGE_RANKS = 16384, LARGE_WINDOWS = 400000, LARGE_ROW = 128, LARGE_STEPS = 8 };

/* Writes a store whose lengths are log-normal, median 270 / 8 and mean 340 / 8. */
static void write_store(const char *path, int64_t sequences)
{
    enum { LONGEST = 4096 };
    static char tokens[LONGEST];
    const struct random_key key = {1, RANDOM_TEST, 0};
    const double sigma = sqrt(2 * log(340.0 / 270));
    struct store_writer *writer;
    int64_t *lengths = memory_allocate(sequences * (int64_t)sizeof *lengths), total = 0;
    uint64_t checksum;
    memset(tokens, 5, sizeof tokens);
    for (int64_t i = 0; i < sequences; i++) {
        const double length = 270.0 / 8 * exp(sigma * random_normal(&key, (uint64_t)i));
        total += lengths[i] = length < 1 ? 1 : length > LONGEST ? LONGEST : (int64_t)length;
    }
    int code = token_store_writer_create(&writer, path, tokenizer_find("esm2"), sequences, total, sequences, NULL);
    for (int64_t i = 0; i < sequences && code == ERROR_NONE; i++) {
        code = writer->class->append(writer, tokens, lengths[i]);
        if (code == ERROR_NONE)
            code = writer->class->end(writer, "");
    }
    if (code == ERROR_NONE)
        code = writer->class->finish(writer, NULL, 0, &checksum);
    if (code == ERROR_NONE)
        code = writer->class->commit(writer);
    if (code != ERROR_NONE)
        error_fatal("%s", error_message());
    writer->class->destroy(writer);
    memory_free(lengths);
}

static void large(const char *store, bool padded, bool balance, double windows_a_row)
{
    const int64_t rows = (int64_t)(LARGE_WINDOWS / windows_a_row);
    const struct loader_settings settings = {.stores = store,
                                             .random = {"esm2", 33, 0, 0},
                                             .seed = 1,
                                             .row_tokens = LARGE_ROW,
                                             .window = LARGE_ROW,
                                             .max_segments = SEGMENTS,
                                             .global_rows = rows,
                                             .micro_rows = (rows + LARGE_RANKS - 1) / LARGE_RANKS,
                                             .format = padded ? LOADER_PADDED : LOADER_PACKED,
                                             .split = true,
                                             .mask_probability = 0.15,
                                             .token_dropout = true,
                                             .balance = balance,
                                             .shuffle = true};
    struct comm *world = comm_self();
    struct loader *loader;
    if (loader_create(&loader, &settings, world, 1, LARGE_RANKS) != ERROR_NONE)
        error_fatal("%s", error_message());
    loader_next(loader);
    const double start = processor_seconds();
    for (int i = 0; i < LARGE_STEPS; i++)
        loader_next(loader);
    printf("%-14s %-6s %-12s %8.1f ms a step\n", store != NULL ? "store" : "whole windows",
           padded ? "padded" : "packed", balance ? "balanced" : "in order",
           (processor_seconds() - start) / LARGE_STEPS * 1e3);
    fflush(stdout);
    loader_destroy(loader);
    comm_destroy(world);
}

static void large_steps(int64_t sequences)
{
    const char *base = getenv("TMPDIR");
    char *folder = memory_format("%s/cistron-loader-XXXXXX", base != NULL ? base : "/tmp");
    if (mkdtemp(folder) == NULL)
        error_fatal("cannot make a folder %s", folder);
    char *store = memory_format("%s/store.h5", folder), *side = memory_format("%s.windows-128-0-each", store);
    write_store(store, sequences);
    printf("1 of %d ranks, %d windows a step\n", LARGE_RANKS, LARGE_WINDOWS);
    for (int balance = 0; balance < 2; balance++) {
        large(store, true, balance, 1);
        large(store, false, balance, LARGE_ROW / 44.5);
        large(NULL, true, balance, 1);
        large(NULL, false, balance, 1);
    }
    unlink(side);
    unlink(store);
    rmdir(folder);
    free(side);
    free(store);
    free(folder);
}

int main(int count, char **arguments)
{
    if (count > 1 && strcmp(arguments[1], "large") == 0) {
        large_steps(count > 2 ? strtoll(arguments[2], NULL, 10) : 10000000);
        return 0;
    }
    if (count > 1)
        seconds = strtod(arguments[1], NULL);
    for (int short_ = 0; short_ < 2; short_++) {
        for (int padded = 0; padded < 2; padded++)
            for (int mask = 0; mask < 2; mask++)
                whole(padded, short_, mask * 0.15);
        parts(short_);
    }
    return 0;
}
