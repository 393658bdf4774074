/* A checkpoint's adapters (architecture/lora.h) in host memory. */
#ifndef BRIDGE_ADAPTERS_H
#define BRIDGE_ADAPTERS_H

#include "model/model.h"
#include "state/slab.h"

struct adapter_values {
    const struct model *model; /* borrowed */
    float **values;            /* [model_parameters] the values of an adapter's matrix; NULL: the parameter is none */
};

/* Reads the adapters of a verified checkpoint. model: whole, as in checkpoint_stream_read. Local. The caller destroys
 * adapters, also after an error. ERROR_USER: the tensors do not fit the model. */
int adapters_read(struct adapter_values *adapters, const struct model *model, const char *path);
void adapters_destroy(struct adapter_values *adapters);

/* Adds alpha / r B A to a slab of the parameter's weight, values[slab.count], rounded to f32 once. Does nothing for a
 * parameter without adapter. */
void adapters_merge(const struct adapter_values *adapters, const struct parameter *parameter,
                    struct parameter_slab slab, float *values);

#endif
