#include "monitor/timers.h"
#include "base/log.h"

#include <stdbool.h>
#include <string.h>

double timers_percent(const struct timer *timers, int64_t count, int64_t i)
{
    const char *whole = strcmp(timers[i].kind, "op") == 0 ? "op" : "all";
    double sum = 0;
    for (int64_t k = 0; k < count; k++)
        if (strcmp(timers[k].kind, whole) == 0)
            sum += timers[k].mean;
    return sum > 0 ? 100 * timers[i].mean / sum : 0;
}

static void print_those(const struct timer *timers, int64_t count, bool ops, const char *title, const char *begin)
{
    bool titled = false;
    for (int64_t i = 0; i < count; i++) {
        const struct timer *t = &timers[i];
        if ((strcmp(t->kind, "op") == 0) != ops)
            continue;
        if (!titled)
            log_info("%s%-20s %10s %10s %10s %10s %7s", begin, title, "calls", "minimum", "mean", "maximum", "percent");
        titled = true;
        log_info("%s%-20s %10lld %10.3f %10.3f %10.3f %7.1f", begin, t->name, (long long)t->calls, t->minimum, t->mean,
                 t->maximum, timers_percent(timers, count, i));
    }
}

void timers_print(const struct timer *timers, int64_t count, const char *begin)
{
    print_those(timers, count, false, "seconds over ranks", begin);
    print_those(timers, count, true, "ops, percent of ops", begin);
}
