/* What the engine's files share. */
#ifndef ENGINE_ENGINE_PRIVATE_H
#define ENGINE_ENGINE_PRIVATE_H

#include "engine/engine.h"

/* Is the engine made for generation? */
static inline bool engine_generates(const struct engine *e)
{
    return e->settings.memory.use == MEMORY_GENERATE;
}

/* Does it round anything at random? */
static inline bool engine_draws(const struct engine *e)
{
    return e->settings.memory.use == MEMORY_TRAIN && precision_draws(&e->model->settings.precision);
}

/* -- engine_batch.c ---------------------------------------------------------------------------------------------- */

void engine_create_batches(struct engine *e);
/* Copies a batch to the device: load does it whole, stage between staging_next and staging_end. It may have fewer
 * tokens and segments than planned; units see those that it has. */
void engine_load_batch(struct engine *e, const struct batch *batch, struct batch_tensors *to);
void engine_stage_batch(struct engine *e, const struct batch *batch, struct batch_tensors *to);
/* Copies from[count] to the start of a tensor, whose length becomes count. */
void engine_load_numbers(struct engine *e, void *from, int64_t count, struct tensor *to);

/* -- engine_rows.c ----------------------------------------------------------------------------------------------- */

/* After the batches. Checks what engine_create says of ranks that share rows. */
void engine_create_rows(struct engine *e);
void engine_destroy_rows(struct engine *e);
/* Bytes that engine_stage_tables copies to the device for a batch, at most. */
int64_t engine_table_bytes(const struct engine *e);
/* What this rank has of a batch: all of it, or a part that is valid until the next call. */
const struct batch *engine_part(struct engine *e, const struct batch *whole);
void engine_stage_tables(struct engine *e, const struct batch *whole, struct batch_tensors *to);

/* -- engine_action.c --------------------------------------------------------------------------------------------- */

void engine_run_forward(struct engine *e, enum pass_kind pass, int chunk, int slot);
/* Weights of shards have been written, which forwards are to bring to the other ranks. */
void engine_written(struct engine *e);
/* A chunk's forward has done so, recorded or replayed: for all weights where values are whole, else for its chunk's. */
void engine_seen(struct engine *e, int chunk);
void engine_run_backward(struct engine *e, const struct schedule_action *action);
/* The batch of a chunk's slot. */
struct batch_tensors *engine_batch(struct engine *e, int chunk, int slot);

/* -- engine_relay.c ---------------------------------------------------------------------------------------------- */

/* What this stage hands to those beside it, and what they hand to it: one place for each, since both are used at once.
 */
void engine_create_relays(struct engine *e);
/* Around a chunk's forward or backward, where the model goes on in another stage: receives what it reads; sends what it
 * has made, on STREAM_RELAY, so that this stage goes on. Nothing is received before it is needed: what waits for
 * another rank takes multiprocessors. */
void engine_receive(struct engine *e, int chunk, bool backward);
void engine_send(struct engine *e, int chunk, bool backward);
/* A forward of a micro-batch through all stages: chunk by chunk on this one. */
void engine_forward_stages(struct engine *e, enum pass_kind pass, const struct batch *batch);
/* Adds up the gradients of a table that two stages hold, on both. After gradients_wait. */
void engine_sum_twice_held(struct engine *e, struct unit *unit, struct stream *stream);

/* -- engine_step.c ----------------------------------------------------------------------------------------------- */

/* Sets the sums of losses, labels and squares to zero. */
void engine_start_totals(struct engine *e);
/* Where sums are exact: adds what a micro-batch has summed to the totals. */
void engine_add_totals(struct engine *e);
void engine_sum_over_ranks(struct engine *e, struct tensor x);

/* -- engine_infer.c ---------------------------------------------------------------------------------------------- */

/* A copy in host memory, whose data the caller frees. Waits for everything before, so it ends a call that handed memory
 * of its own to the device. */
struct tensor engine_fetch(struct engine *e, struct tensor from);
/* The first row of a tensor, as doubles. */
void engine_read_values(struct engine *e, struct tensor from, double *values);

/* -- engine_generate.c ------------------------------------------------------------------------------------------- */

/* Where batches of generation say more than others. */
void engine_create_cache_tables(struct engine *e, struct batch_tensors *batch);
/* Bytes that engine_extend copies to the device beside a batch, at most. */
int64_t engine_cache_bytes(const struct engine *e);
/* The cache, and what the host knows of its sequences; destroy does nothing where there is none. */
void engine_create_sequences(struct engine *e);
void engine_destroy_sequences(struct engine *e);

#endif
