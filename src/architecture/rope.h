/* Rotary position embedding: its settings, and the frequency of each pair of a head's elements. */
#ifndef ARCHITECTURE_ROPE_H
#define ARCHITECTURE_ROPE_H

#include "deck/deck.h"

#include <stdint.h>

/* Settings of the rotary frequencies, with Llama 3's rescaling; factor 0 or 1: no rescaling. */
struct rope_settings {
    double theta;
    double factor, low, high;    /* scaling factor; low and high frequency factors */
    int64_t original;            /* original_max_position_embeddings */
    enum deck_rounding rounding; /* rounding of each frequency */
};

/* Returns the rotation frequency of pair i of head_dim / 2, in radians per position (Su et al. 2021). Llama 3.1's
 * rescaling, as its configuration describes it: wavelengths beyond original / low are stretched by factor, those below
 * original / high are kept, with a linear blend in between. The frequency is rounded to nearest, ties to even, if the
 * settings say so. */
double rope_frequency(const struct rope_settings *rope, int64_t head_dim, int64_t i);

#endif
