/* Training FLOPs per token, by the conventions in which utilisation (MFU) is quoted. They differ in how attention is
 * counted and in whether the model's actual widths are used. None counts recomputation, and all count a head that
 * computes every token, as published utilisations do: in masked training the program's own head computes fewer
 * (data/labelled_rows.h). */
#ifndef ARCHITECTURE_FLOPS_H
#define ARCHITECTURE_FLOPS_H

#include "architecture/settings.h"

/* Conventions. For a segment of S tokens, L layers, H hidden, V vocabulary, q = heads * head_dim:
 *
 *    causal        GEMMs, and attention over the S (S + 1) / 2 pairs that the causal mask allows
 *    full          GEMMs, and attention over all S^2 pairs, as PaLM counts (Chowdhery et al. 2022), and NeMo's
 *                  benchmark of Llama 3.1: 12 L H^2 (1 + kv_heads / heads + S / H) + 18 L ffn H + 6 V H
 *    opengenome2   (24 H^2 + 4 S H) 3 L + 6 H V: README of the recipe opengenome2_llama_native_te (BioNeMo), which
 *                  assumes an ungated MLP of width 4 H and as many kv heads as heads */
enum flops_convention { FLOPS_CAUSAL, FLOPS_FULL, FLOPS_OPENGENOME2, FLOPS_CONVENTIONS };

/* Returns the number of keys that a token of a segment sees, on average over the segment. window: sliding window of
 * causal attention; 0: none. */
double flops_keys(int64_t segment, bool causal, int64_t window);

/* Returns "causal", "full" or "opengenome2". */
const char *flops_name(enum flops_convention convention);

/* Returns the training FLOPs per token of segments of `segment` tokens: of the forward, and of the backward twice as
 * many, without what frozen blocks and heads do not compute. */
double flops_per_token(const struct model_settings *settings, int64_t segment, enum flops_convention convention);

/* Returns the utilisation (MFU) at a rate of tokens/s, on devices with `peak` FLOP/s together. */
double flops_utilisation(double per_token, double tokens_per_second, double peak);

/* Returns the days to train `tokens` tokens. NeMo's benchmark quotes rates as the days for FLOPS_QUOTED_TOKENS. */
#define FLOPS_QUOTED_TOKENS 1e12
double flops_days(double tokens, double tokens_per_second);

#endif
