/* The engine runs steps, and the forward passes of inference: it owns a rank's weights (through a store), activations
 * and batch on an executor, and interprets schedules. Everything is allocated when it is made; addresses are fixed from
 * then on. */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "data/context_cut.h"
#include "engine/memory.h"
#include "engine/optimizer.h"
#include "engine/replay.h"
#include "engine/delayed_scaling.h"
#include "engine/schedule.h"
#include "engine/staging.h"
#include "store/store.h"

struct comm;

/* Where ranks share rows (groups.context): this rank's part of the batch that is on its way to the device. */
struct engine_rows {
    struct context_cut cut;
    struct batch batch;
    int32_t *tables;                  /* of its attention, as context_cut_segments makes them */
    struct attention_segments *parts; /* what the slots' batch_tensors.parts point into; NULL: no ranks share rows */
};

struct engine_settings {
    struct memory_settings memory; /* memory.use says what the engine is for */
    struct optimizer_settings optimizer;
    struct sharding sharding;
    bool replays; /* parts of a step are recorded and replayed where the executor can (engine/replay.h) */
    /* MEMORY_GENERATE: tokens of a sequence that the cache has room for; there are memory.max_segments sequences.
     * least_rows: a call takes so many rows through the model at least, filled up where it has fewer, so that products
     * do not change with the number of its tokens; at most memory.row_tokens. Others: unused. */
    int64_t positions, least_rows;
    /* Ranks whose parts of parameters lie side by side with this rank's, in the order of their columns; with them a
     * checkpoint is written by whole rows. NULL: parameters are whole. Borrowed. */
    struct comm *tensor;
};

/* The results of a step or an evaluation, on their way to the host. */
struct engine_return {
    struct tensor total, norm; /* in the executor's host memory */
    struct tensor losses;      /* likewise, as those of the engine; absent where that has none */
    struct event read;         /* they have arrived */
    bool updated;              /* norm is this step's */
    bool measured;             /* losses are this step's */
};

/* What is on its way to another stage, while units make what goes there next. */
struct stage_transfer {
    struct tensor data;
    struct event ready; /* it is there */
    struct event taken; /* the other stage has it */
};

enum {
    ENGINE_RETURNS = 2,                /* steps that may be on their way at a time */
    ENGINE_MARKS = ENGINE_RETURNS + 1, /* the end of the step before them, and the end of each */
};

struct engine {
    struct executor *executor; /* borrowed */
    struct stream streams[STREAM_COUNT];
    struct model *model; /* borrowed */
    struct parallel_groups groups;
    struct budget budget;
    struct weight_store *store; /* owned; may be exchanged for one that wraps it before the first step */
    struct unit **visited;      /* what the lists of visits point into */
    struct unit_visits visits[MODEL_CHUNKS];
    bool written[MODEL_CHUNKS]; /* weights of shards have been, since the chunk's last forward */
    struct engine_memory memory;
    struct optimizer optimizer; /* of an engine that trains, as is scaling */
    struct delayed_scaling scaling;
    struct tensor
        losses;      /* f64 [operands, STATISTICS]: execution.losses at steps that measure; absent where none does */
    bool statistics; /* set by the caller: steps that begin now measure what quantization loses; needs losses */
    double decoupled_rate; /* set by the caller: of steps that begin now, the learning rate of what has its own */
    struct engine_settings settings;
    struct batch_tensors *batches; /* [slots of all chunks] */
    struct engine_rows rows;
    struct tensor sums;        /* f64: the loss and label sums of a step, then the optimizer's squares */
    struct tensor total;       /* of these, the loss and label sums; units add to it on one tensor rank alone */
    struct tensor batch_total; /* the same of a micro-batch, where sums are exact (store/exact.h); else absent */
    struct tensor rope_table;
    struct execution_owner owner; /* of the execution */
    struct execution execution;
    struct stage_transfer leaving[RELAY_COUNT]; /* of RELAY_TO_NEXT and RELAY_TO_BEFORE */
    struct batch_staging staging;
    struct step_replay replay;
    int64_t *lengths;     /* [memory.max_segments] of the sequences in the cache; NULL: there is none */
    struct tensor logits; /* in the executor's host memory: what engine_extend returns */
    struct engine_return returns[ENGINE_RETURNS];
    int64_t begun, taken;       /* of the returns */
    double marks[ENGINE_MARKS]; /* host clock when the return i - 1 was launched, or i where none was in flight, at i %
                                   ENGINE_MARKS: the time itself where launches are synchronous, else stamps have it */
    struct event copied;        /* updates wait for it: weights and moments have been copied (state/snapshot.h) */
};

/* Allocates everything from the executor; weights are zero until engine_initialise or a checkpoint writes them.
 *
 * Where ranks share rows, groups->context are these ranks, model->settings.rows says how, and model->tokens are those
 * that one rank has; settings->memory and all batches are of whole rows, of a multiple of 2 * ranks tokens. Each of the
 * ranks gives its engine the same batches, and the engine takes its part. */
