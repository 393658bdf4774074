/* A golden case made by another program (tests/golden/README.md), and comparisons of an engine with it. */
#ifndef TESTS_REF_GOLDEN_H
#define TESTS_REF_GOLDEN_H

#include "engine/engine.h"

enum { GOLDEN_STEPS = 100, GOLDEN_TOKENS = 32 }; /* at most */

struct golden {
    char path[512];
    int64_t file; /* HDF5 id */
    struct model_settings settings;
    struct optimizer_settings optimizer;
    double lr;
    struct batch batch; /* all rows in one micro-batch */
    double *logits;     /* [rows * row_tokens, vocabulary] */
    double loss;
    int steps;                   /* number of updates */
    double losses[GOLDEN_STEPS]; /* before each update */
    double norms[GOLDEN_STEPS];  /* gradient norms before clipping */
    /* A greedy continuation of a prompt; prompt_count 0: the file has none. */
    int prompt_count, greedy_count;
    int32_t prompt[GOLDEN_TOKENS], greedy[GOLDEN_TOKENS];
};

/* Opens a file of tests/golden by name, without .h5; the folder is found by $abs_top_srcdir. A failure ends the
 * program. */
void golden_open(struct golden *golden, const char *name);
void golden_close(struct golden *golden);

/* Returns a dataset of the case as doubles, e.g. "/weights/lm_head.weight"; freed with free(). count: expected
 * elements. */
double *golden_read(const struct golden *golden, const char *group, const char *name, int64_t count);

/* Writes the case's weights into the engine's store. */
void golden_load(const struct golden *golden, struct engine *engine);

/* Returns the relative L2 distance of two arrays. */
double golden_distance(const double *a, const double *b, int64_t count);

/* Return the largest relative L2 distance of a parameter from the case, and the parameter's name in `worst`: of
 * gradients divided by the number of labels, and of weights after all updates. */
double golden_gradient_distance(const struct golden *golden, struct engine *engine, double labels, char *worst);
double golden_final_distance(const struct golden *golden, struct engine *engine, char *worst);

/* Returns the logits of the last engine_evaluate, which must have had one chunk; 0 on padding. Freed with free(). */
double *golden_engine_logits(const struct golden *golden, struct engine *engine);

#endif
