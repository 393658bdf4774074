/* cistron inspect */
#include "io/inspect.h"
#include "command/command.h"

static int run(const struct environment *environment, char **arguments, int count)
{
    (void)environment;
    (void)count;
    return inspect_run(arguments[0]);
}

const struct command command_inspect = {
    .name = "inspect",
    .arguments = "FILE",
    .summary = "say what is in a token store or checkpoint",
    .help = "Says what a token store or a checkpoint holds. A run folder means its newest checkpoint.",
    .least = 1,
    .most = 1,
    .run = run,
};
