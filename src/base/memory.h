/* Host memory. Running out ends the program: nothing here returns NULL for a positive size. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Zero-filled, aligned to 64 bytes; NULL for 0 bytes. Free with memory_free. */
void *memory_allocate(int64_t bytes);
/* A new allocation of `bytes` bytes whose first `kept` are copied from `block`, which is freed (NULL: nothing to copy).
 * As from memory_allocate. */
void *memory_extend(void *block, int64_t kept, int64_t bytes);
/* realloc that cannot fail; `block` must come from this function or be NULL. Free with free(). */
void *memory_grow(void *block, int64_t bytes);
/* A copy of a string, freed with free(). */
char *memory_string(const char *text);
/* printf into a new string, freed with free(). */
char *memory_format(const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 1, 2)))
#endif
    ;
/* A stream into a new string, which memory_stream_end closes; then it is *text, of *bytes bytes, freed with free(). */
FILE *memory_stream(char **text, size_t *bytes);
void memory_stream_end(FILE *stream);
void memory_free(void *block);

/* Peak resident set of this process in bytes (VmHWM), and the present one (VmRSS). */
int64_t memory_resident_peak(void);
int64_t memory_resident_now(void);

#endif
