/* Resolves memory.recompute = "fit" and memory.head_tokens = 0 to values that fit into memory. */
#ifndef ESTIMATE_FIT_CHOICE_H
#define ESTIMATE_FIT_CHOICE_H

#include "core/launch.h"
#include "setup/setup.h"

/* Returns whether the deck has memory.recompute = "fit" or memory.head_tokens = 0. */
bool fit_chooses(const struct deck *deck);

/* Writes the choices for a complete setup into setup->deck, and updates the setup. Other setups stay unchanged. target:
 * as for estimate_memory. Local.
 *
 * memory.recompute = "fit": chooses recompute policies (memory.fitted_layers) and layers to offload to host memory
 * (memory.fitted_offload), so that recomputation is minimal and a rank needs at most fit_usable of `limit`, and seven
 * eighths of `host`. The first layers get a policy, the rest the next milder one. Layers are offloaded only if the
 * target has its own memory, memory.offload_layers names none, parallel.virtual_stages is 1, GEMMs would be recomputed
 * otherwise, and offloading reduces recomputation. An earlier choice is kept if it fits. If nothing fits, all layers
 * get the policy "full".
 *
 * memory.head_tokens = 0: chooses memory.fitted_head_tokens, a power of two. It begins with a size that is worth its
 * memory (layers get the rest), and then doubles it while it fits, or halves it until it does. */
void fit_choose(struct setup *setup, int64_t limit, int64_t host, struct executor *target);

#endif
