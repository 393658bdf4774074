/* Key header: the engine runs training steps and the forward passes of inference. It owns this rank's weights (through
 * a weight store), activations and device batch on one executor, and interprets schedules. engine_create allocates
 * everything; addresses never change afterwards, so parts of a step can be captured as CUDA graphs. */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "data/context_split.h"
#include "data/labelled_rows.h"
#include "engine/memory.h"
#include "engine/optimizer.h"
#include "engine/replay.h"
#include "engine/delayed_scaling.h"
#include "engine/schedule.h"
#include "engine/staging.h"
#include "store/store.h"

struct comm;

/* Context parallelism: this rank's part of the batch that is being copied to the device. */
struct engine_rows {
    struct context_split split;
    struct batch padded;              /* inference: the batch, in a row of a multiple of 2 * split.ranks tokens */
    struct batch batch;               /* this rank's part */
    int32_t *tables;                  /* segment tables of its attention, made by context_split_segments */
    struct attention_segments *parts; /* target of the slots' batch_tensors.parts; NULL: no context parallelism */
};

struct engine_settings {
    struct memory_settings memory; /* memory.use: training, evaluation, embedding or generation */
    struct optimizer_settings optimizer;
    struct sharding sharding;
    bool replays; /* parts of a step are captured and replayed where the executor can (engine/replay.h) */
    /* MEMORY_GENERATE only. The key-value cache has `sequences` sequences of `positions` tokens; memory.max_segments is
     * at least engine_call_segments. least_rows: minimum rows of a call, at most memory.row_tokens; shorter calls are
     * padded to it, so that the bits of a product do not depend on the number of tokens. */
    int64_t sequences, positions, least_rows;
    const float *class_weights; /* [model's task.labels], borrowed by engine_create; NULL: classes have no weights */
    /* The tensor-parallel ranks, in the order of their columns; they write whole rows of a checkpoint together. NULL:
     * no tensor parallelism. Borrowed. */
    struct comm *tensor;
    struct comm *context; /* inference: the ranks that share rows. NULL: no context parallelism. Borrowed. */
};

/* The results of a step or an evaluation while they are copied to the host. */
struct engine_return {
    struct tensor total, norm;         /* in the executor's host memory */
    struct tensor quantization_errors; /* in host memory; absent where engine.quantization_errors is */
    struct event read;                 /* the copy has finished */
    bool updated;                      /* norm belongs to this step */
    bool measured;                     /* quantization_errors belong to this step */
};

/* A message to another pipeline stage that is in flight while units compute the next one. */
struct stage_transfer {
    struct tensor data;
    struct event ready;    /* data is complete */
    struct event received; /* the other stage has received it */
};

enum {
    ENGINE_RETURNS = 2,                /* maximum of steps in flight */
    ENGINE_MARKS = ENGINE_RETURNS + 1, /* time stamps: the end of the step before them, and the end of each */
};

struct engine {
    struct executor *executor; /* borrowed */
    struct stream streams[STREAM_COUNT];
    struct model *model; /* borrowed */
    struct parallel_groups groups;
    struct budget budget;
    struct weight_store *store; /* owned; may be replaced by a wrapper before the first step */
    struct unit **acquisitions; /* storage of the lists in orders */
    struct acquisition_order orders[MODEL_CHUNKS];
    enum store_written written[MODEL_CHUNKS]; /* since the chunk's last forward */
    struct engine_memory memory;
    struct optimizer optimizer; /* unused by an engine that does not train, as is scaling */
    struct delayed_scaling scaling;
    struct tensor quantization_errors; /* f64 [operands, STATISTICS]: those of a measured step, or absent */
    bool statistics;                   /* set by the caller: steps that begin from now on measure quantization errors */
    double decoupled_rate; /* set by the caller: learning rate of embedding and head where it is decoupled */
    struct engine_settings settings;
    struct batch_tensors *batches; /* [slots of all chunks] */
    struct engine_rows rows;
    struct labelled_rows labelled; /* host memory for a micro-batch's tables; NULL unless the head uses them */
    struct tensor sums;            /* f64: the loss and label sums of a step, then the optimizer's squares */
    struct tensor total;           /* view of sums: the loss and label sums; only tensor rank 0 adds to it */
    struct tensor batch_total;     /* sums of a micro-batch where sums are exact (store/exact.h), or absent */
    struct tensor rope_table;
    struct execution_owner owner; /* owner of the execution */
    struct execution execution;
    const struct engine_states *states; /* in engine_embed, else NULL */
    int64_t state_tokens;               /* tokens of its batch */
    struct tensor fetched; /* in the executor's host memory: some rows of states; absent unless memory.use is EMBED */
    /* Set by the caller for engine_evaluate of a model with a fine-tuning head; NULL: not called. Called for each
     * micro-batch on ranks that compute the head, of tensor ranks on the first, with its outputs [rows, task.labels]
     * and labels i32 [1, rows], in host memory and valid during the call; labels below 0 are none, and with targets the
     * others are their rows. */
    void (*predicted)(void *self, const struct tensor *outputs, const struct tensor *labels, const struct batch *batch);
    void *predicted_self;
    struct stage_transfer sending[TRANSFER_DIRECTIONS]; /* SEND_TO_NEXT and SEND_TO_PREVIOUS */
    struct batch_staging staging;
    struct step_replay replay;
    int64_t *lengths;     /* [sequences]: tokens of each sequence in the cache; NULL: no cache */
    struct tensor logits; /* in the executor's host memory: result of engine_extend */
    struct engine_return returns[ENGINE_RETURNS];
    int64_t launched, returned; /* number of steps launched, and of results returned */
    double marks[ENGINE_MARKS]; /* entry i % ENGINE_MARKS: host clock at the launch of step i - 1, or at the start of
                                   step i if none was in flight; used where the executor has no profiling table */
    struct event copied;        /* a snapshot of weights and moments is complete; updates wait for it */
};

