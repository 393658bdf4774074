/* cistron report */
#include "train/report.h"
#include "base/disk.h"
#include "base/error.h"
#include "command/command.h"

#include <stddef.h>

static const char *out;

static int run(const struct environment *environment, char **arguments, int count)
{
    (void)environment;
    (void)count;
    int code = out != NULL ? disk_check_outside(out, arguments[0], ".html") : ERROR_NONE;
    return code == ERROR_NONE ? report_run(arguments[0], out) : code;
}

static const struct command_option options[] = {
    {"output", 'o', "FILE", COMMAND_PATH, false, &out, "where the page goes (report.html in RUN_FOLDER)"}, {0}};

const struct command command_report = {
    .name = "report",
    .arguments = "RUN_FOLDER",
    .summary = "show how a run went: curves, speed, timers",
    .help = "Writes a page (HTML, without scripts or other files) on the run in RUN_FOLDER, the output.folder of its\n"
            "deck, and prints the same facts as text. The run may still be going on.",
    .options = options,
    .least = 1,
    .most = 1,
    .run = run,
};
