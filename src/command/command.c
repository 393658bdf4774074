#include "command/command.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/path.h"
#include "comm/launcher.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct command *const commands[] = {&command_train,
                                          &command_plan,
                                          &command_measure,
                                          &command_sweep,
                                          &command_report,
                                          &command_prepare,
                                          &command_baseline,
                                          &command_eval,
                                          &command_embed,
                                          &command_generate,
                                          &command_import,
                                          &command_export,
                                          &command_inspect,
                                          &command_deck,
                                          &command_jobscripts,
                                          &command_completions,
                                          NULL};

/* -- Help -------------------------------------------------------------------------------------------------------- */

static int option_count(const struct command *command)
{
    int count = 0;
    while (command->options != NULL && command->options[count].name != NULL)
        count++;
    return count;
}

/* "-o, --output FILE", or "[--seed N]" with brackets and one form. */
static char *option_form(const struct command_option *option, bool brief)
{
    const char *gap = option->argument != NULL ? " " : "", *argument = option->argument ? option->argument : "";
    if (!brief)
        return option->letter ? memory_format("-%c, --%s%s%s", option->letter, option->name, gap, argument)
                              : memory_format("    --%s%s%s", option->name, gap, argument);
    char *form = option->letter ? memory_format("-%c%s%s", option->letter, gap, argument)
                                : memory_format("--%s%s%s", option->name, gap, argument);
    char *brackets = option->required ? memory_string(form) : memory_format("[%s]", form);
    free(form);
    return brackets;
}

char *command_usage(const struct command *command)
{
    char *usage = memory_string("");
    for (int i = 0; i <= option_count(command); i++) {
        char *form =
            i < option_count(command) ? option_form(&command->options[i], true) : memory_string(command->arguments);
        char *longer = form[0] == '\0' ? memory_string(usage) : memory_format("%s %s", usage, form);
        free(form);
        free(usage);
        usage = longer;
    }
    return usage;
}

static void print_help(const struct command *command)
{
    char *usage = command_usage(command);
    printf("usage: cistron %s%s\n\n%s\n", command->name, usage, command->help);
    free(usage);
    if (option_count(command) > 0)
        printf("\n");
    for (int i = 0; i < option_count(command); i++) {
        char *form = option_form(&command->options[i], false);
        printf("  %-26s %s\n", form, command->options[i].help);
        free(form);
    }
}

static void print_usage(FILE *file)
{
    fprintf(file, "usage: cistron COMMAND [ARGUMENTS]   (cistron COMMAND --help for each)\n\n");
    for (int i = 0; commands[i] != NULL; i++)
        fprintf(file, "  %-12s %s\n", commands[i]->name, commands[i]->summary);
    fprintf(file, "\n  --help, --version\n");
}

/* -- Parsing ----------------------------------------------------------------------------------------------------- */

static int usage_error(const struct command *command, const char *what)
{
    char *usage = command_usage(command);
    int code = error_user("%s: %s\nusage: cistron %s%s", command->name, what, command->name, usage);
    free(usage);
    return code;
}

static int set_value(const struct command_option *option, const char *text)
{
    char *rest = "";
    errno = 0;
    if (option->kind == COMMAND_FLAG)
        *(bool *)option->value = true;
    else if (option->kind == COMMAND_TEXT)
        *(const char **)option->value = text;
    else if (option->kind == COMMAND_PATH)
        *(const char **)option->value = path_home(text); /* for as long as the program runs */
    else if (option->kind == COMMAND_INTEGER)
        *(int64_t *)option->value = strtoll(text, &rest, 10);
    else
        *(double *)option->value = strtod(text, &rest);
    if ((option->kind == COMMAND_PATH || (option->kind == COMMAND_TEXT && option->required)) && text[0] == '\0')
        return error_user("--%s: its value is empty; an unset variable in the command line?", option->name);
    if (*rest != '\0' || errno != 0 || (rest == text && option->kind >= COMMAND_INTEGER))
        return error_user("--%s %s: must be a %s", option->name, text,
                          option->kind == COMMAND_INTEGER ? "whole number" : "number");
    return ERROR_NONE;
}

