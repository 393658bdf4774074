/* Exports a checkpoint's model as a Hugging Face folder that transformers or BioNeMo's recipes (bridge/dialect.h) load:
 * config.json, generation_config.json, safetensors and tokenizer files. */
#ifndef BRIDGE_EXPORT_H
#define BRIDGE_EXPORT_H

#include "bridge/dialect.h"

#include <stdbool.h>
#include <stdint.h>

struct export_settings {
    const char *checkpoint; /* a file, or a run folder (checkpoint_find_model) */
    const char *folder;     /* folder to make; it may exist if it is empty */
    bool bf16;              /* weights are rounded to bf16; false: f32 */
    int64_t shard_bytes;    /* maximum bytes of tensors in one file; EXPORT_SHARD_BYTES */
    bool replace;           /* replaces an earlier export at `folder` */
    enum checkpoint_dialect dialect;
    bool adapter; /* writes the adapters alone, as a folder of peft (bridge/adapter_export.h) */
};

#define EXPORT_SHARD_BYTES 5000000000 /* long the default of transformers */

/* Verifies the checkpoint and writes the folder under a temporary name, then renames it when everything is on the disk.
 * Needs memory for one piece of a tensor and for carried tensors. Local: one rank of a run calls it. ERROR_USER: no
 * checkpoint, a model that config.json cannot express, or a folder that is not empty. ERROR_ENVIRONMENT: then no new
 * files remain, and a folder to be replaced is unchanged.
 *
 * DIALECT_HF: carried tensors are written unchanged. Exception: if the family loads tables of frequencies, a table that
 * is not the model's is recomputed. DIALECT_TE: carried tensors are not written, and a warning names what the classes
 * then compute differently. Adapters are merged into the weights, in f32. Both: tensors that the classes need
 * (family_extra in architecture/family.h) are added if they are not carried: inv_freq, and zeros for ESM-2's contact
 * head. Tokenizer files are written only for tokenizers that this program has. */
int export_run(const struct export_settings *settings);

#endif
