/* Toys that the ranks of a comm train together, in any layout: who shares rows, who holds which cut of the state. The
 * rows of a step are the same in every layout, so that all can be compared with one rank that holds everything. */
#ifndef TESTS_REF_TEAM_H
#define TESTS_REF_TEAM_H

#include "comm/grid.h"
#include "ref/poison.h"
#include "ref/toy.h"

/* Of an array. */
#define LENGTH(array) ((int)(sizeof(array) / sizeof(array)[0]))

enum { TEAM_ROWS = 7, TEAM_ROW_TOKENS = 48, TEAM_STEPS = 5 };

/* How the ranks of a comm divide rows, layers and state. */
struct layout {
    int context,
        shard; /* ranks that share rows; that hold the state of their part once; both divide what tensor leaves */
    enum deck_context method;
    struct sharding sharding;
    int tensor;         /* ranks that have a part of each layer; 0 is 1 */
    bool whole_rows;    /* of these each has all tokens between linear layers */
    int stages, chunks; /* of a pipeline; 0 and 1: none */
    int near;           /* ranks of a sharding group that count as one node; 0: all */
};

/* What they train, and how each of them goes through its part. */
struct form {
    enum toy_kind kind;
    int layers;   /* 0: as many as toy_settings has */
    bool gathers; /* nothing is tied, and ranks make the embedding's gradient of what they gather */
    bool packed;  /* several segments in a row, else one with padding behind it */
    int micro_batches;
    enum dtype compute;
    int recipe;    /* enum deck_recipe */
    bool measured; /* statistics of all layers may be made, so what is gathered of operands are values */
    enum deck_recompute recompute;
    int slots;
    bool split_backward;
    bool replays;   /* parts of steps, where the executor can */
    bool poisoned;  /* what is not in use is NaN (ref/poison.h) */
    bool offloaded; /* what layers keep waits in the host's memory */
};

/* "4 ranks: 2 to a row by ring, 2 to a state, full; llama, ..."; a static string. */
const char *team_text(int ranks, const struct layout *layout, const struct form *form);

/* Their model, without its precision: as toy_settings, with 24 heads, so that many numbers of ranks can divide them; a
 * Llama has 2 key-value heads, fewer than some. */
struct model_settings team_settings(const struct layout *layout, const struct form *form);

struct team {
    struct comm *comm; /* borrowed */
    struct form form;
    struct grid grid;
    struct parallel_groups groups;
    struct toy toy;
    struct model whole; /* that no ranks have parts of */
    struct poison poison;
    struct schedule schedule;
    int64_t rows;     /* of a micro-batch */
    int64_t elements; /* of all flat buffers of the whole model */
    /* Of the step that runs. */
    int step;
    double labels, all_labels; /* of this data rank, of all */
};

/* Each way to divide the state. */
enum { TEAM_SHARDINGS = 6 };
extern const struct sharding team_shardings[TEAM_SHARDINGS];

/* Teams side by side, of sizes[] ranks that sum to the world's: this rank's. To be destroyed. */
struct comm *team_comm(struct comm *world, const int sizes[]);

/* Collective over the comm, as are all functions here. The executor is borrowed. Initialised with seed 7. */
void team_create(struct team *team, struct comm *comm, struct executor *executor, const struct layout *layout,
                 const struct form *form);
void team_destroy(struct team *team);

/* Step `number`. Rows have unequal numbers of labels; in odd steps the last three have none, so the last data rank of
 * several has none. Where rows do not go round, the last micro-batches of some ranks are empty. */
struct engine_result team_step(struct team *team, int number);

/* One of the tensors of every shard, as the whole model's units have it one behind the other: [team->elements]. What no
 * rank holds, and what pads weights, is minus infinity. Returns whether all that hold the same have the same bits. */
enum team_state { TEAM_GRADIENT, TEAM_WEIGHT, TEAM_M, TEAM_V, TEAM_STATES };
bool team_gather(struct team *team, enum team_state state, float *whole);

/* A training of TEAM_STEPS steps. */
struct run_outcome {
    double losses[TEAM_STEPS], labels[TEAM_STEPS], norms[TEAM_STEPS];
    int64_t elements;
    float *first, *last; /* gradients [elements] of these steps */
    bool agree;          /* ranks that hold the same had the same bits, of gradients and in the end of everything */
};
struct run_outcome team_train(struct team *team);
void outcome_destroy(struct run_outcome *outcome);
/* Rank 0 has trained alone; all get what it found. On other ranks `outcome` need not be set before. */
void outcome_share(struct comm *comm, struct run_outcome *outcome);

/* How far a training is from another of the same model. */
struct distances {
    double loss, norm; /* the largest relative ones of all steps */
    double first,
        last;      /* the largest relative L2 distance of a parameter's gradient in the first and in the last step */
    double length; /* of the training's own: its norms in these steps from the lengths of their gradients, relative */
};
struct distances outcome_apart(const struct run_outcome *a, const struct run_outcome *b, const struct model *model);

/* Of numbers in f32: rounding of sums in another order. */
extern const struct distances bound_f32;
/* Of two trainings with coarser numbers whose roundings differ everywhere, when one of them is `one` away from f32. */
struct distances bound_of_rounding(const struct distances *one);

/* One rank alone, on rank 0 of comm; all get what it found. */
struct run_outcome train_alone(struct comm *comm, struct executor *executor, const struct form *form, bool no_masters);

/* Do ranks agree, with the labels of the one alone and no further from it than `bound`? */
bool outcome_within(const struct run_outcome *outcome, const struct distances *apart, const struct run_outcome *alone,
                    const struct distances *bound);

/* Is the layout's training within `bound` of one rank's? With form->replays on an executor that does everything later
 * (ref/late.h); that nothing is replayed is fatal. */
bool layout_is_equal(struct comm *comm, struct executor *executor, const struct layout *layout, const struct form *form,
                     const struct run_outcome *alone, const struct distances *bound, struct distances *apart);

#endif
