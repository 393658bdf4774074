/* Tables of rotary frequencies that a folder holds beside the parameters ("inv_freq"): transformers' ESM-2 computes
 * with them, whatever its config.json says; other families' classes do not read theirs. */
#ifndef BRIDGE_FREQUENCIES_H
#define BRIDGE_FREQUENCIES_H

#include "checkpoint/carried.h"
#include "architecture/settings.h"

/* Is a tensor of this name such a table? */
bool frequencies_named(const char *name);
/* The largest relative difference of a table of f32, f16 or bf16 [head_dim / 2] from what these settings make;
 * INFINITY for a tensor that is no such table. Local. */
double frequencies_error(const struct rope_settings *rope, int64_t head_dim, const struct carried_tensor *tensor);
/* Below this error it is the same table: a power in f32, where rounding to 16 bits is off by 1e-4 and more. */
#define FREQUENCIES_SAME 1e-5

#endif
