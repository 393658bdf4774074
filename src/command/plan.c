/* cistron plan */
#include "base/bytes.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/range.h"
#include "base/text.h"
#include "base/thousands.h"
#include "command/command.h"
#include "estimate/fit_choice.h"
#include "estimate/estimate_report.h"
#include "train/host_count.h"
#include "train/origin.h"
#include "setup/epochs.h"
#include "setup/precision_text.h"
#include "estimate/rates_file.h"
#include "infer/eval.h"
#include "setup/settings.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

enum { USUAL_NODE = 8 /* GPUs per node */ };

static int64_t ranks = 1, node = USUAL_NODE;
static bool json;
static int64_t window, context_parallel = 1; /* window: tokens of an evaluation, which is planned instead of a step */

/* Chooses the layout that the deck leaves open. */
static int choose(struct layout_choice *choice, struct setup *setup, int64_t limit, struct executor *executor,
                  const struct machine_rates *rates)
{
    int64_t vocabulary;
    int code = settings_vocabulary(&vocabulary, setup->deck);
    if (code != ERROR_NONE)
        return code;
    const struct layout_place place = {ranks, limit, fit_host(setup, node), executor, rates};
    return layout_choose(choice, setup->deck, vocabulary, &place);
}

static int plan(struct setup *setup, int threads, struct executor *executor)
{
    struct estimate estimate = {0};
    struct layout_choice choice = {0};
    struct memory_fit fit;
    struct host_traffic hosts;
    int64_t limit;
    static struct machine_rates rates;
    int code = rates_choose(&rates, setup->rates_file, setup->peak);
    rates.node = node;
    if (code == ERROR_NONE)
        code = fit_limit(&limit, setup, node, executor);
    if (code == ERROR_NONE && setup->open)
        code = choose(&choice, setup, limit, executor, &rates);
    if (code == ERROR_NONE)
        code = estimate_create(&estimate, setup->deck, ranks, threads, executor, &rates);
    struct setup *own = &estimate.setup;
    if (code == ERROR_NONE && fit_chooses(own->deck)) {
        fit_choose(own, limit, fit_host(own, node), executor);
        estimate_dry_run(&estimate, executor, &rates);
    }
    if (code == ERROR_NONE)
        precision_warn(&own->model.precision, own->deck);
    if (code == ERROR_NONE)
        code = fit_check(&fit, own, estimate_neediest(&estimate)->need, node, executor);
    if (code == ERROR_NONE && ranks > 1)
        code = host_count(&hosts, own->deck, own->model.vocabulary, ranks, node);
    if (code == ERROR_NONE) {
        const bool elsewhere = own->device.kind == DECK_DEVICE_AUTO && own->memory > 0;
        const bool gpus = executor->device != NULL || elsewhere; /* see doc/parallel.md */
        const struct estimate_report report = {
            &estimate, &choice, &rates, rates_predict(&rates, gpus, ranks), &fit, ranks > 1 ? &hosts : NULL};
        (json ? estimate_print_json : estimate_print)(&report);
        fflush(stdout); /* before messages on standard error */
        code = fit_refuse(&fit);
        if (code == ERROR_NONE && own->memory == 0) /* the plan is for this machine */
            code =
                fit_check_host(own, estimate_neediest(&estimate)->memory[BUDGET_HOST], fit_host(own, node), executor);
    }
    estimate_destroy(&estimate);
    layout_choice_destroy(&choice);
    return code;
}

/* Plans `cistron eval`, of windows of `window` tokens. */
static int plan_evaluation(const struct setup *setup, struct executor *executor)
{
    int64_t memory[BUDGET_CATEGORIES], limit, need = 0;
    char needs[BYTES_TEXT], has[BYTES_TEXT];
    int code = fit_limit(&limit, setup, MIN(node, context_parallel), executor);
    if (code == ERROR_NONE)
        code = eval_plan(setup->deck, window, context_parallel, executor, memory);
    if (code != ERROR_NONE)
        return code;
    printf("memory of a rank in an evaluation of windows of %lld tokens on %lld rank%s, MiB\n", (long long)window,
           (long long)context_parallel, plural(context_parallel));
    for (int c = 0; c < BUDGET_HOST; c++) {
        need += memory[c];
        if (memory[c] > 0)
            printf("  %-28s %18.1f\n", budget_category_name((enum budget_category)c), (double)memory[c] / (1 << 20));
    }
    printf("a rank needs %s of %s: %s\n", bytes_text(needs, (double)need), bytes_text(has, (double)limit),
           need <= limit ? "it fits" : "it does not fit");
    fflush(stdout);
    return need <= limit
               ? ERROR_NONE
               : error_user("--context %lld: a rank needs %s and may use %s; set --context-parallel above %lld",
                            (long long)window, needs, has, (long long)context_parallel);
}

