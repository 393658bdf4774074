/* cistron inspect */
#include "checkpoint/inspect.h"
#include "command/command.h"

#include <stdbool.h>

static bool json, verify;

static int run(const struct command_environment *environment, char **arguments, int count)
{
    (void)environment;
    (void)count;
    return inspect_run(arguments[0], json, verify);
}

static const struct command_option options[] = {
    {"json", 0, NULL, COMMAND_FLAG, false, &json, "print one JSON object with the same keys"},
    {"verify", 0, NULL, COMMAND_FLAG, false, &verify, "read a whole token store and compare it with its checksum"},
    {0}};

const struct command command_inspect = {
    .name = "inspect",
    .arguments = "FILE",
    .summary = "describe a token store, a Megatron data set, a checkpoint, embeddings or scores",
    .help = "Describes a token store, a Megatron data set (given by its prefix), a checkpoint or a file of\n"
            "embeddings or scores. A run folder stands for its newest checkpoint.",
    .options = options,
    .least = 1,
    .most = 1,
    .run = run,
};
