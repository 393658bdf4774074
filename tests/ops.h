/* For test programs that compare an executor's ops with the oracle. The program's arguments name executors: numbers of
 * CPU threads (default: 1 and 2), or a name of executors.h. Bounds are derived in ref/bounds*.c; ref/trial.h says what
 * else a comparison checks. */
#ifndef TESTS_OPS_H
#define TESTS_OPS_H

#include "check.h"
#include "ref/bounds.h"
#include "ref/reference.h"
#include "ref/reference_ops.h"

#include "executors.h"

#include <stdlib.h>

enum { EXECUTORS = 4 };
static struct executor *executors[EXECUTORS];
static int executor_count;
static bool on_device; /* the executors have their own memory */

static const enum dtype storage[2] = {DTYPE_F32, DTYPE_BF16};
static const int64_t lengths[4] = {1, 7, 64, 129};

#define COUNT(array) ((int64_t)(sizeof(array) / sizeof *(array)))

static inline void executors_open(int count, char **arguments)
{
    for (int i = 1; i < count && executor_count < EXECUTORS; i++)
        executors[executor_count++] = executor_named(arguments[i]);
    on_device = executor_count > 0 && executors[0]->device != NULL;
    if (on_device)
        bounds_of_matrix_units();
    for (int threads = 1; count == 1 && threads <= 2; threads++)
        executors[executor_count++] = cpu_executor_create(threads);
}

static inline void executors_close(void)
{
    for (int i = 0; i < executor_count; i++)
        executors[i]->class->destroy(executors[i]);
}

/* Compares on every executor, and checks that injected faults were noticed. */
static inline void compare_op(struct trial *trial, enum op op, const void *args)
{
    bounds_set(trial, op, args);
    trial_expect(trial, op, args);
    for (int i = 0; i < executor_count; i++)
        check_report(__FILE__, __LINE__, trial_compare(trial, executors[i], op, args) == 0, trial->name);
    check_report(__FILE__, __LINE__, trial->planted_missed == 0, "planted faults are noticed");
}

/* As compare_op, and destroys the trial. */
static inline void check_op(struct trial *trial, enum op op, const void *args)
{
    compare_op(trial, op, args);
    trial_destroy(trial);
}

/* Compares bit by bit, for ops that round at most once; destroys the trial. */
static inline void check_op_exact(struct trial *trial, enum op op, const void *args)
{
    for (int i = 0; i < executor_count; i++)
        check_report(__FILE__, __LINE__, trial_compare_exact(trial, executors[i], op, args) == 0, trial->name);
    trial_destroy(trial);
}

/* Checks that the comparison fails if the executor gets other arguments than the oracle. */
static inline void check_noticed(struct trial *trial, enum op op, const void *args, const void *mistaken)
{
    bounds_set(trial, op, args);
    trial_expect(trial, op, args);
    trial->quiet = true;
    check_report(__FILE__, __LINE__, trial_compare(trial, executors[0], op, mistaken) > 0, trial->name);
    trial->quiet = false;
    trial->planted_missed = 0;
}

#endif
