/* Declarations shared by the engine's files. */
#ifndef ENGINE_ENGINE_PRIVATE_H
#define ENGINE_ENGINE_PRIVATE_H

#include "engine/engine.h"

static inline bool engine_generates(const struct engine *e)
{
    return e->settings.memory.use == MEMORY_GENERATE;
}

/* Returns whether the engine rounds stochastically. */
static inline bool engine_draws(const struct engine *e)
{
    return e->settings.memory.use == MEMORY_TRAIN && precision_draws(&e->model->settings.precision);
}

/* Returns whether the engine's passes have dropout. */
static inline bool engine_drops(const struct engine *e)
{
    return e->settings.memory.use == MEMORY_TRAIN && lora_drops(&e->model->settings.lora);
}

/* -- engine_batch.c ---------------------------------------------------------------------------------------------- */

void engine_create_batches(struct engine *e);
/* Copies this rank's part of a batch to the device: load includes staging_next and staging_end, stage is called between
 * them. The batch may have fewer tokens and segments than planned; units see its actual sizes. */
void engine_load_batch(struct engine *e, const struct batch *batch, struct batch_tensors *to);
void engine_stage_batch(struct engine *e, const struct batch *batch, struct batch_tensors *to);
/* Copies from[count] to the start of a tensor, whose length becomes count. */
void engine_load_numbers(struct engine *e, void *from, int64_t count, struct tensor *to);

/* -- engine_labelled.c -------------------------------------------------------------------------------------------- */

/* Creates the tables of labelled rows of all batches, if the head uses them, for `tokens` tokens of this rank.
 * engine_destroy frees e->labelled.rows. */
void engine_create_labelled(struct engine *e, int64_t tokens, int slots);
/* Returns the maximum bytes that engine_stage_labelled copies to the device for a batch. */
int64_t engine_labelled_bytes(const struct engine *e);
/* part: this rank's part of a batch. */
void engine_stage_labelled(struct engine *e, const struct batch *part, struct batch_tensors *to);

/* -- engine_rows.c ----------------------------------------------------------------------------------------------- */

/* Creates the buffers of context parallelism, after the batches, and checks its conditions (engine_create). */
void engine_create_rows(struct engine *e);
void engine_destroy_rows(struct engine *e);
/* Returns the maximum bytes that engine_stage_tables copies to the device for a batch. */
int64_t engine_table_bytes(const struct engine *e);
/* Returns the batch that the ranks split: `batch`, or a padded copy, valid until the next call. */
const struct batch *engine_whole(struct engine *e, const struct batch *batch);
/* Returns this rank's part of a whole batch, valid until the next call; without context parallelism, the batch. */
const struct batch *engine_part(struct engine *e, const struct batch *whole);
void engine_stage_tables(struct engine *e, const struct batch *whole, struct batch_tensors *to);

/* -- engine_action.c --------------------------------------------------------------------------------------------- */

void engine_run_forward(struct engine *e, enum pass_kind pass, int chunk, int slot);
/* Notes that weights of shards have been written, which forwards must distribute to other ranks. */
void engine_written(struct engine *e, enum store_written written);
/* Notes that a chunk's forward, launched or replayed, has distributed new weights: all of them if weights are whole,
 * else those of the chunk. */
void engine_seen(struct engine *e, int chunk);
void engine_run_backward(struct engine *e, const struct schedule_action *action);
struct batch_tensors *engine_batch(struct engine *e, int chunk, int slot);

/* -- engine_pipeline.c ----------------------------------------------------------------------------------------------
 */

/* Creates the send and receive buffers of a pipeline stage, one for each direction, since both are in use at once. */
void engine_create_stage_buffers(struct engine *e);
/* Pipeline transfers of a chunk's forward or backward: engine_receive receives its input, engine_send sends its result
 * on STREAM_SEND. Nothing is received before it is needed, because a kernel that waits for another rank occupies SMs.
 */
void engine_receive(struct engine *e, int chunk, bool backward);
void engine_send(struct engine *e, int chunk, bool backward);
/* Runs the forward of a micro-batch through all stages, on this stage chunk by chunk. */
void engine_forward_stages(struct engine *e, enum pass_kind pass, const struct batch *batch);
/* Adds the gradients of a tied table that two stages own, on both. Call it after gradients_wait. */
void engine_sum_two_stages(struct engine *e, struct unit *unit, struct stream *stream);

/* -- engine_step.c ----------------------------------------------------------------------------------------------- */

/* Sets the sums of losses, labels and squares to zero. */
void engine_start_totals(struct engine *e);
/* With exact sums: adds the sums of a micro-batch to the totals. */
void engine_add_totals(struct engine *e);
void engine_sum_over_ranks(struct engine *e, struct tensor x);

/* -- engine_infer.c ---------------------------------------------------------------------------------------------- */

/* Returns a copy in host memory, whose data the caller frees. Waits for all earlier launches, which may read the
 * caller's memory. */
struct tensor engine_fetch(struct engine *e, struct tensor from);
/* After a forward of PASS_EVALUATE: shows the head's outputs to the caller (engine->predicted). */
void engine_show_predictions(struct engine *e, const struct batch *batch);
/* After the forward of a unit: copies its state for engine_embed, if it is wanted. */
void engine_keep_states(struct engine *e, const struct unit *unit);
/* The service `attended` of units (model/execution.h), for engine_embed. */
void engine_keep_attention(const struct execution *execution, const struct unit *unit, struct tensor queries,
                           struct tensor keys);
/* Create and destroy the buffer of engine_embed. */
void engine_create_fetched(struct engine *e);
void engine_destroy_fetched(struct engine *e);
/* Reads the first row of a tensor as doubles. */
void engine_read_values(struct engine *e, struct tensor from, double *values);

/* -- engine_generate.c ------------------------------------------------------------------------------------------- */

/* Creates the tables that only batches of generation have. */
void engine_create_cache_tables(struct engine *e, struct batch_tensors *batch);
/* Returns the maximum bytes that engine_extend copies to the device in addition to a batch. */
int64_t engine_cache_bytes(const struct engine *e);
/* Create and destroy the key-value cache and the host's record of it; destroy does nothing without a cache. */
void engine_create_sequences(struct engine *e);
void engine_destroy_sequences(struct engine *e);

#endif
