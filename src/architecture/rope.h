/* Rotary position embedding: its settings, and the frequency of each pair of a head's elements. */
#ifndef ARCHITECTURE_ROPE_H
#define ARCHITECTURE_ROPE_H

#include "deck/deck.h"

#include <stdint.h>

/* Settings of the rotary frequencies; factor 0 or 1: no scaling. */
struct rope_settings {
    double theta;
    double factor, low, high;    /* scaling factor; low and high frequency factors, of yarn beta_slow and beta_fast */
    int64_t original;            /* original_max_position_embeddings */
    enum deck_rounding rounding; /* rounding of each frequency */
    enum deck_rope type;
    double attention_factor; /* yarn; 0: by the factor */
};

/* Returns the rotation frequency of pair i of head_dim / 2, in radians per position (Su et al. 2021). Llama 3.1's
 * scaling, as its configuration describes it: wavelengths beyond original / low are stretched by factor, those below
 * original / high are kept, with a linear blend of frequencies in between. Yarn (Peng et al. 2023) blends linearly in
 * the pair's number instead, between the pairs of these two wavelengths, rounded outwards to whole numbers. The
 * frequency is rounded to nearest, ties to even, if the settings say so. */
double rope_frequency(const struct rope_settings *rope, int64_t head_dim, int64_t i);

/* Returns the factor by which rotated queries and keys are multiplied: 1, except for yarn its attention_factor, or by
 * default 0.1 ln(factor) + 1 (Peng et al. 2023). */
double rope_magnitude(const struct rope_settings *rope);

#endif
