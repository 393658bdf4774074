/* cistron report */
#include "report/report.h"
#include "file/disk.h"
#include "file/run_folder.h"
#include "base/error.h"
#include "base/memory.h"
#include "command/command.h"
#include "report/comparison.h"
#include "report/page.h"

#include <math.h>
#include <stdlib.h>

static const char *out;
static bool replace;
static double target = NAN, tokens;
static int64_t warm_up = 10;

/* Checks the path of the page. A page in the run's own folder may be overwritten by each call. */
static int check_page(const char *page, bool own, char **arguments, int count)
{
    const int how = DISK_STREAM | (replace || (own && page_is_own(page)) ? DISK_REPLACE : 0);
    int code = ERROR_NONE;
    for (int i = 0; i < count && code == ERROR_NONE; i++)
        code = disk_check_outside(page, arguments[i], ".html");
    return code == ERROR_NONE ? disk_check_output(page, how, (const char *const *)arguments, count) : code;
}

static int run(const struct command_environment *environment, char **arguments, int count)
{
    (void)environment;
    const bool compares = count > 1 || !isnan(target) || tokens > 0;
    if (warm_up < 0)
        return error_user("--warm-up %lld: must be 0 or above", (long long)warm_up);
    if (!(tokens >= 0) || isinf(tokens))
        return error_user("--tokens %g: must be a finite number, 0 or above", tokens);
    char *page = out != NULL ? memory_string(out)
                 : compares  ? memory_string("comparison.html")
                             : memory_format("%s/" RUN_REPORT, arguments[0]);
    int code = check_page(page, out == NULL && !compares, arguments, count);
    if (code == ERROR_NONE)
        code = compares ? comparison_run(arguments, count, &(struct comparison_settings){page, target, tokens, warm_up})
                        : report_run(arguments[0], page);
    free(page);
    return code;
}

static const struct command_option options[] = {
    {"output", 'o', "FILE", COMMAND_PATH, false, &out,
     "output file of the page (report.html in RUN_FOLDER; for several runs comparison.html here)"},
    COMMAND_FORCE(&replace),
    {"target", 0, "LOSS", COMMAND_REAL, false, &target, "several runs: report the time to this validation loss"},
    {"tokens", 0, "N", COMMAND_REAL, false, &tokens, "several runs: report the days that this number of tokens takes"},
    {"warm-up", 0, "N", COMMAND_INTEGER, false, &warm_up,
     "several runs: first steps of a program that speeds exclude (10)"},
    {0}};

const struct command command_report = {
    .name = "report",
    .arguments = "RUN_FOLDER...",
    .summary = "report on a run: curves, speed, timers; compare runs",
    .help = "Writes a page (HTML, without scripts or other files) on the run in RUN_FOLDER, the output.folder of its\n"
            "deck, and prints the same facts as text. The run may still be running.\n\n"
            "For several runs (folders or their log.jsonl) one page has a column of results per run, their loss\n"
            "curves in one plot, and the keys in which their decks differ.",
    .options = options,
    .least = 1,
    .most = -1,
    .run = run,
};
