#include "monitor/run_table.h"
#include "base/duration.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/terminal.h"

#include <stdio.h>
#include <stdlib.h>

enum { HEADER_EVERY = 20, WIDE_COLUMNS = 96 /* columns of the table for files and wide terminals */ };

enum line { LINE_TITLES, LINE_UNITS, LINE_VALUES };

static void put_value(FILE *file, const struct metric_column *column, double value)
{
    char text[DURATION_BYTES];
    if (column->format == NULL)
        duration_print(text, value);
    else
        snprintf(text, sizeof text, column->format, column->factor * value);
    fprintf(file, "%*s", column->width, text);
}

/* Prints a row or a line of the header, whose "#" replaces the first character of its first column. */
static void print_line(const struct run_table *table, enum line line, const struct run_numbers *numbers)
{
    char *text;
    size_t bytes;
    bool first = true;
    FILE *file = memory_stream(&text, &bytes);
    for (const struct run_metric *metric = run_metrics; metric < run_metrics + RUN_METRICS; metric++) {
        const struct metric_column *column = table->narrow ? &metric->narrow : &metric->wide;
        if (column->width == 0 || !run_metric_shows(metric, numbers))
            continue;
        if (!first || line != LINE_VALUES)
            fputc(first ? '#' : ' ', file);
        if (line == LINE_VALUES)
            put_value(file, column, run_metric_of(metric, numbers));
        else
            fprintf(file, "%*s", column->width - first, line == LINE_TITLES ? column->title : column->unit);
        first = false;
    }
    memory_stream_end(file);
    log_info("%s", text);
    free(text);
}

void run_table_print(struct run_table *table, const struct run_numbers *numbers)
{
    if (table->rows++ % HEADER_EVERY == 0) {
        const int columns = terminal_columns();
        table->narrow = columns > 0 && columns < WIDE_COLUMNS;
        print_line(table, LINE_TITLES, numbers);
        print_line(table, LINE_UNITS, numbers);
    }
    print_line(table, LINE_VALUES, numbers);
}
