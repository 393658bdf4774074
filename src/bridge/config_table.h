/* Inside bridge/config_*.c: the keys of each family's config.json. */
#ifndef BRIDGE_CONFIG_TABLE_H
#define BRIDGE_CONFIG_TABLE_H

#include "deck/deck.h"
#include "model/family.h"

#include <stddef.h>

/* A key that must have one value, in JSON; `missing` is its default. */
struct config_fixed {
    const char *key, *allowed, *missing;
};

/* A number and its place in a deck. */
struct config_number {
    const char *key;
    size_t offset;  /* in struct deck, of an int64_t or a double */
    double missing; /* its default; 0: the deck's rule for a key that is not set */
};

struct config_family {
    const char *model_type, *architecture;
    const struct config_fixed *fixed;     /* end with a key of NULL, as the others */
    const struct config_fixed *unwritten; /* more, which exports leave out: transformers' own files have no such keys */
    const struct config_number *sizes;    /* positive whole numbers */
    const struct config_number *reals;    /* positive numbers */
    int64_t extra_positions;
};

extern const struct config_family config_families[FAMILY_COUNT];

/* AMPLIFY's inner width of a SwiGLU from its intermediate_size: two thirds, up to a multiple of 8. */
int64_t config_amplify_ffn(int64_t intermediate);

#endif
