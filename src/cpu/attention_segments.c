#include "cpu/attention_segments.h"

struct attention_segment attention_segment(const struct attention_segments *segments, int64_t slot)
{
    return (struct attention_segment){
        ((const int32_t *)segments->q_start.data)[slot],  ((const int32_t *)segments->q_length.data)[slot],
        ((const int32_t *)segments->kv_start.data)[slot], ((const int32_t *)segments->kv_length.data)[slot],
        ((const int32_t *)segments->q_offset.data)[slot],
    };
}

int64_t attention_visible(const struct attention_segment *segment, int64_t i, bool causal)
{
    if (!causal)
        return segment->kv_length;
    return cpu_max(0, cpu_min(segment->kv_length, i + segment->offset + 1));
}

int64_t attention_first(const struct attention_segment *segment, int64_t i, int64_t window)
{
    return window == 0 ? 0 : cpu_max(0, cpu_min(segment->kv_length, i + segment->offset + 1 - window));
}

void attention_cover(const struct attention_segments *segments, bool keys, int64_t rows, char *covered)
{
    memset(covered, 0, (size_t)rows);
    for (int64_t slot = 0; slot < attention_slots(segments); slot++) {
        struct attention_segment s = attention_segment(segments, slot);
        if (s.q_length <= 0)
            continue;
        if (keys)
            memset(covered + s.kv_start, 1, (size_t)cpu_max(0, s.kv_length));
        else
            memset(covered + s.q_start, 1, (size_t)s.q_length);
    }
}

void attention_clear_rows(const struct tensor *x, const char *covered)
{
    for (int64_t row = 0; row < x->rows; row++)
        if (!covered[row])
            memset(tensor_at(x, row, 0), 0, (size_t)(x->cols * dtype_size(x->dtype)));
}

void attention_read(const struct tensor *x, int64_t first, int64_t rows, int64_t col, int64_t cols, float *to)
{
    for (int64_t i = 0; i < rows; i++)
        cpu_widen(tensor_at(x, first + i, col), x->dtype, to + i * cols, cols);
}
