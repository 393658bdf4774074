/* The commands. Only `train` starts MPI: the others work on login nodes. */
#include "base/error.h"
#include "base/log.h"
#include "comm/comm.h"
#include "core/launch.h"
#include "cpu/cpu.h"
#include "data/baseline.h"
#include "data/prepare.h"
#include "deck/deck.h"
#include "io/inspect.h"
#include "train/run.h"

#include <getopt.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef CISTRON_GEMM_DNNL
static const char features[] = "executor cpu with oneDNN";
#else
static const char features[] = "executor cpu with CBLAS";
#endif

struct command {
    const char *name, *usage, *summary, *help;
    int (*run)(const struct command *self, int argc, char **argv); /* argv[0] is the command */
};

/* -- Shared ------------------------------------------------------------------------------------------------------ */

/* Prints the recorded message of a command without ranks. */
static int report(int code)
{
    if (code != ERROR_NONE)
        fprintf(stderr, "cistron: %s\n", error_message());
    return code;
}

static int usage_error(const struct command *command, const char *what)
{
    fprintf(stderr, "cistron %s: %s\nusage: cistron %s %s\n", command->name, what, command->name, command->usage);
    return ERROR_USER;
}

static int print_help(const struct command *command)
{
    printf("usage: cistron %s %s\n\n%s\n", command->name, command->usage, command->help);
    return ERROR_NONE;
}

/* -- train ------------------------------------------------------------------------------------------------------- */

static void dump_launches(void)
{
    launch_dump(stderr);
}

static void abort_all_ranks(void)
{
    MPI_Abort(MPI_COMM_WORLD, ERROR_ENVIRONMENT);
}

static int run_with_ranks(const char *deck, char *const overrides[], int count)
{
    int provided;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS || provided < MPI_THREAD_FUNNELED) {
        fprintf(stderr, "cistron: MPI_Init_thread: this MPI does not support MPI_THREAD_FUNNELED\n");
        return ERROR_ENVIRONMENT;
    }
    struct comm *world = comm_open_mpi();
    log_open(world->rank, world->size);
    error_on_fatal(dump_launches);
    error_on_fatal(abort_all_ranks);
    int code = run_train(world, deck, overrides, count, cpu_executor_create);
    comm_destroy(world);
    MPI_Finalize();
    return code;
}

static int command_train(const struct command *self, int argc, char **argv)
{
    if (argc < 2)
        return usage_error(self, "no deck given");
    for (int i = 2; i < argc; i++)
        if (strchr(argv[i], '=') == NULL)
            return usage_error(self, "what follows the deck must be key=value");
    return run_with_ranks(argv[1], argv + 2, argc - 2);
}

/* -- prepare ----------------------------------------------------------------------------------------------------- */

static int command_prepare(const struct command *self, int argc, char **argv)
{
    static const struct option options[] = {{"tokenizer", required_argument, NULL, 't'},
                                            {"split", required_argument, NULL, 's'},
                                            {"seed", required_argument, NULL, 'e'},
                                            {"output", required_argument, NULL, 'o'},
                                            {0}};
    struct prepare_settings settings = {.tokenizer = NULL, .seed = 42};
    char nothing[] = "", *seed_rest = nothing; /* what follows the number */
    int option;
    optind = 1;
    while ((option = getopt_long(argc, argv, "o:", options, NULL)) != -1) {
        if (option == 't')
            settings.tokenizer = optarg;
        else if (option == 's')
            settings.split = optarg;
        else if (option == 'e')
            settings.seed = strtoull(optarg, &seed_rest, 10);
        else if (option == 'o')
            settings.output = optarg;
        else
            return usage_error(self, "unknown option");
    }
    if (*seed_rest != '\0')
        return usage_error(self, "--seed must be a whole number");
    if (settings.tokenizer == NULL)
        return usage_error(self, "--tokenizer is missing");
    if (settings.output == NULL)
        return usage_error(self, "-o is missing");
    if (optind == argc)
        return usage_error(self, "no input file given");
    settings.inputs = (const char *const *)(argv + optind);
    settings.input_count = argc - optind;
    return report(prepare_run(&settings));
}

/* -- baseline ---------------------------------------------------------------------------------------------------- */

