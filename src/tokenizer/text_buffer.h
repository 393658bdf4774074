/* A growing buffer of bytes, reused between calls; {0} is empty. Freed with free(text). */
#ifndef TOKENIZER_TEXT_BUFFER_H
#define TOKENIZER_TEXT_BUFFER_H

#include "base/memory.h"

#include <stdint.h>
#include <string.h>

struct text_buffer {
    unsigned char *text;
    int64_t used, capacity;
};

/* Appends bytes, which are not in the buffer. */
static inline void text_buffer_add(struct text_buffer *buffer, const void *bytes, int64_t count)
{
    if (buffer->used + count > buffer->capacity) {
        buffer->capacity = 2 * (buffer->used + count);
        buffer->text = memory_grow(buffer->text, buffer->capacity);
    }
    if (count > 0)
        memcpy(buffer->text + buffer->used, bytes, (size_t)count);
    buffer->used += count;
}

#endif
