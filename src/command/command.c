#include "command/command.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/nearest.h"
#include "file/path.h"
#include "comm/launcher.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct command *const commands[] = {
    &command_train,    &command_plan,    &command_measure, &command_sweep,      &command_report,      &command_prepare,
    &command_baseline, &command_eval,    &command_score,   &command_embed,      &command_generate,    &command_import,
    &command_export,   &command_inspect, &command_deck,    &command_jobscripts, &command_completions, NULL};

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

/* A line that is being printed. at: its columns so far; indent: blanks at the beginning of later lines. */
struct help_line {
    int at, indent;
};

/* Prints a word, on a new line if this one would exceed WIDTH columns. */
static void put_word(struct help_line *line, const char *word, int length)
{
    enum { WIDTH = 100 };
    if (line->at > line->indent && line->at + 1 + length > WIDTH) {
        printf("\n%*s", line->indent, "");
        line->at = line->indent;
    }
    line->at += printf("%s%.*s", line->at > line->indent ? " " : "", length, word);
}

static void put_words(struct help_line *line, const char *text, const char *end)
{
    for (int length; text < end; text += length + 1) {
        length = (int)strcspn(text, " \n");
        if (length > 0)
            put_word(line, text, length);
    }
}

/* Prints the form of a command: options, then arguments. */
static void print_form(const struct command *command)
{
    const int indent = printf("usage: cistron %s ", command->name);
    struct help_line line = {indent, indent};
    for (int i = 0; i < option_count(command); i++) {
        char *form = option_form(&command->options[i], true);
        put_word(&line, form, (int)strlen(form));
        free(form);
    }
    put_words(&line, command->arguments, command->arguments + strlen(command->arguments));
    printf("\n");
}

/* Prints paragraphs, separated by empty lines. */
static void print_text(const char *text)
{
    while (*text != '\0') {
        const char *gap = strstr(text, "\n\n"), *end = gap != NULL ? gap : text + strlen(text);
        struct help_line line = {0};
        printf("\n");
        put_words(&line, text, end);
        printf("\n");
        text = gap != NULL ? gap + 2 : end;
    }
}

