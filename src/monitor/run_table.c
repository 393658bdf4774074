#include "monitor/run_table.h"
#include "base/duration.h"
#include "base/log.h"
#include "base/terminal.h"

#include <math.h>
#include <stdio.h>

enum { HEADER_EVERY = 20, WIDE_COLUMNS = 96 /* of the table for files and wide terminals */ };

/* A header and rows for terminals of 80 columns: fewer digits, and GiB. */
static void print_narrow_header(bool with_mfu)
{
    log_info("#%6s %7s %8s %8s %8s %7s %4s %5s%s %10s", "", "loss", "learning", "gradient", "speed", "time", "data",
             "mem.", with_mfu ? "   MFU" : "", "time left");
    log_info("#%6s %7s %8s %8s %8s %7s %4s %5s%s %10s", "step", "nats", "rate", "norm", "tokens/s", "s/step", "%",
             "GiB", with_mfu ? "     %" : "", "hh:mm:ss");
}

static void print_wide_header(bool with_mfu)
{
    log_info("#%9s %9s %10s %10s %11s %9s %9s %9s%s %12s", "", "loss", "learning", "gradient", "speed", "time",
             "data wait", "memory", with_mfu ? "   MFU" : "", "time left");
    log_info("#%9s %9s %10s %10s %11s %9s %9s %9s%s %12s", "step", "nats", "rate", "norm", "tokens/s", "s/step", "%",
             "MiB", with_mfu ? "     %" : "", "d-hh:mm:ss");
}

static void print_header(struct run_table *table, bool with_mfu)
{
    int columns = terminal_columns();
    table->narrow = columns > 0 && columns < WIDE_COLUMNS;
    if (table->narrow)
        print_narrow_header(with_mfu);
    else
        print_wide_header(with_mfu);
}

void run_table_print(struct run_table *table, const struct shown_numbers *s, double seconds_left)
{
    const bool with_mfu = !isnan(s->utilisation[FLOPS_CAUSAL]);
    if (table->rows++ % HEADER_EVERY == 0)
        print_header(table, with_mfu);
    char left[DURATION_BYTES], mfu[16] = "";
    duration_print(left, seconds_left);
    if (with_mfu)
        snprintf(mfu, sizeof mfu, " %5.1f", 100 * s->utilisation[FLOPS_CAUSAL]);
    double steps = s->steps > 0 ? (double)s->steps : 1;
    double waited = s->seconds > 0 ? 100 * s->data_wait / s->seconds : 0;
    if (table->narrow)
        log_info("%7lld %7.4f %8.2e %#8.3g %8.0f %#7.3g %4.0f %5.1f%s %10s", (long long)s->step, s->mean_loss,
                 s->learning_rate, s->grad_norm, s->rate, s->seconds / steps, waited, s->memory / (1 << 30), mfu, left);
    else
        log_info("%10lld %9.5f %10.4e %#10.4g %11.0f %#9.4g %9.1f %9.0f%s %12s", (long long)s->step, s->mean_loss,
                 s->learning_rate, s->grad_norm, s->rate, s->seconds / steps, waited, s->memory / (1 << 20), mfu, left);
}
