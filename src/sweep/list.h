/* The cases of a sweep: a libconfig file whose settings may have several values, of which every combination is a case.
 *
 *   ranks = [1, 2, 4, 8];
 *   keys : { precision : { compute = "bf16"; }; train : { micro_batch = [2, 4]; }; };
 *   sweeps = ( { deck = "a.cfg"; scaling = "weak"; rows = 4; },
 *              { deck = ["b.cfg", "c.cfg"]; scaling = "strong"; rows = 64;
 *                keys : { parallel : { shard = "full"; }; }; } );
 *
 * What stands at the top holds for every group of `sweeps` that does not say otherwise; without `sweeps` the file is
 * one group. doc/sweeps.md has all settings. */
#ifndef SWEEP_LIST_H
#define SWEEP_LIST_H

#include <stdint.h>

enum sweep_scaling { SWEEP_NO_SCALING, SWEEP_WEAK, SWEEP_STRONG, SWEEP_SCALINGS };
/* "none", "weak", "strong". */
extern const char *const sweep_scaling_names[SWEEP_SCALINGS];

/* What a group says of all its cases. */
struct sweep_group {
    int scaling;  /* enum sweep_scaling */
    char *launch; /* a shell command with {command}, {ranks}, {nodes}, {ranks_per_node}, {name} */
    char *submit; /* likewise with {script} in place of {command}; "": the sweep runs its cases itself */
    int64_t steps, warm_up, ranks_per_node;
    double seconds; /* that a case may take */
};

struct sweep_case {
    const struct sweep_group *group;
    char *name;       /* of its folder: deck, ranks, a hash of all that decides what it computes */
    char *deck;       /* path */
    char **overrides; /* "KEY=VALUE" */
    int override_count;
    char *varied; /* of these, those that differ from case to case of its group: "train.micro_batch=2", "" for none */
    int64_t ranks, nodes, ranks_per_node;
    int series;    /* cases of one series differ in the number of ranks, and what follows from it, alone */
    char *refusal; /* why so many ranks cannot have this deck; NULL: they can */

    /* of the deck */
    int64_t tensor, pipeline, context, micro_batch, global_batch;
    char *shard, *compute, *recipe;
};

struct sweep_list {
    struct sweep_group *groups;
    struct sweep_case *cases;
    int group_count, case_count, series_count;
};

/* Reads the file and all decks. Local. ERROR_USER: what is wrong in the file by its line, or in a deck with the keys of
 * a case. Destroy it in any case. */
int sweep_list_read(struct sweep_list *list, const char *path);
void sweep_list_destroy(struct sweep_list *list);

#endif
