/* Toy models that the ranks of a comm train together, in any layout. The rows of a step are the same in every layout,
 * so that each can be compared with a single rank that owns everything. */
#ifndef TESTS_REF_TEAM_H
#define TESTS_REF_TEAM_H

#include "comm/grid.h"
#include "ref/poison.h"
#include "ref/toy.h"

/* Number of elements of an array. */
#define LENGTH(array) ((int)(sizeof(array) / sizeof(array)[0]))

enum { TEAM_ROWS = 7, TEAM_ROW_TOKENS = 48, TEAM_STEPS = 5 };

/* A layout: how the ranks of a comm divide rows, layers and state. */
struct layout {
    int context,
        shard; /* ranks that share rows, and ranks of a sharding group; both divide the number of ranks / tensor */
    enum deck_context method;
    struct sharding sharding;
    int tensor;         /* tensor-parallel ranks; 0 is 1 */
    bool whole_rows;    /* no sequence parallelism: each tensor rank has all tokens between linear layers */
    int stages, chunks; /* pipeline stages and model chunks per stage; 0 and 1: no pipeline */
    int near;           /* ranks of a sharding group that are treated as one node; 0: all */
};

/* The model that the ranks train, and how each rank computes its part. */
struct form {
    enum toy_kind kind;
    int layers;   /* 0: as in toy_settings */
    bool gathers; /* no tied embedding, and ranks compute the embedding's gradient from gathered activations */
    bool packed;  /* several segments per row; false: one, followed by padding */
    int micro_batches;
    enum dtype compute;
    int recipe;    /* enum deck_recipe */
    bool measured; /* statistics of all layers may be measured, so gathered operands are not quantized */
    enum deck_recompute recompute;
    int slots;
    bool split_backward;
    bool replays;       /* parts of steps are captured and replayed, if the executor can */
    bool poisoned;      /* unused memory is NaN (ref/poison.h) */
    bool offloaded;     /* kept activations of layers are offloaded to host memory */
    int64_t mlp_tokens; /* tokens of a slice of the MLP; 0: all */
    bool muon;          /* the optimizer of the blocks' matrices is Muon */
    bool frozen;        /* the trunk is not trained, and the head not tied */
    bool adapted;       /* LoRA on all linear layers of the blocks, with random initial matrices */
    double dropout;     /* of adapted */
    bool all_experts;   /* a token of a mixture has all experts: with fewer, a rounding can change the choice */
    bool all_rows;      /* the head of a masked model computes all rows; false: those of labelled tokens */
};

/* Returns a description such as "4 ranks: 2 to a row by ring, 2 to a state, full; llama, ..."; a static string. */
const char *team_text(int ranks, const struct layout *layout, const struct form *form);

/* Returns the settings of the model, without its precision: as toy_settings, but with 24 heads, which many numbers of
 * ranks divide. A Llama has 2 key-value heads, fewer than some numbers of ranks. */
struct model_settings team_settings(const struct layout *layout, const struct form *form);

struct team {
    struct comm *comm; /* borrowed */
    struct form form;
    struct grid grid;
    struct parallel_groups groups;
    struct toy toy;
    struct model whole; /* the model without tensor parallelism */
    struct poison poison;
    struct schedule schedule;
    int64_t rows;     /* rows of a micro-batch */
    int64_t elements; /* of all flat buffers of the whole model */
    /* State of the current step. */
    int step;
    double labels, all_labels; /* of this data rank, and of all */
};

/* All sharding levels and variants. */
enum { TEAM_SHARDINGS = 6 };
extern const struct sharding team_shardings[TEAM_SHARDINGS];

/* Splits the world into teams of sizes[] ranks, whose sum is the world's size; returns this rank's comm, which the
 * caller destroys. */
struct comm *team_comm(struct comm *world, const int sizes[]);

/* Makes a team, initialised with seed 7. The executor is borrowed. Collective over the comm, as all functions below
 * that have a team. */
void team_create(struct team *team, struct comm *comm, struct executor *executor, const struct layout *layout,
                 const struct form *form);
void team_destroy(struct team *team);

/* Runs step `number`. Rows have unequal numbers of labels; in odd steps the last three have none, so the last of
 * several data ranks has none. If the rows do not divide evenly, the last micro-batches of some ranks are empty. */
struct engine_result team_step(struct team *team, int number);

/* Gathers one state tensor of every shard, in the order of the whole model's units, into whole: [team->elements].
 * Padding, and elements that no rank has, are minus infinity. Returns whether all ranks with the same elements have the
 * same bits. */
enum team_state { TEAM_GRADIENT, TEAM_WEIGHT, TEAM_M, TEAM_V, TEAM_STATES };
bool team_gather(struct team *team, enum team_state state, float *whole);

/* The outcome of a training of TEAM_STEPS steps. */
struct run_outcome {
    double losses[TEAM_STEPS], labels[TEAM_STEPS], norms[TEAM_STEPS];
    int64_t elements;
    float *first, *last; /* [elements] gradients of the first and the last step */
    bool agree;          /* ranks with the same shard had the same bits: of gradients, and at the end of all state */
};
struct run_outcome team_train(struct team *team);
void outcome_destroy(struct run_outcome *outcome);
/* Sends the outcome of a training on rank 0 alone to all ranks. On other ranks `outcome` may be uninitialised. */
void outcome_share(struct comm *comm, struct run_outcome *outcome);

/* Distances between two trainings of the same model. */
struct distances {
    double loss, norm;  /* largest relative difference over all steps */
    double first, last; /* largest relative L2 distance of a gradient, of the parameters that `model` trains, in the
                           first and in the last step */
    double length;      /* relative difference of norms and gradients' lengths */
};
struct distances outcome_apart(const struct run_outcome *a, const struct run_outcome *b, const struct model *model);

/* Bound for fp32: rounding of sums in another order. */
extern const struct distances bound_f32;
/* Returns a bound for two trainings with a coarser type, whose roundings differ everywhere, if one of them has the
 * distance `one` from fp32. */
struct distances bound_of_rounding(const struct distances *one);

/* Trains on rank 0 of comm alone; all ranks get the outcome. */
struct run_outcome train_alone(struct comm *comm, struct executor *executor, const struct form *form, bool no_masters);

/* Returns whether the ranks agree, have the labels of the training on one rank, and differ from it by at most
 * `bound`. */
bool outcome_within(const struct run_outcome *outcome, const struct distances *apart, const struct run_outcome *alone,
                    const struct distances *bound);

/* Returns whether the layout's training is within `bound` of the training on one rank. With form->replays it runs on an
 * asynchronous executor (ref/late.h), and it is fatal if nothing was replayed. */
bool layout_is_equal(struct comm *comm, struct executor *executor, const struct layout *layout, const struct form *form,
                     const struct run_outcome *alone, const struct distances *bound, struct distances *apart);

#endif
