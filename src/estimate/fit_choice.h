/* What a deck leaves to the program: memory.recompute = "fit" and memory.head_tokens = 0, so that a rank has room. */
#ifndef ESTIMATE_FIT_CHOICE_H
#define ESTIMATE_FIT_CHOICE_H

#include "core/launch.h"
#include "setup/setup.h"

/* Does a deck leave anything to fit_choose? */
bool fit_chooses(const struct deck *deck);

/* Chooses for a complete setup, in setup->deck, and updates it.
 *
 * memory.recompute = "fit": writes into memory.fitted_layers what each layer makes again, and into
 * memory.fitted_offload which of them wait in the host's memory, so that a rank needs at most fit_room of `limit` and
 * seven eighths of `host`, and otherwise as little as possible is made again: a policy for the first layers, and the
 * one before it for the rest. Layers are offloaded where the target has memory of its own, memory.offload_layers names
 * none, products would have to be made again without it, and fewer are with it. What was chosen before stays where it
 * fits. Where nothing fits, all layers have the last policy.
 *
 * memory.head_tokens = 0: writes memory.fitted_head_tokens, a power of two: first what pays for its memory (layers then
 * have what is left), afterwards twice as much for as long as it fits, or half until it does.
 * Other setups stay as they are. target: as for forecast_memory. Local. */
void fit_choose(struct setup *setup, int64_t limit, int64_t host, struct executor *target);

#endif
