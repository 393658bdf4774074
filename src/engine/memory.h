/* The memory plan of activations: which tensors each unit keeps from forward to backward, where every tensor lies, and
 * what backward has to recompute. It comes from dry runs of the units on the planning executor: what backward really
 * reads is kept, unless the keep table drops it; tensors that live inside one action share memory by lifetime.
 * Addresses are fixed after planning. */
#ifndef ENGINE_MEMORY_H
#define ENGINE_MEMORY_H

#include "model/execution.h"
#include "model/model.h"
#include "store/budget.h"
#include "engine/offload.h"

struct unit_memory {
    struct id_set dropped;                 /* ids that the keep table does not keep */
    struct id_set kept;                    /* ids that stay from forward to backward */
    struct id_set recompute;               /* ids that backward makes again */
    int64_t kept_begin;                    /* bytes, in the plan: where this unit's kept tensors lie */
    int64_t *kept_offset;                  /* [tensors], bytes, in a slot of the chunk, or in a buffer */
    int64_t *transient_offset[PASS_COUNT]; /* [tensors], bytes */
    int64_t first_tensor;                  /* of this unit, among all of the model's */
    struct id_set away;                    /* of kept: ids that lie in one of memory.buffers */
    int turn;                              /* the unit's number among those of its chunk with any; -1: none */
};

/* Of a chunk's activations. */
struct chunk_memory {
    int64_t slot_bytes;
    int64_t begin; /* bytes, in all that is kept: where slot 0 lies */
};

struct engine_memory {
    struct model *model;                      /* borrowed */
    struct unit_memory *units;                /* [unit_count] */
    int64_t *offsets;                         /* what the units' pointers point into */
    struct chunk_memory chunks[MODEL_CHUNKS]; /* of the model's chunks */
    int64_t transient_bytes;
    char *kept_base, *transient_base;
    struct offload offload[MODEL_CHUNKS];
    struct offload_buffer buffers[OFFLOAD_BUFFERS]; /* of all of these */
    struct planner *planner;                        /* NULL after planning */
};

/* The owner of an execution's services (model/execution.h). */
struct execution_owner {
    struct engine_memory *memory;
    struct engine *engine; /* whose store starts transfers; NULL: units run without an engine */
};

/* What the units are run for: training (and evaluation in between), or one kind of inference alone. */
enum memory_use { MEMORY_TRAIN, MEMORY_EVALUATE, MEMORY_EMBED, MEMORY_GENERATE };

struct memory_settings {
    enum memory_use use;
    enum dtype compute, statistic;
    int slots[MODEL_CHUNKS];                /* of each chunk */
    bool split_backward;                    /* gradients of tensors stay in the slot between the two halves */
    int64_t rows, row_tokens, max_segments; /* of a micro-batch, of whole rows */
    int64_t longest;                        /* no segment has more tokens; 0: none but its row's */
};

/* The slots of the chunks before this one; of all, where it is MODEL_CHUNKS. */
int memory_slots_before(const struct memory_settings *settings, int chunk);

/* Plans by dry runs in copies of `execution`. execution->owner->memory is this `memory`; its batch and rotary table are
 * used by address, never read. The budget's executor says how much scratch ops need; memory and scratch are allocated
 * from the budget. */
void memory_create(struct engine_memory *memory, struct model *model, const struct memory_settings *settings,
                   const struct execution *execution, struct budget *budget);
void memory_destroy(struct engine_memory *memory);

/* The address service of any execution whose owner has a planned memory. */
void *memory_address(const struct execution *execution, const struct unit *unit, int id);

/* Ids that the unit's backward makes again. */
const struct id_set *memory_recomputed(const struct engine_memory *memory, const struct unit *unit);

/* Run a unit's part of an action. Backward first recomputes what the memory plan says. */
void memory_forward_unit(struct execution *execution, struct unit *unit);
void memory_backward_unit(struct execution *execution, struct unit *unit);
/* Behind the last unit of a chunk's forward: what is offloaded has been sent. Before the first of its backward:
 * fetching begins. */
void memory_forward_end(struct execution *execution, int chunk);
void memory_backward_begin(struct execution *execution, int chunk);

#endif
