/* Makes a checkpoint ready for inference: its deck, tokenizer and model, an executor, and an engine that has weights
 * but no gradients or moments. */
#ifndef INFER_INFERENCE_H
#define INFER_INFERENCE_H

#include "comm/grid.h"
#include "core/device.h"
#include "tokenizer/tokenizer.h"
#include "setup/setup.h"

/* Requirements for the engine; fields as in memory_settings and engine_settings. */
struct inference_shape {
    enum memory_use use;
    int64_t tokens, segments; /* maximum of one call */
    int64_t longest;          /* maximum tokens of a segment; 0: limited by `tokens` only */
    int64_t positions;        /* MEMORY_GENERATE: tokens per sequence, of which there are `segments` */
    int64_t least_rows;       /* MEMORY_GENERATE: as in engine_settings */
    bool shard;               /* shard the weights over the ranks even if each rank could own all of them */
    int64_t tensor;           /* number of tensor-parallel ranks; 0 and 1: no tensor parallelism */
    int64_t context;          /* number of context-parallel ranks; 0 and 1: no context parallelism */
};

struct inference {
    struct comm *world; /* borrowed */
    struct setup setup; /* compiled from the checkpoint's deck */
    char *path;         /* path of the checkpoint; owned */
    const struct tokenizer *tokenizer;
    int64_t step, seed; /* of the training */
    int64_t context;    /* tokens per window in training */
    int64_t longest;    /* tokens of the longest window that the model takes: context, or more if its positions allow */
    struct executor *executor;
    int threads; /* CPU threads of this rank */
    struct inference_shape shape;
    bool shares; /* weights are sharded over the ranks with the same part of the layers */
    struct grid grid;
    int teams, team;  /* number of teams, and this rank's; a team is the tensor- and context-parallel ranks */
    bool has_results; /* this rank gets the results of the engine's forward passes: the team's first context rank */
    struct parallel_groups groups;
    struct model model;
    struct engine engine;
    int made; /* how far the set-up has come */
};

/* Finds the checkpoint `where`: a file, or a run folder, of which final_model.h5 or a later good checkpoint is chosen.
 * Reads its metadata, and makes an executor on this rank's share of the CPUs. Collective; an agreed code. Call
 * inference_close also after an error. ERROR_USER: there is no checkpoint, it is damaged, or its deck or tokenizer is
 * not supported by this program. */
int inference_open(struct inference *inference, struct comm *world, const char *where, device_make *make_executor);

/* Returns whether the model was trained on texts that begin with the begin token. Local. */
bool inference_begins(const struct inference *inference);

/* Records the error that --both-strands was given for another model than one of bases; returns ERROR_USER. */
int inference_refuse_strands(const struct inference *inference);

/* Decides the type in which the model computes: "fp32", "bf16", or NULL for that of the training. Before
 * inference_lay_out. ERROR_USER: another name, or the model computes in 8-bit or 4-bit formats. */
int inference_choose_precision(struct inference *inference, const char *name);

/* Checks a command's --context: 0, or from `least` to `longest`. Warns on rank 0 of windows longer than in training. */
int inference_check_context(const struct inference *inference, int64_t context, int64_t least);

/* Checks a record that is computed whole: it has at most `longest` tokens. Local. */
int inference_check_record(const struct inference *inference, const char *name, int64_t tokens);

/* Decides what each rank owns: all weights, or with tensor parallelism its part of each layer, if they fit into memory
 * together with what the shape needs; with context parallelism these are the activations of its part of the tokens.
 * Otherwise, or with shape->shard, the weights are sharded and gathered layer by
 * layer; then every forward pass of the engine is collective over all ranks. Forward passes are always collective over
 * a team. Collective; an agreed code. ERROR_USER: the layers or tokens cannot be divided among the ranks. */
int inference_lay_out(struct inference *inference, const struct inference_shape *shape);

/* Returns the bytes that inference_start will allocate on this rank. Local. */
int64_t inference_need(const struct inference *inference);

/* Plans the memory of an engine of this shape for the model of a deck, on each of shape->context context-parallel
 * ranks; `executor` is asked for scratch sizes only. Writes its bytes by category. Local; needs neither other ranks nor
 * a checkpoint. ERROR_USER: the deck's model is incomplete, its positions are fewer than `window` (a command's
 * --context), or a store that it names is damaged. */
int inference_plan(const struct deck *deck, int64_t window, const struct inference_shape *shape,
                   struct executor *executor, int64_t memory[BUDGET_CATEGORIES]);

/* Makes the model and the engine, and reads the weights, in the type that the checkpoint's deck names
 * (precision.compute). Collective; an agreed code. ERROR_USER: the tensors do not fit the deck. */
int inference_start(struct inference *inference);

/* Records the error that the model of this checkpoint computes NaN or infinity; returns ERROR_DIVERGED. */
int inference_diverged(const char *checkpoint);

void inference_close(struct inference *inference);

#endif
