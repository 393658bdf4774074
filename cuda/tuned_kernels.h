/* The process's tuned kernels on its device (core/tuned_kernels.h): cuBLASLt's algorithm for each GEMM, and the
 * implementation of each attention shape. */
#ifndef CUDA_TUNED_KERNELS_H
#define CUDA_TUNED_KERNELS_H

#ifdef __cplusplus
extern "C" {
#endif

#include <stdbool.h>
#include <stdint.h>

enum tuned_kernel_kind { TUNED_GEMM = 1, TUNED_ATTENTION }; /* in files: never renumbered */

/* Finds the value of a key. Returns false if there is none. The key has at most TUNING_KEY_BYTES and is compared as
 * bytes, so its padding must be zero. Called once per plan, not per launch. A deterministic run may find tuned kernels
 * of a run that was not deterministic, and must refuse those that it cannot use. */
bool tuned_kernel_find(enum tuned_kernel_kind kind, const void *key, int64_t key_bytes, void *value,
                       int64_t value_bytes);
/* Adds or replaces the value of a key; it has at most TUNING_VALUE_BYTES. */
void tuned_kernel_keep(enum tuned_kernel_kind kind, const void *key, int64_t key_bytes, const void *value,
                       int64_t value_bytes);

/* Returns all tuned kernels as bytes to store or send, valid until the next change. */
const void *tuned_kernels_table(int64_t *bytes);
/* Replaces all tuned kernels by those of tuned_kernels_table. Returns false, and changes nothing, if the bytes are
 * damaged or come from another device or library. */
bool tuned_kernels_load(const void *from, int64_t bytes);
/* Adds the tuned kernels of `from`, and replaces those of the same keys. Returns as tuned_kernels_load. */
bool tuned_kernels_add(const void *from, int64_t bytes);

#ifdef __cplusplus
}
#endif

#endif
