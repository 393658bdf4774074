/* A checkpoint's weights in pieces, by one process and without an engine: host memory for one piece, however large the
 * model (bridge/import.h, bridge/export.h). The model's parameters are whole, so a slab is a range of the global
 * tensor.
 */
#ifndef CHECKPOINT_CHECKPOINT_STREAM_H
#define CHECKPOINT_CHECKPOINT_STREAM_H

#include "checkpoint/checkpoint.h"
#include "state/slab.h"
#include "model/model.h"

struct checkpoint_piece {
    const struct parameter *parameter;
    int number; /* of the parameter, as model_parameters counts */
    struct parameter_slab slab;
    float *staging; /* [slab.count] */
};

/* Writes a checkpoint of weights alone, in f32, with its side file, as checkpoint_write does: fill is called for each
 * piece of each parameter, in order, to fill its staging. Local. Errors: those of fill; ERROR_ENVIRONMENT, after which
 * what stood at path is untouched and nothing else is left. */
int checkpoint_stream_write(const struct model *model, const struct checkpoint_meta *meta, const char *path,
                            int (*fill)(void *self, const struct checkpoint_piece *piece), void *self);

/* Reads the weights of a verified file: take is called for each piece with its staging filled. Local. Errors: those of
 * take; ERROR_USER: tensors that do not fit the model, each named. */
int checkpoint_stream_read(const struct model *model, const char *path,
                           int (*take)(void *self, const struct checkpoint_piece *piece), void *self);

#endif
