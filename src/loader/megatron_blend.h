/* Blending of data sets as Megatron-LM does it (blended_megatron_dataset_builder.py, blended_dataset.py, helpers.cpp of
 * megatron-core 0.16), with all roundings: shares, the number of samples that each data set needs, and which one gives
 * the next sample. */
#ifndef LOADER_MEGATRON_BLEND_H
#define LOADER_MEGATRON_BLEND_H

#include <stdint.h>

/* Divides weights[count], positive, by their sum, in NumPy's order of summation. */
void megatron_blend_normalise(double *weights, int64_t count);
/* Returns the number of samples that Megatron-LM builds of a data set with this share (weights normalised once), for a
 * run of `samples` samples. */
int64_t megatron_blend_samples(double share, int64_t samples);
/* Returns how many samples a data set is behind its share (weights normalised twice, or sizes normalised once), if it
 * has given `given` of the first `all` samples. The next sample comes from the data set that is farthest behind, the
 * first of them in a tie. */
double megatron_blend_owed(double share, int64_t all, int64_t given);

#endif
