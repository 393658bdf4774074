/* How Megatron-LM blends data sets: what each one's share is, how many samples it has to hold, and which one gives the
 * next sample (blended_megatron_dataset_builder.py, blended_dataset.py, helpers.cpp of megatron-core 0.16), with all
 * roundings. */
#ifndef LOADER_MEGATRON_BLEND_H
#define LOADER_MEGATRON_BLEND_H

#include <stdint.h>

/* Divides weights[count], positive, by their sum, which is made as NumPy makes it. */
void megatron_blend_normalise(double *weights, int64_t count);
/* Samples that a data set of this share (weights normalised once) is made to hold for a run of so many. */
int64_t megatron_blend_samples(double share, int64_t samples);
/* How far a data set is behind its share (weights normalised twice, or sizes normalised once) when it has given
 * `given` of the `all` samples so far: the next one is of the first data set of those that are farthest behind. */
double megatron_blend_owed(double share, int64_t all, int64_t given);

#endif
