/* cistron completions */
#include "base/error.h"
#include "command/command.h"
#include "deck/deck.h"

#include <stdio.h>
#include <string.h>

static void print_options(const struct command *command)
{
    for (const struct command_option *o = command->options; o != NULL && o->name != NULL; o++)
        printf(" --%s", o->name);
    printf(" --help");
}

static int run(const struct environment *environment, char **arguments, int count)
{
    (void)environment;
    (void)count;
    if (strcmp(arguments[0], "bash") != 0)
        return error_user("completions: \"%s\": there are some for bash alone", arguments[0]);
    printf("# bash completion of cistron; to use it: source <(cistron completions bash)\n"
           "_cistron()\n{\n    local word=${COMP_WORDS[COMP_CWORD]} words=\n    compopt -o default\n"
           "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        words='");
    for (int i = 0; commands[i] != NULL; i++)
        printf("%s ", commands[i]->name);
    printf("--help --version'\n    elif [[ $word == -* ]]; then\n        case ${COMP_WORDS[1]} in\n");
    for (int i = 0; commands[i] != NULL; i++) {
        printf("        %s) words='", commands[i]->name);
        print_options(commands[i]);
        printf("' ;;\n");
    }
    /* the first argument is a deck, so a file */
    printf("        esac\n    elif [[ $COMP_CWORD -gt 2 && ${COMP_WORDS[1]} == @(train|plan) ]]; then\n"
           "        compopt -o nospace\n        words='");
    deck_print_keys(stdout, "=");
    printf("'\n    fi\n    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n}\ncomplete -F _cistron cistron\n");
    return ERROR_NONE;
}

const struct command command_completions = {
    .name = "completions",
    .arguments = "bash",
    .summary = "print a shell's completions",
    .help = "Prints a bash script that completes commands, options and keys: source <(cistron completions bash)",
    .least = 1,
    .most = 1,
    .run = run,
};
