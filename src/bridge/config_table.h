/* Inside bridge/config_*.c: the keys of each family's config.json. */
#ifndef BRIDGE_CONFIG_TABLE_H
#define BRIDGE_CONFIG_TABLE_H

#include "bridge/dialect.h"
#include "deck/deck.h"
#include "architecture/family.h"

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

/* BioNeMo's file with the classes of a family, below bionemo-recipes, and its name beside a model, as a module. */
struct config_classes {
    const char *file, *module;
    const char *config, *model; /* classes */
    const char *automatic;      /* transformers' class that stands for the architecture */
};

struct config_family {
    const char *model_type, *architecture;
    const struct config_fixed *fixed;     /* end with a key of NULL, as the others */
    const struct config_fixed *more;      /* that the dialect's class has beside those */
    const struct config_fixed *unwritten; /* more, which exports leave out: transformers' own files have no such keys */
    const struct config_number *sizes;    /* positive whole numbers */
    const struct config_number *reals;    /* positive numbers */
    int64_t extra_positions;
};

/* A key of this program's own: an ESM-2's model.gelu, for which transformers has no key. */
extern const char config_gelu[];

extern const struct config_family config_families[DIALECT_COUNT][FAMILY_COUNT];
extern const struct config_classes config_te_classes[FAMILY_COUNT];

/* AMPLIFY's inner width of a SwiGLU from its intermediate_size: two thirds, up to a multiple of 8. */
int64_t config_amplify_ffn(int64_t intermediate);

#endif
