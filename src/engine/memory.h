/* The memory plan of activations: which tensors each unit keeps from forward to backward, the address of every tensor,
 * and what backward recomputes. The plan comes from dry runs of the units on the planning executor. What backward reads
 * is kept, unless the recompute policy drops it; tensors of a single action share memory by lifetime. Addresses are
 * fixed after planning. */
#ifndef ENGINE_MEMORY_H
#define ENGINE_MEMORY_H

#include "model/execution.h"
#include "model/model.h"
#include "store/budget.h"
#include "engine/offload.h"

struct unit_memory {
    struct id_set dropped;                 /* ids that the recompute policy drops */
    struct id_set kept;                    /* ids kept from forward to backward */
    struct id_set recompute;               /* ids that backward recomputes */
    int64_t kept_begin;                    /* bytes: start of this unit's kept tensors in the plan */
    int64_t *kept_offset;                  /* [tensors], bytes, in a slot of the chunk, or in an offload buffer */
    int64_t *transient_offset[PASS_COUNT]; /* [tensors], bytes */
    int64_t first_tensor;                  /* index of the first tensor among the model's */
    struct id_set offloaded;               /* subset of kept: offloaded ids, which are in one of memory.buffers */
    int offload_number; /* the unit's number among the chunk's units with offloaded tensors; -1: it has none */
};

/* Kept activations of a model chunk. */
struct chunk_memory {
    int64_t slot_bytes;
    int64_t begin; /* bytes: start of slot 0 in kept_base */
};

struct engine_memory {
    struct model *model;                      /* borrowed */
    struct unit_memory *units;                /* [unit_count] */
    int64_t *offsets;                         /* storage of the units' offset arrays */
    struct chunk_memory chunks[MODEL_CHUNKS]; /* by model chunk */
    int64_t transient_bytes;
    char *kept_base, *transient_base;
    char **gradients; /* [unit_count] memory for a unit's gradients among the kept activations; NULL: there is none */
    struct offload offload[MODEL_CHUNKS];
    struct offload_buffer buffers[OFFLOAD_BUFFERS]; /* shared by all chunks */
    struct planner *planner;                        /* NULL after planning */
};

/* Owner of an execution's services (model/execution.h). */
struct execution_owner {
    struct engine_memory *memory;
    struct engine *engine; /* the engine whose store starts transfers; NULL: units run without an engine */
};

/* The purpose of the units: training (with evaluations), or one kind of inference only. */
enum memory_use { MEMORY_TRAIN, MEMORY_EVALUATE, MEMORY_EMBED, MEMORY_LOGITS, MEMORY_GENERATE };

struct memory_settings {
    enum memory_use use;
    enum dtype compute, statistic;
    int slots[MODEL_CHUNKS];                /* activation slots of each chunk */
    bool split_backward;                    /* output gradients stay in the slot between the two halves of a backward */
    int64_t rows, row_tokens, max_segments; /* of a micro-batch of whole rows */
    int64_t longest;                        /* maximum tokens of a segment; 0: limited by the row only */
    /* Bytes of a gradient, if a step is one micro-batch of one rank: gradients then use the memory of activations that
     * backward has read. 0: they have their own memory. */
    int64_t gradient_bytes;
};

/* Returns the number of slots of all chunks before `chunk`; of all chunks if it is MODEL_CHUNKS. */
int memory_slots_before(const struct memory_settings *settings, int chunk);

/* Plans by dry runs with copies of `execution`, and allocates memory and scratch from the budget.
 * execution->owner->memory must be `memory`; the batch and the rope table are used by address, never read. Out of
 * memory is fatal. */
void memory_create(struct engine_memory *memory, struct model *model, const struct memory_settings *settings,
                   const struct execution *execution, struct budget *budget);
void memory_destroy(struct engine_memory *memory);

/* The address service of an execution whose owner has a planned memory. */
void *memory_address(const struct execution *execution, const struct unit *unit, int id);

/* Returns the ids that the unit's backward recomputes. */
const struct id_set *memory_recomputed(const struct engine_memory *memory, const struct unit *unit);

/* Run the forward or backward of a unit in an action. Backward first recomputes what the plan says. */
void memory_forward_unit(struct execution *execution, struct unit *unit);
void memory_backward_unit(struct execution *execution, struct unit *unit);
/* Offload: memory_forward_end, after the last unit of a chunk's forward, waits for the copies to the host;
 * memory_backward_begin, before the first unit of its backward, starts fetching. Only streams wait. */
void memory_forward_end(struct execution *execution, int chunk);
void memory_backward_begin(struct execution *execution, int chunk);

#endif
