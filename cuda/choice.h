/* The process's choices of kernels on its device (core/choice.h): cuBLASLt's algorithm for each product, the
 * implementation of each attention. */
#ifndef CUDA_CHOICE_H
#define CUDA_CHOICE_H

#ifdef __cplusplus
extern "C" {
#endif

#include <stdbool.h>
#include <stdint.h>

enum choice_kind { CHOICE_GEMM = 1, CHOICE_ATTENTION }; /* in files: never renumbered */

/* The value that is known for a key; false: none. The key of at most CHOICE_KEY_BYTES is compared as bytes: no padding
 * that is not zero. Looked up once per plan, not per launch. A deterministic run may find choices of a run that was
 * not, and must refuse those that it cannot use. */
bool choice_find(enum choice_kind kind, const void *key, int64_t key_bytes, void *value, int64_t value_bytes);
/* Adds or replaces; a value has at most CHOICE_VALUE_BYTES. */
void choice_keep(enum choice_kind kind, const void *key, int64_t key_bytes, const void *value, int64_t value_bytes);

/* All that is kept, as bytes to store or send, valid until the next change. */
const void *choice_bytes(int64_t *bytes);
/* Replaces all by such bytes. Returns false, and changes nothing, if they are damaged or of another device or library.
 */
bool choice_take(const void *from, int64_t bytes);
/* Keeps those of such bytes beside its own. False as above. */
bool choice_add(const void *from, int64_t bytes);

#ifdef __cplusplus
}
#endif

#endif
