/* A golden case made by another program (tests/golden/README.md), and an engine on it. */
#ifndef TESTS_REF_GOLDEN_H
#define TESTS_REF_GOLDEN_H

#include "engine/engine.h"

enum { GOLDEN_STEPS = 100 /* at most */ };

struct golden {
    char path[512];
    int64_t file; /* HDF5 id */
    struct model_settings settings;
    struct optimizer_settings optimizer;
    double lr;
    struct batch batch; /* all rows in one micro-batch */
    double *logits;     /* [rows * row_tokens, vocabulary] */
    double loss;
    int steps;                   /* updates */
    double losses[GOLDEN_STEPS]; /* before each of them */
    double norms[GOLDEN_STEPS];  /* gradient norms before clipping */
};

/* Opens a file of tests/golden by name (without .h5); folder from $abs_top_srcdir. Ends the program when it cannot. */
void golden_open(struct golden *golden, const char *name);
void golden_close(struct golden *golden);

/* A dataset of the case as doubles, e.g. "/weights/lm_head.weight". Freed with free(). count: elements wanted. */
double *golden_read(const struct golden *golden, const char *group, const char *name, int64_t count);

/* Writes the case's weights into the engine's store. */
void golden_load(const struct golden *golden, struct engine *engine);

/* Relative L2 distance of two arrays. */
double golden_distance(const double *a, const double *b, int64_t count);

/* Worst relative L2 distance over all parameters between the engine's gradients, divided by the number of labels, and
 * the case's; likewise of the weights and the case's weights after all updates. `worst` receives the name. */
double golden_gradient_distance(const struct golden *golden, struct engine *engine, double labels, char *worst);
double golden_final_distance(const struct golden *golden, struct engine *engine, char *worst);

/* The logits of the last engine_evaluate, which must have had one chunk; padding as zero. Freed with free(). */
double *golden_engine_logits(const struct golden *golden, struct engine *engine);

#endif