static int command_baseline(const struct command *self, int argc, char **argv)
{
    static const struct option options[] = {{"orders", required_argument, NULL, 'k'}, {0}};
    const char *orders = "3,6";
    int option;
    optind = 1;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option != 'k')
            return usage_error(self, "unknown option");
        orders = optarg;
    }
    if (argc - optind != 2)
        return usage_error(self, "needs a training and a validation store");
    for (const char *at = orders; *at != '\0';) {
        char *end;
        long order = strtol(at, &end, 10);
        if (end == at || (*end != ',' && *end != '\0'))
            return usage_error(self, "--orders must be numbers with commas between");
        double nats;
        int64_t bases;
        int code = baseline_evaluate(argv[optind], argv[optind + 1], (int)order, &nats, &bases);
        if (code != ERROR_NONE)
            return report(code);
        printf("order-%ld %.4f nats per base over %lld bases\n", order, nats, (long long)bases);
        at = *end == ',' ? end + 1 : end;
    }
    return ERROR_NONE;
}

/* -- inspect, deck ----------------------------------------------------------------------------------------------- */

static int command_inspect(const struct command *self, int argc, char **argv)
{
    if (argc != 2)
        return usage_error(self, "needs one file or run folder");
    return report(inspect_run(argv[1]));
}

static int command_deck(const struct command *self, int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--markdown") == 0)
        deck_print_markdown(stdout);
    else if (argc == 1)
        deck_print_reference(stdout);
    else
        return usage_error(self, "unknown argument");
    return ERROR_NONE;
}

/* -- All --------------------------------------------------------------------------------------------------------- */

static const struct command commands[] = {
    {"train", "DECK [key=value ...]", "train a model as a deck says",
     "Trains the model that the input deck DECK describes; key=value overrides single keys of it. Run it under mpirun\n"
     "or srun for several ranks. It writes checkpoints, the log (log.jsonl) and the effective deck to output.folder, "
     "and\n"
     "goes on from the newest checkpoint there (train.resume).\n\n"
     "Exit status: 0 finished, 1 the environment failed, 2 a mistake that you can mend, 3 the run diverged.",
     command_train},
    {"prepare", "--tokenizer NAME [--split train:F,valid:F] [--seed N] -o OUT.h5 FILES...",
     "turn FASTA into a token store",
     "Reads FASTA files (plain, .gz or .zst; - is standard input) and writes a token store. --split writes\n"
     "OUT.train.h5, OUT.valid.h5, ... cut by position. Tokenizers: nucleotide.",
     command_prepare},
    {"baseline", "[--orders 3,6] TRAIN.h5 VALID.h5", "nats per base of count models of a genome",
     "Fits models of fixed order on the bases of TRAIN.h5 and prints their loss on those of VALID.h5: what a model "
     "must\n"
     "beat.",
     command_baseline},
    {"inspect", "FILE", "say what is in a token store or checkpoint",
     "Says what a token store or a checkpoint holds. A run folder means its newest checkpoint.", command_inspect},
    {"deck", "[--markdown]", "print the commented reference deck",
     "Prints every key of a deck at its default with its meaning. The output is itself a valid deck.", command_deck},
};

enum { COMMANDS = sizeof commands / sizeof commands[0] };

static void print_usage(FILE *file)
{
    fprintf(file, "usage: cistron COMMAND [ARGUMENTS]   (cistron COMMAND --help for each)\n\n");
    for (int i = 0; i < COMMANDS; i++)
        fprintf(file, "  %-10s %s\n", commands[i].name, commands[i].summary);
    fprintf(file, "\n  --help, --version\n");
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr);
        return ERROR_USER;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_usage(stdout);
        return ERROR_NONE;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        printf("cistron %s (%s)\n", PACKAGE_VERSION, features);
        return ERROR_NONE;
    }
    for (int i = 0; i < COMMANDS; i++) {
        if (strcmp(argv[1], commands[i].name) != 0)
            continue;
        for (int a = 2; a < argc; a++)
            if (strcmp(argv[a], "--help") == 0)
                return print_help(&commands[i]);
        return commands[i].run(&commands[i], argc - 1, argv + 1);
    }
    fprintf(stderr, "cistron: unknown command \"%s\"\n", argv[1]);
    print_usage(stderr);
    return ERROR_USER;
}
