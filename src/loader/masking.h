/* Masked language modelling: selects the tokens of a window to predict and replaces them (Devlin et al., "BERT", NAACL
 * 2019, section 3.1); computes the factors of ESM-2's token dropout. */
#ifndef LOADER_MASKING_H
#define LOADER_MASKING_H

#include "tokenizer/tokenizer.h"

#include <stdint.h>

struct token_masking {
    const struct tokenizer *tokenizer; /* has a mask token */
    uint64_t seed;
    double probability;      /* probability that a token is selected; between 0 and 1, exclusive */
    const int32_t *label_of; /* table of label_table, or NULL */
};

/* Makes a table of the labels of nucleotides: [vocabulary], freed with memory_free. NULL if the tokenizer has no bases.
 * uppercase: the label of a lower-case letter is its capital. only_bases: all but A, C, G, T, a, c, g, t (after
 * `uppercase`) have the label BATCH_IGNORED. */
int32_t *label_table(const struct tokenizer *tokenizer, bool only_bases, bool uppercase);

/* Masks tokens offset .. offset + count - 1 of a window, in place in tokens[count]. Each token that is not special and
 * has a label is selected with the given probability. 80 % of the selected tokens become the mask token, 10 % a random
 * token, and 10 % are unchanged. The random token is an id of the whole vocabulary, as in the recipes; for nucleotides
 * it is A, C, G or T, since nearly all their ids never occur. labels[count]: the label of the original token if it was
 * selected, else BATCH_IGNORED; not shifted. Returns the number of selected tokens.
 *
 * The random numbers are keyed by (seed, epoch, window, index in the window) only. So the masks do not depend on the
 * number of ranks, on packing, or on splits inside the window. `epoch` is a value of blend_epoch; `window` is the
 * window's number in store order. */
int64_t masking_apply(const struct token_masking *masking, uint64_t epoch, int64_t window, int64_t offset,
                      int64_t count, int32_t *tokens, int32_t *labels);

/* Returns the probability that masking turns a selected token `original` into `seen`. */
double masking_likelihood(const struct tokenizer *tokenizer, int32_t original, int32_t seen);

/* Computes the token dropout of one segment: `count` tokens that attend only to each other. scale[t] is the factor of
 * token t's embedding: 0 at mask tokens, (1 - 0.12) / (1 - r) elsewhere. r is the share of mask tokens in the segment;
 * 0.12 = 0.15 * 0.8 is the expected share in training with probability 0.15 (recipes 1.2; Lin et al. 2023, ESM-2's
 * published code). */
void masking_scale(const struct tokenizer *tokenizer, const int32_t *tokens, int64_t count, float *scale);

#endif
