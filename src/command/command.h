/* Commands: `cistron NAME [OPTIONS] [ARGUMENTS]`. Each is a struct command in a file of its own. Parsing, --help and
 * `cistron completions` all use its table of options. MPI and executors start only through what main supplies, so
 * commands that do not use ranks work on login nodes. */
#ifndef COMMAND_COMMAND_H
#define COMMAND_COMMAND_H

#include "comm/comm.h"
#include "core/device.h"

/* The functions that main supplies to commands. */
struct command_environment {
    const char *(*features)(void); /* what this build computes with: "executor cpu with oneDNN" */
    device_make *make_executor;    /* core/device.h */
    /* Starts MPI, runs body on every rank of the world, ends MPI. Returns what body returned: an error code that is the
     * same on all ranks. Its message is printed. */
    int (*with_ranks)(int (*body)(struct comm *world, void *self), void *self);
};

/* Type of an option's value, in this order: bool (true when the option is given), const char *, const char * with "~"
 * expanded to the home folder, int64_t, double. */
enum command_option_kind { COMMAND_FLAG, COMMAND_TEXT, COMMAND_PATH, COMMAND_INTEGER, COMMAND_REAL };

struct command_option {
    const char *name;     /* without its dashes */
    char letter;          /* short form; 0 = none */
    const char *argument; /* the value's name in the usage; NULL for a flag */
    enum command_option_kind kind;
    bool required;
    void *value;
    const char *help;
};

/* The --input-format and --field options of commands that read records; go to *variable. */
#define COMMAND_INPUT_FORMAT(variable)                                                                                 \
    {                                                                                                                  \
        "input-format", 0, "NAME", COMMAND_TEXT, false, variable,                                                      \
            "format of --input, as for cistron prepare (detected from the file's name and content)"                    \
    }
#define COMMAND_FIELD(variable)                                                                                        \
    {                                                                                                                  \
        "field", 0, "NAME", COMMAND_TEXT, false, variable,                                                             \
            "JSON, CSV, TSV, Parquet: field with a record's sequence or text (text)"                                   \
    }

/* The --skip-bad option of commands that read records; goes to *variable. */
#define COMMAND_SKIP_BAD(variable)                                                                                     \
    {                                                                                                                  \
        "skip-bad", 0, NULL, COMMAND_FLAG, false, variable,                                                            \
            "skip records whose field is missing or null, and count them (otherwise they are errors)"                  \
    }

/* The --case option of commands that read sequences; its value (prepare/census.h) goes to *variable. */
#define COMMAND_CASE(variable)                                                                                         \
    {                                                                                                                  \
        "case", 0, "HOW", COMMAND_TEXT, false, variable,                                                               \
            "lower-case letters: upper (read as capitals; default of nucleotides) or keep (default of proteins)"       \
    }

/* The --shard option of commands that compute with a checkpoint; goes to *variable. */
#define COMMAND_SHARD(variable)                                                                                        \
    {                                                                                                                  \
        "shard", 0, NULL, COMMAND_FLAG, false, variable,                                                               \
            "shard the weights over the ranks; automatic if they do not fit on one rank"                               \
    }

/* The --force option of commands that write a file or folder; goes to *variable. */
#define COMMAND_FORCE(variable)                                                                                        \
    {                                                                                                                  \
        "force", 0, NULL, COMMAND_FLAG, false, variable,                                                               \
            "replace an existing output; inputs, devices and checkpoints are never replaced"                           \
    }

#define COMMAND_CONTEXT_PARALLEL(variable)                                                                             \
    {                                                                                                                  \
        "context-parallel", 0, "N", COMMAND_INTEGER, false, variable,                                                  \
            "context parallelism: N ranks share the tokens of each window (1)"                                         \
    }
#define COMMAND_TENSOR(variable)                                                                                       \
    {                                                                                                                  \
        "tensor", 0, "N", COMMAND_INTEGER, false, variable,                                                            \
            "tensor parallelism: N consecutive ranks share each layer (1)"                                             \
    }

struct command {
    const char *name;
    const char *arguments;                /* in the usage, after the options; "" = none */
    const char *summary;                  /* one line */
    const char *help;                     /* what it does, printed in lines of at most 100 columns */
    const struct command_option *options; /* ends with a name of NULL; NULL = no options */
    int least, most;                      /* number of arguments besides the options; most = -1: no limit */
    /* Returns an enum error_code. Its message is recorded (base/error.h), or already printed. */
    int (*run)(const struct command_environment *environment, char **arguments, int count);
};

/* All commands, in the order of the usage; ends with NULL. */
extern const struct command *const commands[];

extern const struct command command_train, command_plan, command_measure, command_sweep, command_report,
    command_prepare, command_baseline, command_eval, command_score, command_embed, command_generate, command_import,
    command_export, command_inspect, command_deck, command_jobscripts, command_completions;

/* Finds the command named argv[1], parses its options, runs it and prints the recorded message. Returns an enum
 * error_code. */
int command_main(const struct command_environment *environment, int argc, char **argv);

/* Records a mistake in a command's line, `what` in a few words, with the way to --help. On ranks other than 0, which
 * find it too, there is no message. Returns ERROR_USER. */
int command_mistake(const struct command *command, const char *what);

/* Chooses the input of a command with --fasta and --input, one of which must be given. ERROR_USER, as command_mistake.
 */
int command_choose_input(const struct command *command, const char *fasta, const char *input, const char **chosen);

#endif
