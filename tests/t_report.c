/* Reports show durations and large numbers in words, plots of any curve, which say what they leave out, and maps of
 * quantization errors, whose cells are the worst of their linears and steps. */
#include "check.h"

#include "base/duration.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/thousands.h"
#include "report/history.h"
#include "monitor/event_log.h"
#include "report/plot.h"
#include "report/quantization_report.h"
#include "monitor/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

static void check_durations(void)
{
    char text[DURATION_BYTES];
    duration_print(text, 59.6);
    CHECK_STRING(text, "0:01:00");
    duration_print(text, 86399);
    CHECK_STRING(text, "23:59:59");
    duration_print(text, 86400 * 12 + 3600 + 120 + 3);
    CHECK_STRING(text, "12-01:02:03");
    duration_print(text, INFINITY);
    CHECK_STRING(text, "-");
}

static void check_thousands(void)
{
    static const struct {
        int64_t value;
        const char *text;
    } cases[] = {{0, "0"},
                 {999, "999"},
                 {1000, "1,000"},
                 {-1000, "-1,000"},
                 {-999999, "-999,999"},
                 {1234567, "1,234,567"},
                 {INT64_MIN, "-9,223,372,036,854,775,808"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = thousands_text(cases[i].value);
        CHECK_STRING(text, cases[i].text);
        free(text);
    }
}

/* What a plot leaves out is said, in the picture and in characters. */
static void check_outside(void)
{
    const double x[] = {1, 2, 3, 4}, y[] = {1234.5, 2, NAN, -7};
    const struct {
        double low, high;
        const char *says;
    } cases[] = {{0, 10, "values up to 1234 lie above, values down to -7 lie below, 1 value is not a number"},
                 {-10, 10, "values up to 1234 lie above, 1 value is not a number"},
                 {0, 0, "1 value is not a number"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int as_text = 0; as_text < 2; as_text++) {
            char *text = NULL;
            size_t bytes = 0;
            FILE *file = open_memstream(&text, &bytes);
            struct plot_series series = {"a", "#000000", PLOT_LINE, x, y, 4};
            struct line_plot plot = {"t", "step", &series, 1, NULL, 0, cases[i].low, cases[i].high, false};
            if (as_text)
                plot_write_text(file, &plot, 20, 5);
            else
                plot_write_svg(file, &plot);
            fclose(file);
            CHECK(strstr(text, cases[i].says) != NULL);
            CHECK(i == 0 || strstr(text, "below") == NULL);
            free(text);
        }
}

/* A plot of nothing, of one point, of one value, of what is not finite: no endless loop over ticks, no fault. */
static void check_plots(void)
{
    const double x[] = {1, 2, 3, 4}, level[] = {5, 5, 5, 5}, wild[] = {NAN, 1e300, -1e300, INFINITY};
    const double near[] = {1, 1 + 1e-16, 1 + 3e-16, 1}, huge[] = {1e308, -1e308, 1e308, 1}, least[] = {0, 5e-324, 0, 0};
    const double *const columns[] = {level, wild, near, huge, least};
    for (int c = 0; c < 5; c++)
        for (int64_t count = 0; count <= 4; count++) {
            char *text = NULL;
            size_t bytes = 0;
            FILE *file = open_memstream(&text, &bytes);
            struct plot_series series = {"<a>", "#000000", PLOT_LINE, x, columns[c], count};
            struct line_plot plot = {"a & b", "step", &series, 1, x, count, 0, 0, false};
            plot_write_svg(file, &plot);
            plot_write_text(file, &plot, 20, 5);
            fclose(file);
            CHECK(strstr(text, "a &amp; b") != NULL && strstr(text, "nan") == NULL && strstr(text, "inf") == NULL);
            CHECK((strstr(text, "&lt;a&gt;") != NULL) == (count > 0));
            free(text);
        }
}

/* -- What quantization loses --------------------------------------------------------------------------------------- */

static struct statistics_row lost(int layer, const char *linear, enum operand_kind operand, double underflow,
                                  double error)
{
    return (struct statistics_row){layer, linear, operand,
                                   .values = {[STATISTICS_UNDERFLOW] = underflow,
                                              [STATISTICS_ERROR] = error,
                                              [STATISTICS_LEAST_SCALE] = NAN,
                                              [STATISTICS_SCALES] = 123456789}};
}

static int occurrences(const char *text, const char *of)
{
    int count = 0;
    for (const char *at = text; (at = strstr(at, of)) != NULL; at++)
        count++;
    return count;
}

/* 200 steps of two layers, 510 the first of those that a column shows, 570 the last: of each layer the worst linear, of
 * some steps the worst one, in the colour of its bounds. */
static void check_statistics(void)
{
    char path[] = "/tmp/cistron-report-XXXXXX", *text = NULL;
    struct event_log event_log;
    struct run_history history;
    size_t bytes = 0;
    CHECK(close(mkstemp(path)) == 0);
    event_log_open(&event_log, path, 0, false);
    for (int64_t step = 10; step <= 2000; step += 10) {
        const struct statistics_row rows[] = {
            lost(0, "qkv", OPERAND_INPUT, 0.5, 0.01), lost(0, "qkv", OPERAND_GRADIENT, 0.001, 0.03),
            lost(0, "o", OPERAND_GRADIENT, 0.004, NAN), lost(2, "up", OPERAND_WEIGHT, 0, 0.2),
            lost(2, "up", OPERAND_GRADIENT, step == 510 || step == 570 ? 0.0625 : 0.03, 0.05)};
        event_log_begin(&event_log, "statistics", step);
        statistics_log(&event_log, rows, 5);
        event_log_end(&event_log);
    }
    event_log_close(&event_log);
    FILE *file = fopen(path, "a");
    fputs("{\"event\":\"statistics\",\"step\":2001,\"operands\":[{\"layer\":0,\"linear\":\"a\",\"operand\":\"input\"},"
          "{\"layer\":2},7,{\"layer\":3,\"linear\":\"\\u001b[2J and "
          "more\",\"operand\":\"gradient\",\"underflow\":0.01}]}\n"
          "{\"event\":\"statistics\",\"step\":2002,\"operands\":5}\n",
          file);
    CHECK(fclose(file) == 0);
    CHECK(history_read(&history, path) == ERROR_NONE);
    if (CHECK(history.layer_count == 2 * 200 + 1 && history.damaged == 0)) {
        const struct history_layer *first = &history.layers[0], *last = &history.layers[400];
        CHECK(first->step == 10 && first->layer == 1 && first->underflow == 0.004 && first->error == 0.03);
        CHECK_STRING(first->linear, "o");
        CHECK(history.layers[1].layer == 3 && history.layers[1].error == 0.2 && history.layers[1].underflow == 0.03);
        CHECK(last->layer == 3 && last->underflow == 0.01 && isnan(last->error) && last->linear[0] == '\\');
        history.layer_count--;
        char *sentence = quantization_report_text(&history);
        CHECK_STRING(sentence,
                     "6.25 % at most, in layer 3, up, at step 510 (severe); at step 2,000 3.00 % in layer 3, up "
                     "(critical)");
        free(sentence);
    }
    file = open_memstream(&text, &bytes);
    quantization_report_write(file, &history);
    fclose(file);
    CHECK(strstr(text, "200 steps were measured") != NULL && strstr(text, "nan") == NULL);
    CHECK(strstr(text, ">10</text>") != NULL);                                     /* the first column */
    CHECK(occurrences(text, "#a6d8b4") == 2 && occurrences(text, "#bb2211") == 3); /* layer 1; two cells; the legend */
    CHECK(occurrences(text, "#ee8a3c") == 4 && occurrences(text, "#ead96b") == 1); /* layer 3 beside them */
    CHECK(occurrences(text, "#0b2d59") == 2 && occurrences(text, "#a9c8e4") == 2); /* errors */
    free(text);
    history_destroy(&history);
    history = (struct run_history){.layers = NULL};
    file = open_memstream(&text, &bytes);
    quantization_report_write(file, &history);
    fclose(file);
    CHECK(bytes == 0 && quantization_report_text(&history) == NULL);
    free(text);
    CHECK(unlink(path) == 0);
}

int main(void)
{
    check_durations();
    check_thousands();
    check_outside();
    check_plots();
    check_statistics();
    return check_end();
}