/* Is all there that must be, and no more? given: of the options. */
static int check_complete(const struct command *command, const bool *given, int count, char **arguments)
{
    char *what = NULL;
    for (int i = 0; i < option_count(command) && what == NULL; i++)
        if (command->options[i].required && !given[i])
            what = memory_format("--%s is missing", command->options[i].name);
    if (what == NULL && count < command->least)
        what = memory_string("arguments are missing");
    if (what == NULL && command->most >= 0 && count > command->most)
        what = memory_format("\"%s\": one argument too many", arguments[command->most]);
    for (int a = 0; a < count && what == NULL; a++)
        if (arguments[a][0] == '\0')
            what = memory_string("an argument is empty; an unset variable in the command line?");
    int code = what != NULL ? usage_error(command, what) : ERROR_NONE;
    free(what);
    return code;
}

/* Fills the options' values; the other arguments end up from argv[optind] on. *help: that is asked for, and nothing
 * else counts. */
static int parse(const struct command *command, int argc, char **argv, bool *help)
{
    enum { FIRST = 256 /* behind all letters */ };
    int count = option_count(command), chosen, code = ERROR_NONE;
    struct option *table = memory_allocate((count + 2) * (int64_t)sizeof *table);
    bool *given = memory_allocate(count + 1);
    char letters[2 * 64 + 2] = ":"; /* says nothing itself */
    for (int i = 0; i < count; i++) {
        const struct command_option *option = &command->options[i];
        table[i] = (struct option){option->name, option->argument ? required_argument : no_argument, NULL, FIRST + i};
        if (option->letter)
            snprintf(letters + strlen(letters), sizeof letters - strlen(letters), "%c%s", option->letter,
                     option->argument ? ":" : "");
    }
    table[count] = (struct option){"help", no_argument, NULL, FIRST + count};
    optind = 1;
    opterr = 0;
    *help = false;
    while (code == ERROR_NONE && !*help && (chosen = getopt_long(argc, argv, letters, table, NULL)) != -1) {
        int i = chosen - FIRST;
        for (int k = 0; k < count; k++)
            if (chosen < FIRST && command->options[k].letter == chosen)
                i = k;
        if (chosen == '?' || chosen == ':') {
            char *what = memory_format("%s: %s", argv[optind - 1],
                                       chosen == ':' ? "needs a value" : "is no option of this command");
            code = usage_error(command, what);
            free(what);
        } else if (i == count) {
            *help = true;
        } else {
            given[i] = true;
            code = set_value(&command->options[i], optarg);
        }
    }
    if (code == ERROR_NONE && !*help)
        code = check_complete(command, given, argc - optind, argv + optind);
    memory_free(table);
    memory_free(given);
    return code;
}

/* -- Running ----------------------------------------------------------------------------------------------------- */

/* What was printed must have arrived. */
static int end(int code)
{
    if ((fflush(stdout) != 0 || ferror(stdout)) && code == ERROR_NONE)
        code = error_environment("standard output could not be written in full; look for space where it goes");
    if (code != ERROR_NONE && error_message()[0] != '\0')
        error_tell();
    return code;
}

static int run_command(const struct command *command, const struct environment *environment, int argc, char **argv)
{
    bool help;
    int code = parse(command, argc, argv, &help);
    if (code != ERROR_NONE && launcher_rank() != 0)
        error_clear(); /* place 0 says it */
    if (help)
        print_help(command);
    else if (code == ERROR_NONE)
        code = command->run(environment, argv + optind, argc - optind);
    return end(code);
}

int command_main(const struct environment *environment, int argc, char **argv)
{
    if (argc < 2) {
        if (launcher_rank() == 0)
            print_usage(stderr);
        return ERROR_USER;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_usage(stdout);
        return end(ERROR_NONE);
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        printf("cistron %s (%s)\n", PACKAGE_VERSION, environment->features());
        return end(ERROR_NONE);
    }
    for (int i = 0; commands[i] != NULL; i++)
        if (strcmp(argv[1], commands[i]->name) == 0)
            return run_command(commands[i], environment, argc - 1, argv + 1);
    if (launcher_rank() == 0) {
        log_print(stderr, "cistron: unknown command \"%s\"\n", argv[1]);
        print_usage(stderr);
    }
    return ERROR_USER;
}
