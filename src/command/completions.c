/* cistron completions */
#include "base/error.h"
#include "command/command.h"
#include "deck/deck.h"

#include <stdio.h>
#include <string.h>

/* Prints a text inside single quotes of a shell. */
static void print_inside_quotes(const char *text)
{
    for (const char *p = text; *p != '\0'; p++)
        if (*p == '\'')
            fputs("'\\''", stdout);
        else
            putchar(*p);
}

static void print_options(const struct command *command)
{
    for (const struct command_option *o = command->options; o != NULL && o->name != NULL; o++)
        printf("--%s ", o->name);
    printf("--help");
}

static void print_bash(void)
{
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
    /* the first argument is a deck: complete files */
    printf("        esac\n    elif [[ $COMP_CWORD -gt 2 && ${COMP_WORDS[1]} == @(train|plan) ]]; then\n"
           "        compopt -o nospace\n        words='");
    deck_print_keys(stdout, "=");
    printf("'\n    fi\n    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n}\ncomplete -F _cistron cistron\n");
}

/* Prints the zsh completion. As the file _cistron in a folder of fpath, it is the body of the function. */
static void print_zsh(void)
{
    printf("#compdef cistron\n"
           "# zsh completion of cistron; to use it: source <(cistron completions zsh), behind compinit\n"
           "_cistron()\n{\n    local -a words_here\n    if (( CURRENT == 2 )); then\n        words_here=(\n");
    for (int i = 0; commands[i] != NULL; i++) {
        printf("            '%s:", commands[i]->name);
        print_inside_quotes(commands[i]->summary);
        printf("'\n");
    }
    printf("            --help --version\n        )\n        _describe command words_here\n"
           "    elif [[ $words[CURRENT] == -* ]]; then\n        case $words[2] in\n");
    for (int i = 0; commands[i] != NULL; i++) {
        printf("        %s) compadd -- ", commands[i]->name);
        print_options(commands[i]);
        printf(" ;;\n");
    }
    printf("        esac\n    elif (( CURRENT > 3 )) && [[ $words[2] == (train|plan) ]]; then\n"
           "        words_here=(\n");
    deck_print_keys(stdout, "=");
    printf("        )\n        compadd -S '' -a words_here || _files\n    else\n        _files\n    fi\n}\n"
           "if [[ $funcstack[1] == _cistron ]]; then\n    _cistron \"$@\"\nelse\n    compdef _cistron cistron\nfi\n");
}

static int run(const struct command_environment *environment, char **arguments, int count)
{
    (void)environment;
    (void)count;
    if (strcmp(arguments[0], "bash") == 0)
        print_bash();
    else if (strcmp(arguments[0], "zsh") == 0)
        print_zsh();
    else
        return error_user("completions %s: must be bash or zsh", arguments[0]);
    return ERROR_NONE;
}

const struct command command_completions = {
    .name = "completions",
    .arguments = "bash|zsh",
    .summary = "print completions for a shell",
    .help = "Prints a script that completes commands, options and keys; `make install` installs it for both shells.\n"
            "For a build that is not installed: source <(cistron completions bash), or zsh.",
    .least = 1,
    .most = 1,
    .run = run,
};
