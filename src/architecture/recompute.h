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

/* From memory.recompute, recompute_layers and offload_layers, or, with "fit", what was chosen (fitted_layers and
 * fitted_offload), for a model of so many layers. ERROR_USER: a list that cannot be read, names a policy or layer that
 * there is not or a layer twice, or, with "fit", not every layer; recompute_layers with "fit"; naming the key. With
 * "fit" and no list, all have DECK_RECOMPUTE_NORMS until one is chosen (estimate/fit_choice.h). */
int recompute_from_deck(struct recompute *recompute, const struct deck *deck, int64_t layers);

/* The policy of a layer. */
enum deck_recompute recompute_of(const struct recompute *recompute, int layer);

/* Policies in the order of what a byte saved costs; DECK_RECOMPUTE_FULL has no next one. Norm outputs and the
 * activation's cost memory traffic alone: to make a norm's output again reads and writes 2 bytes for each byte saved,
 * GELU's 2 as well, at a higher rate (bench/results/gpu_ops.txt), and SwiGLU's 3. So with SwiGLU (gelu false) norm
 * outputs come first, with GELU the activation's; then both, then products, then attention. */
enum deck_recompute recompute_next(enum deck_recompute policy, bool gelu);

/* "full:1-8,attention:9-32": of so many layers the first `count` (0 to all) have a policy, and the rest a milder one,
 * which is not read where all have the policy. */
void recompute_print(char *list, size_t bytes, enum deck_recompute policy, int64_t count, enum deck_recompute milder,
                     int64_t layers);

/* "1,4,7": `count` layers to offload, 3 apart; "1-7": next to each other. */
void recompute_print_offloaded(char *list, size_t bytes, int64_t count, int64_t every);

#endif
