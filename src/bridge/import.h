/* Makes a checkpoint of a Hugging Face folder (config.json, safetensors) in either dialect (bridge/dialect.h). */
#ifndef BRIDGE_IMPORT_H
#define BRIDGE_IMPORT_H

#include <stdbool.h>

struct import_settings {
    const char *folder;
    const char *output;
    const char *tokenizer; /* its name; NULL: the family's own, for Llama nucleotide where the folder has that, else
                            * none */
    const char *version;   /* of the program, for the file */
    bool replace;          /* an output that is there */
};

/* Writes the checkpoint: the weights in f32 (from f32, bf16, f16), the folder's other tensors, which are not trained
 * (checkpoint/carried.h), and a deck whose section `model` describes the model; step 0. Needs memory for one piece of a
 * tensor and for what is carried. Local. ERROR_USER: a folder that is not whole or not of a model of this program, each
 * fault named; an output that cannot be. ERROR_ENVIRONMENT; then nothing is left of the output. */
int import_run(const struct import_settings *settings);

#endif
