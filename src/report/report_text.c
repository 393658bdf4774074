/* A report as text. */
#include "base/log.h"
#include "base/text.h"
#include "base/thousands.h"
#include "report/report_private.h"

#include <math.h>
#include <stdlib.h>

enum { TEXT_WIDTH = 72, TEXT_HEIGHT = 17 };

static void print_last_steps(const struct run_history *h)
{
    if (h->last_count > 0)
        printf("\nthe last steps before it diverged:\n%10s %10s %10s %10s\n", "step", "loss", "rate", "norm");
    for (int64_t i = 0; i < h->last_count; i++)
        printf("%10lld %10.6f %10.4g %10.4g\n", (long long)h->last_steps[i].step, h->last_steps[i].numbers.loss,
               h->last_steps[i].numbers.learning_rate, h->last_steps[i].numbers.grad_norm);
}

static void print_account(const struct time_account *account)
{
    const double whole = report_wall_clock(account);
    if (!isfinite(whole))
        return;
    printf("\nwhere the time went since the first start:\n%-24s %12s %8s\n", "", "seconds", "percent");
    for (int k = 0; k < TIME_KINDS; k++) {
        const double seconds = time_account_seconds(account, (enum time_kind)k, account->until);
        printf("%-24s %12.1f %8.1f\n", time_kind_name((enum time_kind)k), seconds, 100 * seconds / whole);
    }
}

void report_print_text(const struct run_report *report)
{
    const struct run_history *h = &report->history;
    for (int i = 0; i < report->fact_count; i++)
        log_print(stdout, "%-18s %s\n", report->facts[i].name, report->facts[i].value);
    for (int64_t i = 0; i < h->note_count; i++) {
        char *date = report_date_text(h->notes[i].time), *step = thousands_text(h->notes[i].step);
        log_print(stdout, "%-18s %s, step %s: %s\n", i == 0 ? "what happened" : "", date, step, h->notes[i].text);
        free(step);
        free(date);
    }
    print_last_steps(h);
    if (h->row_count > 0) {
        struct plot_series series[CURVES_LOSSES];
        struct line_plot loss = curves_loss_plot(&report->curves, series);
        putchar('\n');
        plot_write_text(stdout, &loss, TEXT_WIDTH, TEXT_HEIGHT);
    }
    print_account(&h->account);
    if (h->timer_count > 0)
        printf("\nwhere the time went since the last start:\n");
    timers_print(h->timers, h->timer_count, "");
    printf("\nsettings that are not the default:\n");
    text_print(stdout, report->settings);
}
