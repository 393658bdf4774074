/* What training a token costs in arithmetic, in the conventions that people quote utilisation (MFU) in. They differ in
 * what of attention counts and in whether the model's true widths do; none counts recomputation. */
#ifndef ARCHITECTURE_FLOPS_H
#define ARCHITECTURE_FLOPS_H

#include "architecture/settings.h"

/* A segment of S tokens, L layers, H hidden, V vocabulary, q = heads * head_dim:
 *   causal        matrix products, and attention over the S (S + 1) / 2 pairs that the mask lets through
 *   full          matrix products, and attention over all S^2 pairs, as PaLM counts (Chowdhery et al. 2022), and NeMo's
 *                 benchmark of Llama 3.1: 12 L H^2 (1 + kv_heads / heads + S / H) + 18 L ffn H + 6 V H
 *   opengenome2   (24 H^2 + 4 S H) 3 L + 6 H V: the README of the recipe opengenome2_llama_native_te (BioNeMo); it
 *                 takes the MLP for 4 H wide and ungated, and every head for a kv head */
enum flops_convention { FLOPS_CAUSAL, FLOPS_FULL, FLOPS_OPENGENOME2, FLOPS_CONVENTIONS };

/* "causal", "full", "opengenome2". */
const char *flops_name(enum flops_convention convention);

/* Training FLOPs (forward and backward, which is twice forward) per token of segments of `segment` tokens. */
double flops_per_token(const struct model_settings *settings, int64_t segment, enum flops_convention convention);

/* Utilisation (MFU) at a rate of tokens/s, of devices of `peak` FLOP/s together. */
double flops_utilisation(double per_token, double tokens_per_second, double peak);

/* Days that so many tokens take: the time to train of NeMo's benchmark, which quotes rates by that of
 * FLOPS_QUOTED_TOKENS. */
#define FLOPS_QUOTED_TOKENS 1e12
double flops_days(double tokens, double tokens_per_second);

#endif
