#include "report/time_to_train.h"

#include <math.h>

/* Returns the later of two times, but `time` if `other` is not before the limit. */
static double later(double time, double other, double limit)
{
    return other < limit && other > time ? other : time;
}

/* Returns the time of the last line before `limit` of the program that began at `start`. */
static double last_line(const struct run_history *h, double start, double limit)
{
    double time = start;
    for (int64_t i = 0; i < h->row_count; i++)
        time = later(time, h->rows[i].numbers.time, limit);
    for (int64_t i = 0; i < h->validation_count; i++)
        time = later(time, h->validations[i].time, limit);
    for (int64_t i = 0; i < h->note_count; i++)
        time = later(time, h->notes[i].time, limit);
    return time;
}

double time_trained(const struct run_history *h, double time)
{
    double sum = 0;
    for (int64_t i = 0; i < h->start_count && h->starts[i].time < time; i++) {
        const double next = i + 1 < h->start_count ? h->starts[i + 1].time : INFINITY;
        sum += fmin(time, last_line(h, h->starts[i].time, next)) - h->starts[i].time;
    }
    return h->start_count > 0 ? sum : NAN;
}

struct time_to_loss time_to_loss(const struct run_history *h, const struct loss_curves *curves, double loss)
{
    struct time_to_loss t = {.validated = h->validation_count > 0, .seconds = NAN};
    for (int64_t i = 0; i < h->validation_count; i++)
        if (h->validations[i].loss <= loss)
            return (struct time_to_loss){true, true, h->validations[i].step, time_trained(h, h->validations[i].time)};
    for (int64_t i = 0; i < h->row_count && !t.validated; i++)
        if (curves->smooth[i] <= loss)
            return (struct time_to_loss){true, false, h->rows[i].step, time_trained(h, h->rows[i].numbers.time)};
    return t;
}
