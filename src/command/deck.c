/* cistron deck */
#include "deck/deck.h"
#include "base/error.h"
#include "base/memory.h"
#include "command/command.h"

#include <stdlib.h>

static bool markdown;

/* Prints a deck with all its keys, as a run of it writes them to output.folder. */
static int print_effective(const char *path, char *const overrides[], int count)
{
    struct deck *deck = deck_create();
    const int code = deck_read(deck, path, overrides, count, NULL);
    if (code == ERROR_NONE) {
        char *text = deck_print_effective(deck);
        fputs(text, stdout);
        free(text);
    }
    memory_free(deck);
    return code;
}

static int run(const struct command_environment *environment, char **arguments, int count)
{
    (void)environment;
    if (count > 0 && markdown)
        return command_mistake(&command_deck, "--markdown: does not print the deck of a file");
    if (count > 0)
        return print_effective(arguments[0], arguments + 1, count - 1);
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
    .arguments = "[DECK [KEY=VALUE...]]",
    .summary = "print the commented reference deck, or all keys of a deck",
    .help = "Prints every key of a deck at its default with its meaning. The output is itself a valid deck.\n\n"
            "With DECK, prints all keys of that deck: with its includes, KEY=VALUE, and defaults for the rest.",
    .options = options,
    .least = 0,
    .most = -1,
    .run = run,
};