/* Allocates all memory from the executor; out of memory is fatal. Weights are zero until engine_initialise or a
 * checkpoint writes them. Collective over groups->all. executor, model and what settings point to are borrowed.
 *
 * With context parallelism, groups->context are the ranks that share rows, model->settings.context is the method, and
 * model->tokens is one rank's number of tokens. settings->memory and all batches describe whole rows, of a multiple of
 * 2 * ranks tokens; the batch of an inference pass is one row of any length up to the planned one. The ranks pass the
 * same batches to their engines, and each engine uses its part.
 *
 * In generation groups->context are ranks that share the key-value cache (model->settings.context.cache): a rank has
 * the keys and values of some blocks of ENGINE_CACHE_BLOCK tokens of each sequence, and model->tokens is the number of
 * tokens of a call. */
void engine_create(struct engine *engine, struct executor *executor, struct model *model,
                   const struct parallel_groups *groups, const struct engine_settings *settings);
void engine_destroy(struct engine *engine);

/* The result of a step or an evaluation, over all ranks of groups.all. */
struct engine_result {
    double loss_sum; /* nats, over all labels */
    double labels;
    double grad_norm; /* gradient norm of the mean loss, before clipping */
};

/* One optimizer step: runs the schedule over this rank's micro-batches, reduces over ranks, updates the weights.
 * Collective over groups.all. schedule->slots must not exceed the planned slots. batches: [micro-batches of this rank].
 * engine_begin launches a step without waiting for it; up to ENGINE_RETURNS steps may be in flight, and the batches may
 * be overwritten when it returns. engine_take waits for the oldest step in flight. engine_step is both. */
void engine_begin(struct engine *engine, const struct schedule *schedule, const struct batch *batches,
                  double learning_rate);
/* Returns whether engine_take would return without waiting; false if no step is in flight. */
bool engine_ready(struct engine *engine);
struct engine_result engine_take(struct engine *engine);
struct engine_result engine_step(struct engine *engine, const struct schedule *schedule, const struct batch *batches,
                                 double learning_rate);

/* Seconds of the step that engine_take returned last, by the device's clock: from the end of the previous step, or from
 * its own first launch if no step was in flight then, to its own end. Not collective. */
double engine_seconds(const struct engine *engine);

/* Copies the quantization errors that this rank measured in the step that engine_take returned last: sums and maxima
 * over the step's micro-batches for each operand (operand_number, model/linear.h). Weights count once per micro-batch.
 * errors: [operands, STATISTICS]. Not collective. */
void engine_quantization_errors(const struct engine *engine, double *errors);

/* engine_updates returns the number of updates so far, over all runs of this training: the steps whose gradients were
 * finite. AdamW's bias corrections use it. It waits for steps in flight; 0 for an engine that does not train.
 * engine_set_updates sets it, when moments were read from a checkpoint. Not collective. */
int64_t engine_updates(struct engine *engine);
void engine_set_updates(struct engine *engine, int64_t updates);

