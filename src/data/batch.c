#include "data/batch.h"
#include "base/memory.h"

void batch_create(struct batch *batch, int64_t rows, int64_t row_tokens, int64_t max_segments)
{
    batch_create_targets(batch, rows, row_tokens, max_segments, 0);
}

void batch_create_targets(struct batch *batch, int64_t rows, int64_t row_tokens, int64_t max_segments, int64_t numbers)
{
    int64_t tokens = rows * row_tokens, segments = rows * max_segments;
    *batch = (struct batch){.rows = rows, .row_tokens = row_tokens, .max_segments = max_segments, .numbers = numbers};
    batch->tokens = memory_allocate(batch_bytes(batch));
    batch->labels = batch->tokens + tokens;
    batch->positions = batch->labels + tokens;
    batch->segment_start = batch->positions + tokens;
    batch->segment_length = batch->segment_start + segments;
    batch->scale = (float *)(batch->segment_length + segments);
    batch->dropout_keys = (int32_t *)(batch->scale + tokens);
    batch->targets = (float *)(batch->dropout_keys + tokens);
    batch_clear(batch, 0);
}

int64_t batch_bytes(const struct batch *batch)
{
    _Static_assert(sizeof(float) == sizeof(int32_t), "one allocation of elements of one size");
    int64_t elements = batch->rows * (5 * batch->row_tokens + (2 + batch->numbers) * batch->max_segments);
    return elements * (int64_t)sizeof(int32_t);
}

void batch_clear(struct batch *batch, int32_t pad)
{
    for (int64_t i = 0; i < batch->rows * batch->row_tokens; i++) {
        batch->tokens[i] = pad;
        batch->labels[i] = BATCH_IGNORED;
        batch->positions[i] = 0;
        batch->scale[i] = 1.0f;
        batch->dropout_keys[i] = 0;
    }
    for (int64_t i = 0; i < batch->rows * batch->max_segments; i++)
        batch->segment_start[i] = batch->segment_length[i] = 0;
    for (int64_t i = 0; i < batch->rows * batch->max_segments * batch->numbers; i++)
        batch->targets[i] = 0.0f;
    batch->valid = batch->real = 0;
    batch->full = false;
}

void batch_restart(struct batch *batch)
{
    batch->row_tokens = batch->max_segments = 0;
    batch->valid = batch->real = 0;
}

int64_t batch_append(struct batch *batch, const int32_t *tokens, int64_t count)
{
    int64_t first = batch->row_tokens, slot = batch->max_segments;
    for (int64_t i = 0; i < count; i++) {
        batch->tokens[first + i] = tokens[i];
        batch->labels[first + i] = BATCH_IGNORED;
        batch->positions[first + i] = (int32_t)i;
        batch->scale[first + i] = 1.0f;
    }
    batch->segment_start[slot] = (int32_t)first;
    batch->segment_length[slot] = (int32_t)count;
    batch->row_tokens = first + count;
    batch->max_segments = slot + 1;
    batch->real += count;
    return first;
}

void batch_pad(struct batch *batch, int32_t pad, int64_t tokens)
{
    for (int64_t t = batch->row_tokens; t < tokens; t++) {
        batch->tokens[t] = pad;
        batch->labels[t] = BATCH_IGNORED;
        batch->positions[t] = 0;
        batch->scale[t] = 1;
    }
    batch->row_tokens = tokens;
}

void batch_destroy(struct batch *batch)
{
    memory_free(batch->tokens);
    *batch = (struct batch){0};
}
