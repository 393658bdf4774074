/* Imports a Hugging Face folder (config.json, safetensors) in either dialect (bridge/dialect.h) as a checkpoint. */
#ifndef BRIDGE_IMPORT_H
#define BRIDGE_IMPORT_H

#include <stdbool.h>

struct import_settings {
    const char *folder;
    const char *output;
    const char *base; /* of an adapter (bridge/adapter_import.h): a checkpoint or run folder; else NULL */
    /* Name of a bundled tokenizer. NULL: the one whose vocabulary the folder's tokenizer.json has; else the family's
     * own if the model has a vocabulary of its size; else the folder's text tokenizer if it can be read; else none. */
    const char *tokenizer;
    const char *version; /* version of the program, for the file */
    bool replace;        /* replaces an existing output */
};

/* Writes a checkpoint of step 0: the weights in f32 (from f32, bf16, f16), the folder's other tensors, which are not
 * trained (checkpoint/carried.h), and a deck whose section `model` describes the model. Needs memory for one piece of a
 * tensor and for carried tensors. Local. ERROR_USER: the folder is incomplete or does not have a model of this program
 * (the message names each fault), or the output path cannot be used. ERROR_ENVIRONMENT: then no part of the output
 * remains. */
int import_run(const struct import_settings *settings);

#endif
