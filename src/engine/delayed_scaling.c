#include "engine/delayed_scaling.h"
#include "base/memory.h"
#include "model/linear.h"

#include <math.h>

int64_t delayed_scaling_bytes(const struct model_settings *settings)
{
    const struct precision *precision = &settings->precision;
    const int64_t numbers = precision->history + 2; /* numbers of one operand: history, scale, largest */
    return precision_delays(precision) ? operand_count(settings) * numbers * dtype_size(DTYPE_F32) : 0;
}

bool delayed_scaling_present(const struct delayed_scaling *scaling)
{
    return tensor_present(&scaling->scale);
}

/* Copies `largest` from host memory, once. */
static void write_largest(const struct delayed_scaling *scaling, const struct precision *precision,
                          struct stream *stream)
{
    const struct linear_precision *eight = &precision->kinds[PRECISION_EIGHT];
    struct tensor host = scaling->largest;
    host.data = memory_allocate(host.rows * dtype_size(host.dtype));
    for (int64_t i = 0; i < host.rows; i++)
        tensor_put(&host, i, 0, format_largest(eight->rules[i % OPERAND_COUNT].format) * exp2(-precision->margin));
    LAUNCH(stream, COPY, copy, .from = host, .to = scaling->largest);
    stream_synchronize(stream);
    memory_free(host.data);
}

static struct tensor numbers(struct budget *budget, int64_t rows, int64_t cols, enum dtype dtype)
{
    return tensor_matrix(budget_allocate(budget, rows * cols * dtype_size(dtype), BUDGET_OPTIMIZER), dtype, rows, cols);
}

void delayed_scaling_create(struct delayed_scaling *scaling, const struct model_settings *settings,
                            struct budget *budget, enum dtype statistic, struct stream *stream)
{
    const struct precision *precision = &settings->precision;
    const int64_t operands = operand_count(settings);
    *scaling = (struct delayed_scaling){.latest = precision->latest};
    if (!precision_delays(precision))
        return;
    scaling->amax = numbers(budget, operands, 1, statistic);
    scaling->history = numbers(budget, operands, precision->history, statistic);
    scaling->scale = numbers(budget, operands, SCALE_STRIDE, statistic);
    scaling->scale.cols = 1;
    scaling->largest = numbers(budget, operands, 1, statistic);
    LAUNCH(stream, FILL, fill, .x = scaling->scale, .value = 1);
    if (!stream->executor->class->dry)
        write_largest(scaling, precision, stream);
}

void delayed_scaling_share(const struct delayed_scaling *scaling, struct group *group, struct stream *stream)
{
    if (delayed_scaling_present(scaling) && group->size > 1)
        LAUNCH(stream, ALL_REDUCE, all_reduce, .group = group, .x = scaling->amax, .maximum = true);
}

void delayed_scaling_update(const struct delayed_scaling *scaling, struct stream *stream)
{
    if (delayed_scaling_present(scaling))
        LAUNCH(stream, DELAYED_SCALE, delayed_scale, .amax = scaling->amax, .history = scaling->history,
               .scale = scaling->scale, .largest = scaling->largest, .latest = scaling->latest);
}

void delayed_scaling_restart(const struct delayed_scaling *scaling, struct stream *stream)
{
    if (delayed_scaling_present(scaling))
        LAUNCH(stream, FILL, fill, .x = scaling->amax, .value = 0);
}

static struct tensor fetch(struct tensor from, struct stream *stream)
{
    struct tensor host = tensor_matrix(NULL, from.dtype, from.rows, from.cols);
    host.data = memory_allocate(tensor_extent(&host));
    LAUNCH(stream, COPY, copy, .from = from, .to = host);
    stream_synchronize(stream);
    return host;
}

struct delayed_scaling delayed_scaling_fetch(const struct delayed_scaling *scaling, struct stream *stream)
{
    return (struct delayed_scaling){.history = fetch(scaling->history, stream),
                                    .scale = fetch(scaling->scale, stream),
                                    .largest = fetch(scaling->largest, stream)};
}

void delayed_scaling_put(struct delayed_scaling *scaling, const struct delayed_scaling *host, struct stream *stream)
{
    LAUNCH(stream, COPY, copy, .from = host->history, .to = scaling->history);
    LAUNCH(stream, COPY, copy, .from = host->scale, .to = scaling->scale);
    stream_synchronize(stream);
    scaling->restored = true;
}

void delayed_scaling_host_destroy(struct delayed_scaling *host)
{
    memory_free(host->history.data);
    memory_free(host->scale.data);
    memory_free(host->largest.data);
    *host = (struct delayed_scaling){0};
}
