/* cistron report */
#include "train/report.h"
#include "base/disk.h"
#include "base/error.h"
#include "command/command.h"
#include "train/comparison.h"

#include <math.h>
#include <stddef.h>

static const char *out;
static double target = NAN, tokens;
static int64_t warm_up = 10;

static int run(const struct environment *environment, char **arguments, int count)
{
    (void)environment;
    int code = out != NULL ? disk_check_output(out, (const char *const *)arguments, count) : ERROR_NONE;
    for (int i = 0; i < count && out != NULL && code == ERROR_NONE; i++)
        code = disk_check_outside(out, arguments[i], ".html");
    if (code != ERROR_NONE)
        return code;
    if (warm_up < 0)
        return error_user("--warm-up %lld: must be 0 or above", (long long)warm_up);
    if (!(tokens >= 0) || isinf(tokens))
        return error_user("--tokens %g: must be a finite number, 0 or above", tokens);
    const bool compares = count > 1 || !isnan(target) || tokens > 0;
    return compares ? comparison_run(arguments, count, &(struct comparison_settings){out, target, tokens, warm_up})
                    : report_run(arguments[0], out);
}

static const struct command_option options[] = {
    {"output", 'o', "FILE", COMMAND_PATH, false, &out,
     "where the page goes (report.html in RUN_FOLDER; of several comparison.html here)"},
    {"target", 0, "LOSS", COMMAND_REAL, false, &target, "of several: tell the time to this validation loss"},
    {"tokens", 0, "N", COMMAND_REAL, false, &tokens, "of several: tell the days that so many tokens take"},
    {"warm-up", 0, "N", COMMAND_INTEGER, false, &warm_up, "of several: steps of a start that speeds leave out (10)"},
    {0}};

const struct command command_report = {
    .name = "report",
    .arguments = "RUN_FOLDER...",
    .summary = "show how a run went: curves, speed, timers; compare runs",
    .help = "Writes a page (HTML, without scripts or other files) on the run in RUN_FOLDER, the output.folder of its\n"
            "deck, and prints the same facts as text. The run may still be going on.\n\n"
            "Of several runs, or log.jsonl of some, one page has the results in a column each, the loss curves over\n"
            "each other, and the keys of their decks that differ.",
    .options = options,
    .least = 1,
    .most = -1,
    .run = run,
};