/* Runs a schedule without an update; the gradients stay in the store. Collective over groups.all. */
struct engine_result engine_gradients(struct engine *engine, const struct schedule *schedule,
                                      const struct batch *batches);

/* Tuning pass: runs forward and backward of one micro-batch so that the executor can time kernels. With `adds` it runs
 * them once more, adding to gradients as later micro-batches of a step do. The results are discarded: the next step
 * overwrites gradients and losses. Collective over groups.all, with the same `adds` on all ranks. */
void engine_tuning_pass(struct engine *engine, const struct batch *batch, bool adds);

/* Sums the losses of `count` micro-batches, without gradients. Collective over groups.all. */
struct engine_result engine_evaluate(struct engine *engine, const struct batch *batches, int64_t count);

/* Writes each token's loss in nats, 0 where it has no label; losses: [rows * row_tokens]. The batch may have fewer
 * tokens than planned, in rows of any length. Collective over groups.gather, whose ranks may have batches of different
 * sizes. For engines that train or evaluate.
 *
 * With context parallelism the results of this function and the next two are written on the first of the context ranks
 * only (settings.context), over which they are collective. */
void engine_score(struct engine *engine, const struct batch *batch, double *losses);

/* States of tokens, in the numbering of transformers' hidden_states: 0 is the output of the embedding, i that of layer
 * i, and the number of layers the state after the last norm. */
struct engine_states {
    const int64_t *layers; /* [count], each once */
    int64_t count;
    float *vectors; /* [tokens, count, hidden]; may be NULL on a context rank that is not the first */
    /* Called for each layer (from 0) with the queries and keys of all tokens, after the rotary embedding, in host
     * memory: [tokens, heads * head_dim], valid during the call. NULL: not wanted. Without tensor and context
     * parallelism. */
    void (*attended)(void *self, int64_t layer, const struct tensor *queries, const struct tensor *keys);
    void *self;
};

/* Writes states of all tokens of a batch, of whole rows. Sizes of batches and ranks are as in engine_score. For engines
 * of MEMORY_EMBED. */
void engine_embed(struct engine *engine, const struct batch *batch, const struct engine_states *states);

/* Writes the logits of the tokens ends[count] (indices in the batch's flattened rows; with context parallelism each at
 * most once), rounded to f32; logits: [count, vocabulary]. The head computes these tokens alone. count: 0 to the
 * planned tokens, if the model was made with as many tokens per slice of the head. Sizes of batches and ranks are as in
 * engine_score. For engines of MEMORY_LOGITS. */
void engine_logits(struct engine *engine, const struct batch *batch, int32_t *ends, int64_t count, float *logits);

/* -- Generation: engines made for MEMORY_GENERATE, which own the keys and values of sequences ---------------------- */

enum {
    ENGINE_CACHE_BLOCK = 64
}; /* consecutive tokens of a sequence whose keys and values belong to one context rank */

/* Tokens to append to one sequence of the cache. */
struct engine_piece {
    int64_t sequence; /* 0 .. sequences - 1 */
    const int32_t *tokens;
    int64_t count; /* number of tokens, at least 1 */
    bool ends;     /* the logits of the last token are requested */
};

/* Returns the maximum number of segments of a call: one for each piece, or with context parallelism one for each part
 * of a piece whose keys and values belong to one rank. sequences: pieces of a call. */
int64_t engine_call_segments(int64_t sequences, int64_t tokens, int context_ranks);

/* Appends the pieces to different sequences and returns the requested logits, [pieces with ends, vocabulary], in the
 * order of the pieces. The logits are in host memory of the engine and valid until the next call. The pieces' tokens
 * together must not exceed the planned tokens. Calls in which each piece is one token with `ends` are captured and
 * replayed. Collective over groups.gather and the context ranks, which pass the same pieces and get the same logits. */
struct tensor engine_extend(struct engine *engine, const struct engine_piece *pieces, int64_t count);

/* engine_length returns the number of tokens in a sequence; engine_truncate removes the tokens from `length` on. */
int64_t engine_length(const struct engine *engine, int64_t sequence);
void engine_truncate(struct engine *engine, int64_t sequence, int64_t length);

/* Notes that the compute stream has written weights of the store's shards other than by a step. The next forward
 * distributes them to other ranks. Not collective. */
void engine_weights_written(struct engine *engine);

/* Blocks until all launches on the compute stream have run. Not collective. */
void engine_synchronize(struct engine *engine);

#endif
