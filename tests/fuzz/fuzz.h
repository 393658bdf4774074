/* Fuzz targets: a target is one source fuzz_NAME.c with libFuzzer's entry. Linked with driver.c it is a program of its
 * own that any compiler builds; linked by clang -fsanitize=fuzzer in the driver's place it is a libFuzzer target. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* libFuzzer's entry: reads the input as the target's kind of file. What must not happen ends the process by a signal.
 * Source: llvm.org/docs/LibFuzzer.html */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Hands valid inputs, and inputs that are wrong in known ways, to `add`, which copies them. */
void fuzz_target_seeds(void (*add)(const void *data, size_t size));
/* Words that the mutator inserts; ends with NULL. */
extern const char *const fuzz_target_words[];

/* Set by a target before HDF5 opens what nobody has verified: from then on a crash inside libhdf5 is the library's. */
extern bool fuzz_hdf5_may_crash;

/* How many inputs the target has read to their ends, without an error: targets add to it. A driver that sees none has
 * tested little more than the first check of a reader. */
extern int64_t fuzz_accepted;

/* The path of a file of this process in a scratch folder, which goes away at exit; good until the eighth call after it.
 */
const char *fuzz_path(const char *name);
/* Writes a file whole. */
void fuzz_write(const char *path, const void *data, size_t size);
/* A file's content; freed with free(). */
void *fuzz_read(const char *path, size_t *size);

/* Ends the process by a signal when the condition, which holds for a program without faults, does not; prints it. */
#define FUZZ_CHECK(condition) fuzz_check((condition) ? 1 : 0, #condition)
void fuzz_check(int good, const char *text);

/* Folders and hooks for the functions above; called by the first fuzz_path() and by the driver. */
void fuzz_begin(void);

#endif
