/* A model: its settings, and its units in the order of computation. */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "model/unit.h"

enum { MODEL_CHUNKS = 32 /* maximum per rank */ };

/* Units that a rank computes one after the other: first .. end - 1. */
struct model_chunk {
    int first, end;
};

/* The units from the embedding to the head, then the adapters of blocks, if there are any (model/linear_adapter.h). All
 * ranks of a pipeline declare all units, so that parameters have the same numbers; unit->chunk says which of them a
 * rank computes. A stage_send and a stage_receive unit are between consecutive slices (model/boundary.h). */
struct model {
    struct model_settings settings;
    int64_t tokens; /* maximum of a micro-batch */
    int unit_count;
    struct unit *units; /* owned */
    int head;           /* index of the head */
    int chunk_count;    /* model chunks that this rank computes; 1 without a pipeline */
    struct model_chunk chunks[MODEL_CHUNKS];
};

/* Makes a model with a copy of settings. tokens: maximum of a micro-batch; head_tokens: per slice of the head. */
void model_create(struct model *model, const struct model_settings *settings, int64_t tokens, int64_t head_tokens);
void model_destroy(struct model *model);

/* Returns the head. */
static inline struct unit *model_head(const struct model *model)
{
    return &model->units[model->head];
}

/* Returns the number of parameters, which are numbered in the order of units, and of declaration in a unit. */
int model_parameters(const struct model *model);

/* Writes the initial values of elements first .. first + count - 1 of a parameter's global tensor, row-major. They are
 * keyed by (seed, name, element), so they do not depend on the layout or the calls. values: [count]. */
void parameter_initial_values(const struct parameter *parameter, uint64_t seed, int64_t first, int64_t count,
                              double *values);
/* As parameter_initial_values, rounded to f32; normal values take a quarter of the time. */
void parameter_initial_floats(const struct parameter *parameter, uint64_t seed, int64_t first, int64_t count,
                              float *values);

/* Returns an element of the table [positions, head_dim] of rope ops: columns of cosines, then sines, of position times
 * frequency. */
double rope_table_value(const struct model_settings *settings, int64_t position, int64_t column);

#endif
