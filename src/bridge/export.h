/* A checkpoint's model as a Hugging Face folder: config.json, generation_config.json, safetensors and tokenizer files,
 * as transformers loads them, or BioNeMo's recipes (bridge/dialect.h). */
#ifndef BRIDGE_EXPORT_H
#define BRIDGE_EXPORT_H

#include "bridge/dialect.h"

#include <stdbool.h>
#include <stdint.h>

struct export_settings {
    const char *checkpoint; /* a file, or a run folder (checkpoint_find_model) */
    const char *folder;     /* to be made; an empty one may be there */
    bool bf16;              /* weights are rounded to bf16, else f32 */
    int64_t shard_bytes;    /* of tensors in one file; EXPORT_SHARD_BYTES */
    bool replace;           /* an earlier export at `folder` is replaced */
    enum checkpoint_dialect dialect;
};

#define EXPORT_SHARD_BYTES 5000000000 /* transformers' size for a long time */

/* Verifies the checkpoint and writes the folder: under a name beside it first, which it gets when all is on the disk.
 * Carried tensors go out as they came in. Where transformers' ESM-2 has a contact head and the checkpoint has none, it
 * gets one of zeros; inv_freq gets the model's frequencies where there is none, or one of others. Files of tokenizers
 * that this program does not have are not written. In DIALECT_TE nothing carried is written, and a warning names what
 * the classes there compute otherwise. Needs memory for one piece of a tensor and for what is carried.
 * Local: in a run of many ranks one calls it. ERROR_USER: no checkpoint there, a model that config.json cannot express,
 * a folder that is not empty. ERROR_ENVIRONMENT; then nothing new is left, and the folder to be replaced is unchanged.
 */
int export_run(const struct export_settings *settings);

#endif
