#include "infer/site_window.h"
#include "base/range.h"

int64_t site_window(int64_t length, int64_t size, int64_t first, int64_t last)
{
    if (length <= size)
        return 0;
    if (last - first >= size)
        return -1;
    const int64_t step = MAX(size / 8, 1), centred = MAX((first + last + 1) / 2 - size / 2, 0);
    const int64_t start = MIN((centred + step / 2) / step * step, length - size);
    return MIN(MAX(start, last + 1 - size), first); /* letters that nearly fill a window must be inside */
}
