/* Rotary position embedding: its settings, and the frequency of each pair of a head's elements. */
#ifndef ARCHITECTURE_ROPE_H
#define ARCHITECTURE_ROPE_H

#include "deck/deck.h"

#include <stdint.h>

/* Rotary frequencies with Llama 3's rescaling; factor 0 or 1 means none. */
struct rope_settings {
    double theta;
    double factor, low, high;    /* factor; low and high frequency factors */
    int64_t original;            /* original_max_position_embeddings */
    enum deck_rounding rounding; /* of each frequency */
};

/* Rotation frequency of pair i of head_dim / 2, in radians per position. (Su et al. 2021; Llama 3.1's rescaling as
 * described by its configuration: wavelengths beyond original / low are stretched by factor, those below
 * original / high are kept, with a linear blend between.) Rounded to nearest, ties to even, where the settings say so.
 */
double rope_frequency(const struct rope_settings *rope, int64_t head_dim, int64_t i);

#endif
