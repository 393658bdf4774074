/* Host memory. Out of memory is fatal: no function returns NULL for a positive size. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Returns zero-filled memory aligned to 64 bytes; NULL for 0 bytes. Free it with memory_free. */
void *memory_allocate(int64_t bytes);
/* Returns a new allocation, as memory_allocate, with the first `kept` bytes of `block`, and frees `block` (NULL: none).
 */
void *memory_extend(void *block, int64_t kept, int64_t bytes);
/* realloc that cannot fail; `block` must come from this function or be NULL. Free with free(). */
void *memory_grow(void *block, int64_t bytes);
/* Returns a copy of a string, freed with free(). */
char *memory_string(const char *text);
/* Returns a new string, formatted as by printf; freed with free(). */
char *memory_format(const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 1, 2)))
#endif
    ;
/* Opens a stream that writes to a new string. memory_stream_end closes it; then *text has *bytes bytes and is freed
 * with free(). */
FILE *memory_stream(char **text, size_t *bytes);
void memory_stream_end(FILE *stream);
void memory_free(void *block);

/* Return the peak (VmHWM) and the current (VmRSS) resident set of this process in bytes. */
int64_t memory_resident_peak(void);
int64_t memory_resident_now(void);

#endif
