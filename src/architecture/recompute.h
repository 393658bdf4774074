/* What each block keeps from forward to backward: by a policy of the deck for each layer, the rest is made again; and
 * whether on the device. */
#ifndef ARCHITECTURE_RECOMPUTE_H
#define ARCHITECTURE_RECOMPUTE_H

#include "deck/deck.h"
#include "architecture/layer_list.h"

/* Plain data; zeros: every block keeps all. */
struct recompute {
    enum deck_recompute others;                        /* of layers that no list has */
    struct layer_list layers[DECK_RECOMPUTE_FULL + 1]; /* of each policy */
    struct layer_list offloaded;                       /* what they keep waits in host memory */
};

/* The policy of a layer. */
enum deck_recompute recompute_of(const struct recompute *recompute, int layer);

/* Policies in the order of what a byte saved costs; DECK_RECOMPUTE_FULL has no next one. Norm outputs and the
 * activation's cost memory traffic alone: to make a norm's output again reads and writes 2 bytes for each byte saved,
 * GELU's 2 as well, at a higher rate (bench/results/gpu_ops.txt), and SwiGLU's 3. So with SwiGLU (gelu false) norm
 * outputs come first, with GELU the activation's; then both, then products, then attention. */
enum deck_recompute recompute_next(enum deck_recompute policy, bool gelu);

#endif
