#include "step/slab.h"

struct slab slab_of(const struct parameter *parameter, int64_t first, int64_t count)
{
    int64_t begin = first - parameter->offset, end = begin + count, size = parameter->rows * parameter->cols;
    if (begin < 0)
        begin = 0;
    if (end > size)
        end = size;
    return begin < end ? (struct slab){begin, end - begin} : (struct slab){0, 0};
}

int slab_rectangles(struct slab slab, int64_t cols, struct rectangle out[SLAB_RECTANGLES])
{
    int count = 0;
    while (slab.count > 0) {
        int64_t row = slab.first / cols, col = slab.first % cols;
        int64_t rows = col == 0 && slab.count >= cols ? slab.count / cols : 1;
        int64_t width = cols - col < slab.count ? cols - col : slab.count;
        out[count++] = (struct rectangle){row, col, rows, width};
        slab.first += rows * width;
        slab.count -= rows * width;
    }
    return count;
}
