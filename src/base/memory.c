#include "base/memory.h"
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 };

void *memory_allocate(int64_t bytes)
{
    if (bytes <= 0)
        return NULL;
    size_t rounded = ((size_t)bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    /* calloc returns untouched zero pages for large blocks, so memory counts only once it is used. The address is
     * rounded up to the alignment, and the original is stored just below it. */
    char *block = calloc(1, rounded + ALIGNMENT);
    if (block == NULL)
        error_fatal("out of memory: %lld bytes requested", (long long)bytes);
    char *aligned = block + ALIGNMENT - (uintptr_t)block % ALIGNMENT;
    memcpy(aligned - sizeof block, &block, sizeof block);
    return aligned;
}

void memory_free(void *aligned)
{
    if (aligned == NULL)
        return;
    char *block;
    memcpy(&block, (char *)aligned - sizeof block, sizeof block);
    free(block);
}

void *memory_extend(void *block, int64_t kept, int64_t bytes)
{
    void *extended = memory_allocate(bytes);
    if (kept > 0)
        memcpy(extended, block, (size_t)kept);
    memory_free(block);
    return extended;
}

void *memory_grow(void *block, int64_t bytes)
{
    void *grown = realloc(block, bytes > 0 ? (size_t)bytes : 1);
    if (grown == NULL)
        error_fatal("out of memory: %lld bytes requested", (long long)bytes);
    return grown;
}

char *memory_string(const char *text)
{
    size_t bytes = strlen(text) + 1;
    return memcpy(memory_grow(NULL, (int64_t)bytes), text, bytes);
}

char *memory_format(const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *text = memory_grow(NULL, length + 1);
    vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

FILE *memory_stream(char **text, size_t *bytes)
{
    FILE *stream = open_memstream(text, bytes);
    if (stream == NULL)
        error_fatal("out of memory for a text");
    return stream;
}

void memory_stream_end(FILE *stream)
{
    if (fclose(stream) != 0)
        error_fatal("out of memory for a text");
}

static int64_t status_field(const char *name)
{
    FILE *file = fopen("/proc/self/status", "r");
    if (file == NULL)
        return 0;
    char line[256];
    long long kilobytes = 0;
    size_t length = strlen(name);
    while (fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, name, length) == 0 && line[length] == ':')
            sscanf(line + length + 1, "%lld", &kilobytes);
    fclose(file);
    return kilobytes * 1024;
}

int64_t memory_resident_peak(void)
{
    return status_field("VmHWM");
}

int64_t memory_resident_now(void)
{
    return status_field("VmRSS");
}
