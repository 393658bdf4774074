/* Streams a checkpoint's weights in pieces, in one process and without an engine. It needs host memory for one piece,
 * however large the model (bridge/import.h, bridge/export.h). The model's parameters are not split, so a slab is a
 * range of the global tensor. */
#ifndef CHECKPOINT_CHECKPOINT_STREAM_H
#define CHECKPOINT_CHECKPOINT_STREAM_H

#include "checkpoint/checkpoint.h"
#include "state/slab.h"
#include "model/model.h"

struct checkpoint_piece {
    const struct parameter *parameter;
    int number; /* number of the parameter, in the order of model_parameters */
    struct parameter_slab slab;
    float *staging; /* [slab.count] */
};

/* Writes a checkpoint of f32 weights only, with its side file, as checkpoint_write does. Calls fill for each piece of
 * each parameter, in order, to fill piece->staging. Local. Errors: those of fill; ERROR_ENVIRONMENT. After an error an
 * older file at path is unchanged, and no other file remains. */
int checkpoint_stream_write(const struct model *model, const struct checkpoint_meta *meta, const char *path,
                            int (*fill)(void *self, const struct checkpoint_piece *piece), void *self);

/* Opens a verified file to read pieces of its weights. The file need not have the model's adapters, and may have a
 * language-model head where the model has a fine-tuning head: of the head, only its final norm can then be read. path
 * is borrowed. Local. *out is NULL after an error. ERROR_USER: tensors do not fit the model (the message names each).
 */
struct checkpoint_source;
int checkpoint_source_open(struct checkpoint_source **out, const struct model *model, const char *path);
/* Fills piece->staging. ERROR_USER: the tensor is damaged. */
int checkpoint_source_read(struct checkpoint_source *source, const struct checkpoint_piece *piece);
/* NULL: does nothing. */
void checkpoint_source_close(struct checkpoint_source *source);

/* Reads the weights of units first .. end - 1 of a verified file. Units that are not read may differ: the file need not
 * have their adapters, and may have a language-model head where the model has a fine-tuning head. Calls take for each
 * piece, with piece->staging filled. Local. Errors: those of take; ERROR_USER: tensors do not fit the
 * model (the message names each). */
int checkpoint_stream_read(const struct model *model, int first, int end, const char *path,
                           int (*take)(void *self, const struct checkpoint_piece *piece), void *self);

#endif
