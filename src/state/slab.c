#include "state/slab.h"
#include "base/range.h"

struct parameter_slab slab_common(struct parameter_slab a, struct parameter_slab b)
{
    const struct index_range common =
        range_common((struct index_range){a.first, a.count}, (struct index_range){b.first, b.count});
    return common.count > 0 ? (struct parameter_slab){common.first, common.count} : (struct parameter_slab){0, 0};
}

struct parameter_slab slab_of(const struct parameter *parameter, int64_t first, int64_t count)
{
    const struct parameter_slab all = {0, parameter->part.rows * parameter->part.cols};
    return slab_common((struct parameter_slab){first - parameter->offset, count}, all);
}

int slab_rectangles(const struct parameter *parameter, struct parameter_slab slab,
                    struct rectangle out[SLAB_RECTANGLES])
{
    const struct rectangle *part = &parameter->part;
    int count = 0;
    while (slab.count > 0) {
        int64_t row = slab.first / part->cols, col = slab.first % part->cols;
        int64_t rows = col == 0 && slab.count >= part->cols ? slab.count / part->cols : 1;
        rows = MIN(rows, parameter->height - row % parameter->height);
        int64_t width = MIN(part->cols - col, slab.count);
        out[count++] = (struct rectangle){parameter_row(parameter, row), part->col + col, rows, width};
        slab.first += rows * width;
        slab.count -= rows * width;
    }
    return count;
}

struct slab_run slab_run(const struct parameter *parameter, struct parameter_slab slab)
{
    const struct rectangle *part = &parameter->part;
    const int64_t row = slab.first / part->cols, col = slab.first % part->cols;
    const int64_t rows = part->cols == parameter->cols ? parameter->height - row % parameter->height : 1;
    const int64_t rest = rows * part->cols - col;
    return (struct slab_run){parameter_row(parameter, row) * parameter->cols + part->col + col, MIN(rest, slab.count)};
}
