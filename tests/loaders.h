/* For tests of the loader: makes loaders of one process, with small rows. */
#ifndef TESTS_LOADERS_H
#define TESTS_LOADERS_H

#include "check.h"
#include "loader/loader.h"
#include "stores.h"

static struct comm *world;

static inline struct loader *create(const struct loader_settings *settings, int data_rank, int data_ranks)
{
    struct loader *loader;
    if (loader_create(&loader, settings, world, data_rank, data_ranks) != ERROR_NONE)
        error_fatal("loader_create failed");
    return loader;
}

/* Returns settings with rows of 96 tokens and overlapping windows of 64. */
static inline struct loader_settings small_settings(const char *store)
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

#endif
