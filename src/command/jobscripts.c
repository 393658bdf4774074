/* cistron jobscripts */
#include "base/error.h"
#include "file/shipped.h"
#include "command/command.h"

#include <stdio.h>
#include <stdlib.h>

static int run(const struct command_environment *environment, char **arguments, int count)
{
    (void)environment;
    (void)arguments;
    (void)count;
    char *folder = shipped_folder("jobscripts");
    puts(folder);
    free(folder);
    return ERROR_NONE;
}

const struct command command_jobscripts = {
    .name = "jobscripts",
    .arguments = "",
    .summary = "print the folder of the job scripts",
    .help = "Prints where the job scripts of this program lie. They ask for it themselves, since Slurm runs a copy of\n"
            "a script elsewhere; so one that was copied and changed finds what it shares with the others:\n\n"
            "  cp $(cistron jobscripts)/train.slurm my_run.slurm",
    .options = NULL,
    .least = 0,
    .most = 0,
    .run = run,
};