void engine_create(struct engine *engine, struct executor *executor, struct model *model,
                   const struct parallel_groups *groups, const struct engine_settings *settings);
void engine_destroy(struct engine *engine);

/* What a step or an evaluation found, over all ranks of groups.all. */
struct engine_result {
    double loss_sum; /* nats, over all labels */
    double labels;
    double grad_norm; /* of the mean loss, before clipping */
};

/* One optimizer step: runs the schedule over this rank's micro-batches, sums over ranks, updates. Collective over
 * groups.all. schedule->slots must not exceed the planned slots.
 * engine_begin launches the step and need not wait for it: up to ENGINE_RETURNS steps may be on their way; the batches
 * are free for other use. engine_take waits for the oldest of them. engine_step is both. */
void engine_begin(struct engine *engine, const struct schedule *schedule, const struct batch *batches,
                  double learning_rate);
/* Can engine_take return without waiting? False also when no step is on its way. */
bool engine_ready(struct engine *engine);
struct engine_result engine_take(struct engine *engine);
struct engine_result engine_step(struct engine *engine, const struct schedule *schedule, const struct batch *batches,
                                 double learning_rate);

/* Seconds of the step that engine_take returned last, by the device's clock: from the end of the step before it to its
 * own end; where none was in flight when it began, from its first launch. Not collective. */
double engine_seconds(const struct engine *engine);

/* What quantization lost on this rank in the step that engine_take returned last, and that measured it: of each operand
 * (operand_number, model/linear.h) its sums and maxima over the step's micro-batches, weights counted with each.
 * losses: [operands, STATISTICS]. Not collective. */
void engine_losses(const struct engine *engine, double *losses);

/* The number of updates made so far, over all runs of this training: steps whose gradients were finite. The moments'
 * bias corrections use it. Waits for steps on their way. 0 for an engine that does not train. Not collective.
 * engine_set_updates: sets it when moments are read from a checkpoint. */
int64_t engine_updates(struct engine *engine);
void engine_set_updates(struct engine *engine, int64_t updates);

/* Losses and gradients of the schedule without an update; gradients stay in the store. */
struct engine_result engine_gradients(struct engine *engine, const struct schedule *schedule,
                                      const struct batch *batches);

/* Rehearsal (struct executor): runs forward and backward of a micro-batch so that the executor can time kernels; with
 * `adds` once more, adding to gradients as the later micro-batches of a step do. Results are discarded: the next step's
 * gradients and losses replace them. Collective over groups.all: its store may gather weights, and its embedding what
 * the gradient is made of; so `adds` is the same on all ranks. */
void engine_rehearse(struct engine *engine, const struct batch *batch, bool adds);

/* Sum of losses of micro-batches, without gradients. Collective over groups.all. */
struct engine_result engine_evaluate(struct engine *engine, const struct batch *batches, int64_t count);

/* losses: [rows * row_tokens], each token's loss in nats, 0 where it has no label. The batch may have fewer tokens than
 * planned, in rows of any length. Collective over groups.gather, whose ranks may have batches of different sizes.
 * Engines for training or evaluation whose rows no ranks share. */
void engine_score(struct engine *engine, const struct batch *batch, double *losses);

/* vectors: [rows * row_tokens, hidden], each token's state after the last norm. The batch may be smaller than planned,
 * as above. Collective as above. Engines for MEMORY_EMBED. */
void engine_embed(struct engine *engine, const struct batch *batch, float *vectors);

/* -- Generation: engines made for MEMORY_GENERATE, which hold the keys and values of sequences --------------------- */

/* What a sequence goes on with. */
struct engine_piece {
    int64_t sequence; /* 0 .. memory.max_segments - 1 */
    const int32_t *tokens;
    int64_t count; /* of them, at least 1 */
    bool ends;     /* the last token's logits are wanted */
};

/* Appends the pieces to their sequences, no two to the same, and returns the logits that are wanted, [ends,
 * vocabulary], in the order of the pieces; they lie in host memory of the engine until the next call. All counts
 * together: at most the planned tokens. Calls whose pieces all are one token that ends are recorded and replayed.
 * Collective over groups.gather. */
struct tensor engine_extend(struct engine *engine, const struct engine_piece *pieces, int64_t count);

/* Tokens of a sequence so far; engine_truncate forgets those from `length` on. */
int64_t engine_length(const struct engine *engine, int64_t sequence);
void engine_truncate(struct engine *engine, int64_t sequence, int64_t length);

/* To be called when the compute stream has written weights of the store's shards other than by a step. The next forward
 * makes them known to other ranks. Not collective. */
void engine_weights_written(struct engine *engine);

/* Waits until all launches on the compute stream have run. */
void engine_synchronize(struct engine *engine);

#endif
