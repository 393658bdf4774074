#include "sweep/sweep_page.h"
#include "base/error.h"
#include "base/memory.h"
#include "file/atomic_file.h"
#include "report/page.h"
#include "report/plot.h"
#include "sweep/losses.h"
#include "sweep/scaling.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void write_number(FILE *file, int digits, double value, bool marked)
{
    fputs("<td class=\"number\">", file);
    if (isfinite(value))
        fprintf(file, marked ? "<b>%.*f</b>" : "%.*f", digits, value);
    fputs("</td>", file);
}

static void write_text(FILE *file, const char *text)
{
    fputs("<td>", file);
    plot_write_escaped(file, text);
    fputs("</td>", file);
}

static void write_case(FILE *file, const struct run_outcome *o, double least_loss, double most_rate)
{
    const double GIB = 1 << 30;
    char *label = outcome_label(o);
    const bool done = strcmp(o->state, "done") == 0;
    char *state =
        done ? memory_string("") : memory_format("%s%s%s", o->state, o->message[0] != '\0' ? ": " : "", o->message);
    fputs("<tr>", file);
    write_text(file, label);
    write_number(file, 0, (double)o->ranks, false);
    write_number(file, 4, o->loss, !isfinite(o->validation_loss) && o->loss == least_loss);
    write_number(file, 4, o->validation_loss, o->validation_loss == least_loss);
    write_number(file, 0, o->rate, o->rate == most_rate);
    write_number(file, 4, o->step_median, false);
    write_number(file, 1, 100 * o->efficiency, false);
    write_number(file, 1, 100 * o->utilisation[FLOPS_CAUSAL], false);
    write_number(file, 2, (isfinite(o->device_memory) ? o->device_memory : o->resident) / GIB, false);
    write_text(file, o->name);
    write_text(file, state);
    fputs("</tr>\n", file);
    free(label);
    free(state);
}

static void write_cases(FILE *file, const struct run_outcome *outcomes, int count)
{
    static const char *const numbers[] = {"ranks",    "loss, nats",    "validation, nats", "tokens/s",
                                          "s a step", "efficiency, %", "MFU, %",           "GiB used"};
    double least_loss = INFINITY, most_rate = 0;
    for (int i = 0; i < count; i++) {
        least_loss = fmin(least_loss, outcome_loss(&outcomes[i]));
        most_rate = fmax(most_rate, outcomes[i].rate);
    }
    fputs("<div class=\"wide\">\n<table>\n<tr><th>case</th>", file);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        fprintf(file, "<th class=\"number\">%s</th>", numbers[i]);
    fputs("<th>folder</th><th></th></tr>\n", file);
    for (int i = 0; i < count; i++)
        write_case(file, &outcomes[i], least_loss, most_rate);
    fputs("</table>\n</div>\n", file);
}

int sweep_page_save(const char *folder, const struct table_heading *heading, const struct run_outcome *outcomes,
                    int count)
{
    char *path = memory_format("%s/report.html", folder), *title = memory_format("sweep %s", heading->list);
    struct atomic_file atomic;
    int code = atomic_file_open(&atomic, path);
    if (code == ERROR_NONE) {
        page_begin(atomic.file, title);
        fputs("<p>Bold: the lowest loss and the highest speed. Build ", atomic.file);
        plot_write_escaped(atomic.file, heading->build);
        if (heading->device[0] != '\0') {
            fputs(", on ", atomic.file);
            plot_write_escaped(atomic.file, heading->device);
        }
        fputs(".</p>\n", atomic.file);
        losses_write(atomic.file, outcomes, count);
        scaling_write(atomic.file, outcomes, count);
        write_cases(atomic.file, outcomes, count);
        page_end(atomic.file);
        code = atomic_file_close(&atomic, code);
    }
    free(title);
    free(path);
    return code;
}