static void print_help(const struct command *command)
{
    enum { FORM = 26 };
    print_form(command);
    print_text(command->help);
    if (option_count(command) > 0)
        printf("\n");
    for (int i = 0; i < option_count(command); i++) {
        const char *help = command->options[i].help;
        char *form = option_form(&command->options[i], false);
        struct help_line line = {2 + FORM + 1, 2 + FORM + 1};
        printf("  %-*s ", FORM, form);
        if (strlen(form) > FORM)
            printf("\n%*s", line.indent, "");
        put_words(&line, help, help + strlen(help));
        printf("\n");
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

int command_mistake(const struct command *command, const char *what)
{
    int code = error_user("%s: %s; see cistron %s --help", command->name, what, command->name);
    if (launcher_rank() != 0)
        error_clear(); /* rank 0 prints it */
    return code;
}

int command_choose_input(const struct command *command, const char *fasta, const char *input, const char **chosen)
{
    if (fasta != NULL && input != NULL)
        return command_mistake(command, "--fasta and --input: give only one of them");
    *chosen = fasta != NULL ? fasta : input;
    return *chosen != NULL ? ERROR_NONE : command_mistake(command, "missing: --fasta FILE or --input FILE");
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
        *(const char **)option->value = path_home(text); /* stays allocated until the program ends */
    else if (option->kind == COMMAND_INTEGER)
        *(int64_t *)option->value = strtoll(text, &rest, 10);
    else
        *(double *)option->value = strtod(text, &rest);
    if ((option->kind == COMMAND_PATH || (option->kind == COMMAND_TEXT && option->required)) && text[0] == '\0')
        return error_user("--%s: the value is empty; is a variable in the command line unset?", option->name);
    if (*rest != '\0' || errno != 0 || (rest == text && option->kind >= COMMAND_INTEGER))
        return error_user("--%s %s: must be a %s", option->name, text,
                          option->kind == COMMAND_INTEGER ? "whole number" : "number");
    return ERROR_NONE;
}

/* Returns the missing required options and arguments in the form of the usage; NULL: none. given: [options]. */
static char *missing(const struct command *command, const bool *given, int count)
{
    char *all = memory_string("missing:");
    for (int i = 0; i <= option_count(command); i++) {
        const bool option = i < option_count(command);
        if (option ? !command->options[i].required || given[i] : count >= command->least)
            continue;
        const char *more = strstr(command->arguments, " ["); /* optional arguments */
        char *form = option ? option_form(&command->options[i], true)
                            : memory_format("%.*s", more != NULL ? (int)(more - command->arguments) : INT_MAX,
                                            command->arguments);
        char *longer = memory_format("%s%s %s", all, strchr(all, ' ') != NULL ? "," : "", form);
        free(form);
        free(all);
        all = longer;
    }
    if (strchr(all, ' ') != NULL)
        return all;
    free(all);
    return NULL;
}

/* Checks that all required options and arguments are given, and not too many. */
static int check_complete(const struct command *command, const bool *given, int count, char **arguments)
{
    char *what = missing(command, given, count);
    if (what == NULL && command->most >= 0 && count > command->most)
        what = memory_format("\"%s\": one argument too many", arguments[command->most]);
    for (int a = 0; a < count && what == NULL; a++)
        if (arguments[a][0] == '\0')
            what = memory_string("an argument is empty; is a variable in the command line unset?");
    int code = what != NULL ? command_mistake(command, what) : ERROR_NONE;
    free(what);
    return code;
}

/* Returns "; did you mean --ranks?" or "", freed with free(). */
static char *meant_option(const struct command *command, const char *given)
{
    if (strncmp(given, "--", 2) != 0)
        return memory_string("");
    char *wrong = memory_format("%.*s", (int)strcspn(given + 2, "="), given + 2);
    struct nearest_name nearest = {.wrong = wrong};
    for (int i = 0; i < option_count(command); i++)
        nearest_look(&nearest, command->options[i].name);
    free(wrong);
    return nearest.name != NULL ? memory_format("; did you mean --%s?", nearest.name) : memory_string("");
}

/* Sets the options' values; the other arguments are then argv[optind] and later. *help: help is requested, and
 * everything else is ignored. */
static int parse(const struct command *command, int argc, char **argv, bool *help)
{
    enum { FIRST = 256 /* above all letters */ };
    int count = option_count(command), chosen, code = ERROR_NONE;
    struct option *table = memory_allocate((count + 2) * (int64_t)sizeof *table);
    bool *given = memory_allocate(count + 1);
    char letters[2 * 64 + 2] = ":"; /* getopt must not print messages */
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
            char *meant = chosen == ':' ? memory_string("") : meant_option(command, argv[optind - 1]);
            char *what = memory_format("%s: %s%s", argv[optind - 1],
                                       chosen == ':' ? "needs a value" : "is not an option of this command", meant);
            free(meant);
            code = command_mistake(command, what);
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

/* Flushes standard output; an error is a failure. */
static int end(int code)
{
    if ((fflush(stdout) != 0 || ferror(stdout)) && code == ERROR_NONE)
        code = error_environment(
            "standard output could not be written completely; check the disk space of its destination");
    if (code != ERROR_NONE && error_message()[0] != '\0')
        error_print();
    return code;
}

static int run_command(const struct command *command, const struct command_environment *environment, int argc,
                       char **argv)
{
    bool help;
    int code = parse(command, argc, argv, &help);
    if (code != ERROR_NONE && launcher_rank() != 0)
        error_clear(); /* rank 0 prints it */
    if (help)
        print_help(command);
    else if (code == ERROR_NONE)
        code = command->run(environment, argv + optind, argc - optind);
    return end(code);
}

int command_main(const struct command_environment *environment, int argc, char **argv)
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
        struct nearest_name nearest = {.wrong = argv[1]};
        for (int i = 0; commands[i] != NULL; i++)
            nearest_look(&nearest, commands[i]->name);
        log_print(stderr, "cistron: unknown command \"%s\"%s%s%s\n", argv[1],
                  nearest.name != NULL ? "; did you mean " : "", nearest.name != NULL ? nearest.name : "",
                  nearest.name != NULL ? "?" : "");
        print_usage(stderr);
    }
    return ERROR_USER;
}
