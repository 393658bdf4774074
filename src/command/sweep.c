/* cistron sweep */
#include "sweep/sweep.h"
#include "base/error.h"
#include "command/command.h"

#include <stddef.h>

static const char *folder, *no_transfers;
static int64_t most_ranks;
static bool retry, only_show;

static int run(const struct command_environment *environment, char **arguments, int count)
{
    (void)environment;
    (void)count;
    if (most_ranks < 0)
        return error_user("--most-ranks %lld: must be 0 (all cases) or positive", (long long)most_ranks);
    return sweep_run(&(struct sweep_settings){arguments[0], folder, no_transfers, most_ranks, retry, only_show});
}

static const struct command_option options[] = {
    {"output", 'o', "FOLDER", COMMAND_PATH, false, &folder,
     "folder of cases and results (LIST's name without its ending)"},
    {"most-ranks", 0, "N", COMMAND_INTEGER, false, &most_ranks,
     "run only cases of at most this number of ranks (0: all)"},
    {"no-transfers", 0, "FILE.so", COMMAND_PATH, false, &no_transfers,
     "bench/gpu/no_transfers.c, compiled: measure the time that transfers add to a step, in a second run"},
    {"retry", 0, NULL, COMMAND_FLAG, false, &retry, "run failed cases again, and submitted ones that have not ended"},
    {"show", 0, NULL, COMMAND_FLAG, false, &only_show,
     "start nothing: write the known results, and list the remaining cases"},
    {0}};

const struct command command_sweep = {
    .name = "sweep",
    .arguments = "LIST.cfg",
    .summary = "run many short trainings and compare their speed and losses",
    .help = "Trains each case of LIST for some steps: decks x ranks x any keys, and weak or strong scaling, as\n"
            "described in doc/sweeps.md. A case runs here under mpirun, or is submitted to a batch system and\n"
            "collected by a later call of the same command. Finished cases are not run again. FOLDER/results.h5 and\n"
            "results.csv contain speed, step times, MFU, memory and efficiency, planned and measured, and losses;\n"
            "loss.svg, weak.svg and strong.svg plot them, report.html has all.",
    .options = options,
    .least = 1,
    .most = 1,
    .run = run,
};