/* Completes the deck as a run would. */
static int complete(struct deck *deck)
{
    struct comm *self = comm_self();
    char *origin = NULL;
    int code = origin_named(deck) ? origin_take(self, deck, &origin) : ERROR_NONE;
    if (code == ERROR_NONE)
        code = epochs_resolve(deck, self, false);
    free(origin);
    comm_destroy(self);
    return code;
}

static int plan_on_device(const struct command_environment *environment, struct setup *setup)
{
    int threads = estimate_threads(setup->threads, ranks);
    struct comm *self = comm_self();
    const struct device_request request = {
        .kind = setup->device.kind, .threads = threads, .world = self, .node = self, .quiet = true};
    struct executor *executor;
    int code = environment->make_executor(&executor, &request);
    if (code == ERROR_NONE) {
        code = window > 0 ? plan_evaluation(setup, executor) : plan(setup, threads, executor);
        executor->class->destroy(executor);
    }
    comm_destroy(self);
    return code;
}

static int run(const struct command_environment *environment, char **arguments, int count)
{
    if (ranks < 1 || ranks > INT_MAX)
        return error_user("--ranks %lld: must be between 1 and %d", (long long)ranks, INT_MAX);
    if (node < 1)
        return error_user("--ranks-per-node %lld: must be at least 1", (long long)node);
    if (window < 0 || context_parallel < 1 || context_parallel > INT_MAX)
        return error_user("--context %lld, --context-parallel %lld: must be positive", (long long)window,
                          (long long)context_parallel);
    if (window > 0 && (ranks > 1 || json))
        return error_user("--context: plans an evaluation, without --ranks and --json; ranks are --context-parallel");
    node = window > 0 ? node : MIN(node, ranks);
    char *notes;
    struct deck *deck = deck_create();
    struct setup setup = {0};
    int code = deck_read(deck, arguments[0], arguments + 1, count - 1, &notes);
    text_print(stderr, notes); /* standard output may be JSON */
    free(notes);
    if (code == ERROR_NONE)
        code = complete(deck);
    if (code == ERROR_NONE)
        code = setup_create(&setup, deck, ranks);
    if (code == ERROR_NONE)
        code = plan_on_device(environment, &setup);
    setup_destroy(&setup);
    memory_free(deck);
    return code;
}

static const struct command_option options[] = {
    {"ranks", 0, "N", COMMAND_INTEGER, false, &ranks, "number of ranks of the run (1)"},
    {"ranks-per-node", 0, "N", COMMAND_INTEGER, false, &node, "ranks of a node (8)"},
    {"context", 0, "N", COMMAND_INTEGER, false, &window, "plan cistron eval --context N instead: its memory"},
    {"context-parallel", 0, "N", COMMAND_INTEGER, false, &context_parallel,
     "with --context: N ranks share the tokens of each window (1)"},
    {"json", 0, NULL, COMMAND_FLAG, false, &json, "print one JSON object; bytes and FLOPs without units"},
    {0}};

const struct command command_plan = {
    .name = "plan",
    .arguments = "DECK [KEY=VALUE...]",
    .summary = "estimate what a deck needs: memory, FLOPs, traffic, disk",
    .help =
        "Goes through one step of the deck without computing it, and prints what a run on N ranks needs: memory\n"
        "of a rank, FLOPs, bytes between ranks, steps of an epoch, size of checkpoints. It needs no MPI and no\n"
        "data, but reads the file of model.initialise_from.\n\n"
        "A rank may use device.memory GiB or, if that is 0, its share of this machine's free memory; then\n"
        "offloaded layers must fit as well. If the deck needs more, the plan says what to change, and the exit\n"
        "code is 2. With memory.recompute = \"fit\" the plan includes the chosen recompute policies. With\n"
        "parallel.shard = \"auto\" or parallel.context = 0 it lists the possible layouts, and uses the fastest that\n"
        "fits.\n\n"
        "With --context N it prints the memory of cistron eval with windows of N tokens.",
    .options = options,
    .least = 1,
    .most = -1,
    .run = run,
};
