/* A checkpoint's adapters (architecture/lora.h), and the head that was trained with them, in host memory. */
#ifndef BRIDGE_ADAPTERS_H
#define BRIDGE_ADAPTERS_H

#include "model/model.h"
#include "state/slab.h"

struct adapter_values {
    const struct model *model; /* borrowed */
    float **values; /* [model_parameters] the values of an adapter's matrix, or of the head; NULL: of neither */
};

/* Returns the model's first unit that an adapter folder has: the head if it is trained, then the adapters. */
int adapters_first_unit(const struct model *model);

/* Makes adapters without values. The caller destroys them. */
void adapters_create(struct adapter_values *adapters, const struct model *model);
/* Returns memory for the values of parameter number `number` (model_parameters), for the caller to fill. */
float *adapters_place(struct adapter_values *adapters, const struct parameter *parameter, int number);
/* Reads the units from number `first` on, the head or the first adapters, of a verified checkpoint. model: whole, as in
 * checkpoint_stream_read. Local. The caller destroys adapters, also after an error. ERROR_USER: the tensors do not fit
 * the model. */
int adapters_read(struct adapter_values *adapters, const struct model *model, int first, const char *path);
void adapters_destroy(struct adapter_values *adapters);

/* Adds alpha / r B A to a slab of the parameter's weight, values[slab.count], rounded to f32 once. Does nothing for a
 * parameter without adapter. */
void adapters_merge(const struct adapter_values *adapters, const struct parameter *parameter,
                    struct parameter_slab slab, float *values);

/* Computes a digest of the base's weights, without a head that is trained, rounded to bf16, so that a base in fp32 and
 * its frozen copy in a bf16 training have the same. model: with or without adapters; path: a verified checkpoint, which
 * need not have them. Local. Errors of checkpoint_stream_read. */
int adapters_base_digest(uint64_t *digest, const struct model *model, const char *path);

#endif
