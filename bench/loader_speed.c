/* What the data loader gives on one core: tokens per second of loader_next alone on random data, rows 32 x 1024 of the
 * ESM-2 tokenizer, masked with probability 0.15 and without; then the parts by themselves.
 *   make bench/loader_speed && bench/loader_speed [SECONDS A CASE] */
#include "base/error.h"
#include "base/memory.h"
#include "loader/loader.h"
#include "loader/masking.h"
#include "loader/packer.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

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
    int64_t hint = 0;
    for (int64_t w = 0; processor_seconds() - start < seconds; w++) {
        struct token_window window = source->class->locate(source->self, w, &hint);
        source->class->read(source->self, &window, 0, window.length, tokens);
        count += (double)window.length;
    }
    report("generation alone", data, count, processor_seconds() - start);
    const struct token_masking masking = {source->tokenizer, 1, 0.15};
    start = processor_seconds(), count = 0;
    for (int64_t w = 0; processor_seconds() - start < seconds; w++) {
        struct token_window window = source->class->locate(source->self, w % RANDOM_BLOCK, &hint);
        for (int64_t i = 0; i < window.length; i++)
            tokens[i] = 5; /* any that is no special one */
        masking_apply(&masking, 0, w, 0, window.length, tokens, labels);
        count += (double)window.length;
    }
    report("masking alone", data, count, processor_seconds() - start);
    start = processor_seconds(), count = 0;
    for (int64_t w = 0; processor_seconds() - start < seconds; w++) {
        struct token_window window = source->class->locate(source->self, w % RANDOM_BLOCK, &hint);
        masking_scale(source->tokenizer, tokens, window.length, scale);
        count += (double)window.length;
    }
    report("token dropout alone", data, count, processor_seconds() - start);
    random_windows_destroy(random);
}

int main(int count, char **arguments)
{
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
