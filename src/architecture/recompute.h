/* Recompute policy of each layer: the activations that are kept from forward to backward, and those that are offloaded.
 */
#ifndef ARCHITECTURE_RECOMPUTE_H
#define ARCHITECTURE_RECOMPUTE_H

#include "deck/deck.h"
#include "architecture/layer_list.h"

/* Plain data; zeros: every block keeps everything. */
struct recompute {
    enum deck_recompute others;                        /* policy of layers in no list */
    struct layer_list layers[DECK_RECOMPUTE_FULL + 1]; /* layers of each policy */
    struct layer_list offloaded;                       /* layers whose kept activations wait in host memory */
};

enum deck_recompute recompute_of(const struct recompute *recompute, int layer);

/* Returns the policy after `policy` in the order of cost per byte saved; DECK_RECOMPUTE_FULL has no next one.
 * Recomputing norms and the activation costs memory traffic only: 2 bytes for each byte saved for a norm, 2 for GELU,
 * at a higher rate (bench/results/gpu_ops.txt), and 3 for SwiGLU. So norms come first with SwiGLU (gelu false), the
 * activation with GELU; then both, then GEMMs, then attention. */
enum deck_recompute recompute_next(enum deck_recompute policy, bool gelu);

#endif
