/* A trial runs one op on an executor and on the oracle, and compares the results. Its tensors are in one block of
 * memory, each followed by guard bytes, so that after a launch every byte that the op may not write can be checked. The
 * oracle gets the same values, and its results stay unrounded (f64). The allowed difference is therefore the executor's
 * own: an error bound per element (ref/bounds.h) plus half a unit in the last place of the storage type.
 *
 *   struct trial *trial = trial_create("T %d", 7);
 *   struct tensor x = trial_normal(trial, DTYPE_BF16, 7, 64, 1.0), y = trial_empty(trial, DTYPE_BF16, 7, 32);
 *   struct swiglu_forward_args args = {.x = x, .y = y};
 *   bounds_set(trial, OP_SWIGLU_FORWARD, &args);
 *   trial_expect(trial, OP_SWIGLU_FORWARD, &args);
 *   wrong += trial_compare(trial, executor, OP_SWIGLU_FORWARD, &args);
 *   trial_destroy(trial); */
#ifndef TESTS_REF_TRIAL_H
#define TESTS_REF_TRIAL_H

#include "base/error.h"
#include "core/launch.h"

enum { TRIAL_BLOCKS = 32, TRIAL_FIELDS = 24 };

struct trial_block {
    int64_t offset, bytes; /* in the trial's memory */
    enum dtype dtype;
};

struct trial {
    char name[160];
    char *memory; /* the values before the launch; a launch works on copies of it */
    char *wanted; /* the oracle's results, after trial_expect */
    int64_t used; /* bytes */
    int64_t capacity;
    struct trial_block blocks[TRIAL_BLOCKS];
    int block_count;
    struct tensor bounds[TRIAL_FIELDS]; /* by op field; f64, absolute error before storage; absent = 0 */
    bool quiet;                         /* count errors, print nothing */
    bool unordered;                     /* a second launch may give other bits */
    bool coarse;                        /* f32 outputs have bounds for bf16 factors: no faults are injected */
    int64_t planted_missed;             /* injected faults that no bound noticed */
};

/* Makes a trial. The name is for messages: the shape and kind of the case. */
struct trial *trial_create(const char *format, ...) BASE_PRINTF(1, 2);
void trial_destroy(struct trial *trial);
/* Reserves `bytes` of memory if 8 MiB are not enough; call it before the first tensor. */
void trial_reserve(struct trial *trial, int64_t bytes);

/* Make tensors, owned by the trial, filled with NaN (or -1), for outputs; the rows of trial_strided are `stride`
 * elements apart. */
struct tensor trial_strided(struct trial *trial, enum dtype dtype, int64_t rows, int64_t cols, int64_t stride);
struct tensor trial_empty(struct trial *trial, enum dtype dtype, int64_t rows, int64_t cols);
/* Makes a tensor of normal numbers with a standard deviation, rounded to the dtype. */
struct tensor trial_normal(struct trial *trial, enum dtype dtype, int64_t rows, int64_t cols, double deviation);
/* As trial_normal; when strided, columns of a wider matrix of NaN, beginning at an odd column. */
struct tensor trial_matrix(struct trial *trial, enum dtype dtype, int64_t rows, int64_t cols, bool strided,
                           double deviation);
struct tensor trial_integers(struct trial *trial, const int32_t *values, int64_t count);
/* Makes a tensor of random numbers in 0 .. below - 1. */
struct tensor trial_draw_integers(struct trial *trial, int64_t count, int32_t below);
/* Returns the next number of a fixed random sequence, in 0 .. below - 1. */
int32_t trial_draw(int32_t below);

/* Makes the bound of a named field of args: f64 of the field's shape, all 0, which the caller fills in. */
struct tensor trial_bound(struct trial *trial, enum op op, const void *args, const char *field);

/* Runs the oracle on the trial's values and keeps its results. */
void trial_expect(struct trial *trial, enum op op, const void *args);

/* Launches the op in the executor's memory, and compares with the results of trial_expect (with the same args, unless a
 * fault is injected on purpose). Returns the number of elements beyond their bounds, plus 1 if memory that the op does
 * not write has changed, plus 1 if a second launch gave other bits (unless unordered); prints the worst of each.
 * Outputs are NaN before the launch. Then it injects a fault into each f32 output, 1e-3 of the magnitude of its largest
 * finite element; planted_missed counts the faults that went unnoticed. */
int64_t trial_compare(struct trial *trial, struct executor *executor, enum op op, const void *args);

/* Compares with the oracle on the executor's own dtypes, where every bit except those of NaN must agree. Returns the
 * number of bytes that differ. For ops that round at most once, or whose roundings are all defined. */
int64_t trial_compare_exact(struct trial *trial, struct executor *executor, enum op op, const void *args);

/* trial_run returns a copy of the trial's memory in which the executor has run the op, to be freed; trial_in_copy
 * returns a tensor's place in this copy. */
char *trial_run(const struct trial *trial, struct executor *executor, enum op op, const void *args);
struct tensor trial_in_copy(const struct trial *trial, const struct tensor *x, char *copy);

#endif
