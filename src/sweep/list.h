/* Reads the cases of a sweep from a libconfig file whose settings may have several values; each combination is a case.
 *
 *   ranks = [1, 2, 4, 8];
 *   keys : { precision : { compute = "bf16"; }; train : { micro_batch = [2, 4]; }; };
 *   sweeps = ( { deck = "a.cfg"; scaling = "weak"; rows = 4; },
 *              { deck = ["b.cfg", "c.cfg"]; scaling = "strong"; rows = 64;
 *                keys : { parallel : { shard = "full"; }; }; } );
 *
 * Settings at the top are defaults for all groups of `sweeps`; without `sweeps` the file is one group. doc/sweeps.md
 * has all settings. */
#ifndef SWEEP_LIST_H
#define SWEEP_LIST_H

#include <stdint.h>

enum sweep_scaling { SWEEP_NO_SCALING, SWEEP_WEAK, SWEEP_STRONG, SWEEP_SCALINGS };
/* "none", "weak", "strong" */
extern const char *const sweep_scaling_names[SWEEP_SCALINGS];

/* Settings of a group that all its cases share. */
struct sweep_group {
    int scaling;  /* enum sweep_scaling */
    char *launch; /* a shell command with {command}, {ranks}, {nodes}, {ranks_per_node}, {name} */
    char *submit; /* as launch, with {script} in place of {command}; "": the sweep runs its cases itself */
    int64_t steps, warm_up, ranks_per_node;
    double seconds; /* time limit of a case */
};

struct sweep_case {
    const struct sweep_group *group;
    char *name;       /* name of its folder: deck, ranks, and a hash of everything that determines the computation */
    char *deck;       /* path */
    char **overrides; /* "KEY=VALUE" */
    int override_count;
    char *varied; /* the overrides that differ between cases of the group, as "train.micro_batch=2"; "": none */
    int64_t ranks, nodes, ranks_per_node;
    int series;    /* cases of a series differ only in the number of ranks and what follows from it */
    char *refusal; /* why this number of ranks cannot run the deck; NULL: it can */

    /* values of the deck */
    int64_t tensor, pipeline, context, micro_batch, global_batch;
    char *shard, *compute, *recipe;
};

struct sweep_list {
    struct sweep_group *groups;
    struct sweep_case *cases;
    int group_count, case_count, series_count;
};

/* Reads the file and all decks; call sweep_list_destroy also after an error. Local. ERROR_USER: a mistake in the file,
 * with its line, or in a deck with the keys of a case. */
int sweep_list_read(struct sweep_list *list, const char *path);
void sweep_list_destroy(struct sweep_list *list);

#endif
