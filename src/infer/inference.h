/* A checkpoint made ready for inference: its deck, tokenizer and model, an executor, and an engine that holds the
 * weights and nothing of training. */
#ifndef INFER_INFERENCE_H
#define INFER_INFERENCE_H

#include "comm/grid.h"
#include "core/device.h"
#include "tokenizer/tokenizer.h"
#include "setup/setup.h"

/* What an engine is to do; as in memory_settings and engine_settings. */
struct inference_shape {
    enum memory_use use;
    int64_t tokens, segments; /* of one call */
    int64_t positions;        /* MEMORY_GENERATE: of a sequence; segments: of all sequences at once */
    int64_t least_rows;       /* MEMORY_GENERATE: as in engine_settings */
    bool shard;               /* cut the weights over the ranks, even if each can hold all */
    int64_t tensor;           /* ranks that have a part of each layer and compute together; 0 and 1: each has all */
};

struct inference {
    struct comm *world; /* borrowed */
    struct setup setup; /* of the checkpoint's deck */
    char *path;         /* of the checkpoint; owned */
    const struct tokenizer *tokenizer;
    int64_t step, seed; /* of the training */
    int64_t context;    /* tokens of the longest piece that it was trained on */
    struct executor *executor;
    int threads; /* of the CPU, this rank's share */
    struct inference_shape shape;
    bool shares; /* ranks with the same parts of layers hold their weights once between them, each a cut */
    struct grid grid;
    int teams, team; /* ranks that compute together are a team; how many there are, and which is this rank's */
    struct parallel_groups groups;
    struct model model;
    struct engine engine;
    int made; /* how far it came */
};

/* Finds the checkpoint `where`: a file, or a run folder, of which it takes final_model.h5 or a later good
 * checkpoint. Reads what it says of itself and makes an executor on this rank's share of the CPUs. Collective; an
 * agreed code; inference_close in any case. ERROR_USER: there is none, it is damaged, its deck or tokenizer is none of
 * this program's. */
int inference_open(struct inference *inference, struct comm *world, const char *where, device_make *make_executor);

/* Did the model learn texts that begin with the begin token? Local. */
bool inference_begins(const struct inference *inference);

/* Decides what the ranks hold: all weights each, or a part of each layer, where there is room for them and for what the
 * shape takes; else each a cut, and they are gathered layer by layer. Every forward pass of the engine is then
 * collective; it always is among the ranks of a team. Collective; an agreed code. ERROR_USER: ranks cannot divide the
 * layers. */
int inference_lay_out(struct inference *inference, const struct inference_shape *shape);

/* Bytes that inference_start will take of this rank. Local. */
int64_t inference_need(const struct inference *inference);

/* Makes the model and an engine of that shape, and reads the weights; they are stored as the checkpoint's deck says
 * (precision.compute). Collective; an agreed code. ERROR_USER: the tensors do not fit the deck. */
int inference_start(struct inference *inference);

/* Records and returns ERROR_DIVERGED: the model of that checkpoint computes NaN or infinity. */
int inference_diverged(const char *checkpoint);

void inference_close(struct inference *inference);

#endif
