#include "report/throughput.h"
#include "base/memory.h"
#include "base/quantile.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

static bool is_counted(const struct history_row *row, int64_t from)
{
    return row->times > 0 && row->step - row->times >= from && isfinite(row->numbers.seconds) &&
           isfinite(row->numbers.rate);
}

struct throughput throughput_of(const struct run_history *h, int64_t warm_up)
{
    struct throughput t = {
        .least = NAN, .median = NAN, .most = NAN, .tokens = NAN, .rate = NAN, .padded_rate = NAN, .waited = NAN};
    for (int c = 0; c < FLOPS_CONVENTIONS; c++)
        t.utilisation[c] = NAN;
    const struct history_start *start = h->start_count > 0 ? &h->starts[h->start_count - 1] : NULL;
    const int64_t from = (start != NULL ? start->step : 0) + warm_up;
    double *times = memory_allocate((h->step_count + 1) * (int64_t)sizeof *times);
    double tokens = 0, padded = 0, seconds = 0, waited = 0;
    for (const struct history_row *row = h->rows; row < h->rows + h->row_count; row++) {
        if (!is_counted(row, from))
            continue;
        memcpy(times + t.steps, h->step_seconds + row->first_time, (size_t)row->times * sizeof *times);
        t.steps += row->times;
        tokens += row->numbers.rate * row->numbers.seconds;
        padded += row->numbers.padded_rate * row->numbers.seconds;
        seconds += row->numbers.seconds;
        waited += row->numbers.data_wait;
    }
    if (t.steps > 0 && seconds > 0) {
        quantile_sort(times, t.steps);
        t.least = times[0];
        t.median = quantile(times, t.steps, 0.5);
        t.most = times[t.steps - 1];
        t.tokens = tokens / (double)t.steps;
        t.rate = t.tokens / t.median;
        t.padded_rate = padded / (double)t.steps / t.median;
        t.waited = waited / seconds;
        for (int c = 0; c < FLOPS_CONVENTIONS && start != NULL; c++)
            t.utilisation[c] = flops_utilisation(start->flops_per_token[c], t.rate, start->peak);
    }
    memory_free(times);
    return t;
}
