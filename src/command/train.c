/* cistron train */
#include "base/signals.h"
#include "command/command.h"
#include "train/run.h"

#include <stddef.h>

static struct train_arguments {
    const char *from;
    const char *deck;
    char **overrides;
    int override_count;
    device_make *make_executor;
} given;

static int train(struct comm *world, void *self)
{
    const struct train_arguments *a = self;
    return run_train(world, a->deck, a->from, a->overrides, a->override_count, a->make_executor);
}

static int run(const struct command_environment *environment, char **arguments, int count)
{
    given.make_executor = environment->make_executor;
    int first = given.from == NULL && count > 0 ? 1 : 0;
    given.deck = first > 0 ? arguments[0] : NULL;
    given.overrides = arguments + first;
    given.override_count = count - first;
    if (given.from == NULL && given.deck == NULL)
        return command_mistake(&command_train, "missing: DECK, such as quickstart.cfg, or --from CHECKPOINT");
    signals_catch(); /* before MPI starts, which may take long with many ranks */
    return environment->with_ranks(train, &given);
}

static const struct command_option options[] = {
    {"from", 0, "CHECKPOINT", COMMAND_PATH, false, &given.from,
     "resume from this checkpoint or run folder with its deck, in its folder unless output.folder is set"},
    {0}};

const struct command command_train = {
    .name = "train",
    .arguments = "[DECK] [KEY=VALUE...]",
    .summary = "train the model of a deck",
    .help = "Trains the model that the input deck DECK describes; KEY=VALUE overrides single keys. Run it under\n"
            "mpirun or srun for several ranks. It writes checkpoints, the log (log.jsonl) and the effective deck to\n"
            "output.folder, and resumes from the newest checkpoint there (train.resume).\n\n"
            "It stops after a checkpoint, with exit code 85, on SIGUSR1, SIGTERM, SIGINT or SIGHUP, when a file named\n"
            "stop appears in output.folder, and before train.walltime is over. SIGUSR2, a file named checkpoint and\n"
            "time (checkpoint.every_minutes) make it write a checkpoint and continue.\n\n"
            "Exit codes: 0 finished, 1 the environment failed, 2 a mistake that you can fix, 3 the run diverged, 85\n"
            "stopped early after a checkpoint: start it again to resume.",
    .options = options,
    .least = 0,
    .most = -1,
    .run = run,
};
