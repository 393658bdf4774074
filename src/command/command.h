/* Commands: `cistron NAME [OPTIONS] [ARGUMENTS]`. Each is a struct command in a file of its own; its table of options
 * is all that parsing, --help and `cistron completions` know. Only what main supplies starts MPI or makes an executor,
 * so commands without ranks work on login nodes. */
#ifndef COMMAND_COMMAND_H
#define COMMAND_COMMAND_H

#include "comm/comm.h"
#include "core/device.h"

/* What main supplies. */
struct environment {
    const char *(*features)(void); /* what this build computes with: "executor cpu with oneDNN" */
    device_make *make_executor;    /* core/device.h */
    /* Starts MPI, runs body on every rank of the world, ends MPI; returns what body returned, which is agreed and whose
     * message is printed. */
    int (*with_ranks)(int (*body)(struct comm *world, void *self), void *self);
};

/* Where an option's value goes: bool (set by the option's presence), const char *, the same with "~" as the home
 * folder, int64_t, double. */
enum command_option_kind { COMMAND_FLAG, COMMAND_TEXT, COMMAND_PATH, COMMAND_INTEGER, COMMAND_REAL };

struct command_option {
    const char *name;     /* without its dashes */
    char letter;          /* of the short form, 0 = none */
    const char *argument; /* its name in the usage; NULL for a flag */
    enum command_option_kind kind;
    bool required;
    void *value;
    const char *help;
};

/* Of commands that read sequences: a row for --case, whose value (prepare/census.h) goes to *variable. */
#define COMMAND_CASE(variable)                                                                                         \
    {                                                                                                                  \
        "case", 0, "HOW", COMMAND_TEXT, false, variable,                                                               \
            "lower-case letters: upper, as capitals (nucleotides' default); keep, as they are (proteins')"             \
    }

struct command {
    const char *name;
    const char *arguments;                /* of the usage, behind the options; "" = none */
    const char *summary;                  /* one line */
    const char *help;                     /* what it does, lines of at most 100 characters */
    const struct command_option *options; /* ends with a name of NULL; NULL = no options */
    int least, most;                      /* arguments beside the options; most -1 = any number */
    /* Returns an enum error_code whose message is in the record, or printed already. */
    int (*run)(const struct environment *environment, char **arguments, int count);
};

/* All commands, in the order of the usage; ends with NULL. */
extern const struct command *const commands[];

extern const struct command command_train, command_plan, command_report, command_prepare, command_baseline,
    command_eval, command_embed, command_generate, command_import, command_export, command_inspect, command_deck,
    command_completions;

/* Parses and runs commands[...] as argv says (argv[1] is its name) and prints what is recorded; an enum error_code. */
int command_main(const struct environment *environment, int argc, char **argv);

/* "FILES..." of the usage line: the words behind `cistron NAME`; freed with free(). */
char *command_usage(const struct command *command);

#endif
