/* cistron deck */
#include "deck/deck.h"
#include "base/error.h"
#include "command/command.h"

static bool markdown;

static int run(const struct command_environment *environment, char **arguments, int count)
{
    (void)environment;
    (void)arguments;
    (void)count;
    if (markdown)
        deck_print_markdown(stdout);
    else
        deck_print_reference(stdout);
    return ERROR_NONE;
}

static const struct command_option options[] = {
    {"markdown", 0, NULL, COMMAND_FLAG, false, &markdown, "print doc/deck.md (Markdown)"}, {0}};

const struct command command_deck = {
    .name = "deck",
    .arguments = "",
    .summary = "print the commented reference deck",
    .help = "Prints every key of a deck at its default with its meaning. The output is itself a valid deck.",
    .options = options,
    .least = 0,
    .most = 0,
    .run = run,
};
