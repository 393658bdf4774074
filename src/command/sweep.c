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
    {"output", 'o', "FOLDER", COMMAND_PATH, false, &folder, "of cases and results (LIST's name without its ending)"},
    {"most-ranks", 0, "N", COMMAND_INTEGER, false, &most_ranks, "leave cases of more ranks for later"},
    {"no-transfers", 0, "FILE.so", COMMAND_PATH, false, &no_transfers,
     "bench/gpu/no_transfers.c, compiled: measure what transfers add to a step, in a second training"},
    {"retry", 0, NULL, COMMAND_FLAG, false, &retry, "run again what failed, or was submitted and has not ended"},
    {"show", 0, NULL, COMMAND_FLAG, false, &only_show, "start nothing: write what is known, and name what is to come"},
    {0}};

const struct command command_sweep = {
    .name = "sweep",
    .arguments = "LIST.cfg",
    .summary = "run many short trainings and compare their speed",
    .help =
        "Trains each case of LIST for some steps: decks x ranks x any keys of them, and weak or strong scaling, as\n"
        "doc/sweeps.md says. Each runs here by mpirun, or is submitted to a batch system and collected by a later\n"
        "call of the same command. Cases that have run are not run again. FOLDER/results.h5 and results.csv have\n"
        "speed, step times, MFU, memory and efficiency, planned and measured; weak.svg and strong.svg draw them.",
    .options = options,
    .least = 1,
    .most = 1,
    .run = run,
};
