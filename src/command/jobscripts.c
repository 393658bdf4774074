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
    .help = "Prints the folder of this program's job scripts. A job script calls this command to find the files that\n"
            "it shares with the others, because Slurm runs a copy of it from another folder; a changed copy finds\n"
            "them too:\n\n"
            "  cp $(cistron jobscripts)/train.slurm my_run.slurm",
    .options = NULL,
    .least = 0,
    .most = 0,
    .run = run,
};
