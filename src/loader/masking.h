/* Masked language modelling: which tokens of a window are to be predicted, and what the model sees in their place
 * (Devlin et al., "BERT", NAACL 2019, section 3.1), and the factors of ESM-2's token dropout. */
#ifndef LOADER_MASKING_H
#define LOADER_MASKING_H

#include "tokenizer/tokenizer.h"

#include <stdint.h>

struct token_masking {
    const struct tokenizer *tokenizer; /* with a mask token */
    uint64_t seed;
    double probability; /* that a token is selected; 0 < probability < 1 */
};

/* Masks tokens offset .. offset + count - 1 of a window in place; they are tokens[count]. Each token that is not
 * special is selected with the given probability. Of the selected, 80 % become the mask token, 10 % a random id of the
 * whole vocabulary, and 10 % stay. labels[count]: the original token where it was selected, BATCH_IGNORED elsewhere;
 * not shifted. Returns how many were selected.
 *
 * The choice is keyed by (seed, epoch, window, place in the window) alone. So it does not depend on the number of
 * ranks, on the packing into rows, or on a cut inside the window. `epoch` is a number of blend_epoch; `window` is the
 * window's number in the store's order. */
int64_t masking_apply(const struct token_masking *masking, uint64_t epoch, int64_t window, int64_t offset,
                      int64_t count, int32_t *tokens, int32_t *labels);

/* The probability that a selected token `original` is seen as `seen`. */
double masking_likelihood(const struct tokenizer *tokenizer, int32_t original, int32_t seen);

/* Token dropout of one segment: `count` tokens that attend only to each other. scale[t] is the factor of token t's
 * embedding: 0 at mask tokens, (1 - 0.12) / (1 - r) elsewhere. r is the share of mask tokens in the segment; 0.12 =
 * 0.15 * 0.8 is their expected share in training with probability 0.15 (recipes 1.2; Lin et al. 2023, ESM-2's published
 * code). */
void masking_scale(const struct tokenizer *tokenizer, const int32_t *tokens, int64_t count, float *scale);

#endif
