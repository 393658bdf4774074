/* A model: its list of units, from the embedding to the head. */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "model/unit.h"

enum { MODEL_CHUNKS = 32 /* of a rank, at most */ };

/* Units that a rank computes one after the other: first .. end - 1. */
struct model_chunk {
    int first, end;
};

/* All ranks of a pipeline have all units, in the same order, so that parameters have the same numbers; unit->chunk says
 * which of them a rank computes. Between slices stand an outlet and an inlet (model/boundary.h). */
struct model {
    struct model_settings settings;
    int64_t tokens; /* of a micro-batch, at most */
    int unit_count;
    struct unit *units; /* owned */
    int chunk_count;    /* that this rank computes; 1 without a pipeline */
    struct model_chunk chunks[MODEL_CHUNKS];
};

/* settings.precision stays borrowed. head_tokens: tokens per chunk of the head. */
void model_create(struct model *model, const struct model_settings *settings, int64_t tokens, int64_t head_tokens);
void model_destroy(struct model *model);

/* How many parameters all units have; they are numbered in the order of units, and of parameters in a unit. */
int model_parameters(const struct model *model);

/* values: [count], the initial values of elements first .. first + count - 1 of a parameter's global tensor, row-major.
 * Keyed by (seed, name, element), so they do not depend on layout or pieces. */
void parameter_initial_values(const struct parameter *parameter, uint64_t seed, int64_t first, int64_t count,
                              double *values);
/* The same rounded to f32, of normal ones in a quarter of the time. */
void parameter_initial_floats(const struct parameter *parameter, uint64_t seed, int64_t first, int64_t count,
                              float *values);

/* The table that rope ops read, [positions, head_dim] values: cosines then sines of position * frequency. */
double rope_table_value(const struct model_settings *settings, int64_t position, int64_t column);

#endif
