/* Checks tables of rotary frequencies ("inv_freq") that a folder has besides parameters. transformers' ESM-2 uses its
 * table, whatever config.json says; other families' classes do not read theirs. */
#ifndef BRIDGE_FREQUENCIES_H
#define BRIDGE_FREQUENCIES_H

#include "checkpoint/carried.h"
#include "architecture/settings.h"

/* Returns whether a tensor of this name is a table of frequencies. */
bool frequencies_named(const char *name);
/* Returns the largest relative difference between a table of f32, f16 or bf16 [head_dim / 2] and the frequencies of
 * these settings; INFINITY if the tensor is not a table. Local. */
double frequencies_error(const struct rope_settings *rope, int64_t head_dim, const struct carried_tensor *tensor);
/* Errors below this bound mean the same table: pow() in f32 stays below it; rounding to 16 bits makes 1e-4 and more. */
#define FREQUENCIES_SAME 1e-5

#endif
