/* Muon in double by plain loops, for comparison with engine/muon.h. */
#ifndef TESTS_REF_MUON_H
#define TESTS_REF_MUON_H

#include "engine/muon.h"

/* One step of a matrix [rows, cols] and its momentum m, in row-major arrays. gradient: the clipped mean gradient. */
void muon_reference_step(const struct muon_settings *settings, double *weight, double *m, const double *gradient,
                         int64_t rows, int64_t cols, double lr, double weight_decay);

#endif
