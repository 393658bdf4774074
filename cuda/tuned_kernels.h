/* The process's tuned kernels on its device (core/tuned_kernels.h): cuBLASLt's algorithm for each GEMM, and the
 * implementation of each attention shape. */
#ifndef CUDA_TUNED_KERNELS_H
#define CUDA_TUNED_KERNELS_H

#ifdef __cplusplus
extern "C" {
#endif

#include <stdbool.h>
#include <stdint.h>

enum choice_kind { CHOICE_GEMM = 1, CHOICE_ATTENTION }; /* in files: never renumbered */

/* Finds the value of a key. Returns false if there is none. The key has at most CHOICE_KEY_BYTES and is compared as
 * bytes, so its padding must be zero. Called once per plan, not per launch. A deterministic run may find choices of a
 * run that was not deterministic, and must refuse those that it cannot use. */
bool choice_find(enum choice_kind kind, const void *key, int64_t key_bytes, void *value, int64_t value_bytes);
/* Adds or replaces the value of a key; it has at most CHOICE_VALUE_BYTES. */
void choice_keep(enum choice_kind kind, const void *key, int64_t key_bytes, const void *value, int64_t value_bytes);

/* Returns all choices as bytes to store or send, valid until the next change. */
const void *choice_bytes(int64_t *bytes);
/* Replaces all choices by those of choice_bytes. Returns false, and changes nothing, if the bytes are damaged or come
 * from another device or library. */
bool choice_take(const void *from, int64_t bytes);
/* Adds the choices of `from`, and replaces those of the same keys. Returns as choice_take. */
bool choice_add(const void *from, int64_t bytes);

#ifdef __cplusplus
}
#endif

#endif
