/* A step whose gradient is not finite: "stop" ends the run with exit code 3 and leaves the last checkpoint, "skip" goes
 * on with weights that the step has not touched, but not for ever. The fault is injected at the executor's door. */
#include "check.h"

#include "cpu/cpu.h"
#include "ref/wrapper.h"
#include "stores.h"
#include "train/run.h"

#include <math.h>
#include <unistd.h>

static struct {
    struct wrapper wrapper;
    struct executor *cpu;
    int updates;     /* begun, counted by what ends the sum over all gradients */
    int first, last; /* updates whose gradients are spoilt */
} fault;

static void spoil(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args)
{
    if (op == OP_SUM_SQUARES && fault.updates + 1 >= fault.first && fault.updates + 1 <= fault.last)
        ((float *)((const struct sum_squares_args *)args)->x.data)[0] = INFINITY;
    if (op == OP_GRADIENT_SCALE)
        fault.updates++;
    wrapper_pass(wrapper, stream, op, args);
}

static int make_executor(struct executor **executor, const struct device_request *request)
{
    fault.cpu = cpu_executor_create(request->threads);
    fault.updates = 0;
    wrapper_create(&fault.wrapper, fault.cpu, spoil, NULL);
    *executor = &fault.wrapper.executor;
    return ERROR_NONE;
}

/* A run of 14 steps with a checkpoint at each, whose updates first .. last are spoilt. */
static int train(const char *name, const char *on_divergence, int first, int last)
{
    char folder[500], rule[100];
    char *overrides[] = {folder, rule};
    snprintf(folder, sizeof folder, "output.folder=%s", stores_path(name));
    snprintf(rule, sizeof rule, "train.on_divergence=%s", on_divergence);
    fault.first = first;
    fault.last = last;
    struct comm *self = comm_self();
    int code = run_train(self, stores_path("deck.cfg"), NULL, overrides, 2, make_executor);
    comm_destroy(self);
    fault.cpu->class->destroy(fault.cpu);
    return code;
}

static bool there(const char *name, const char *file)
{
    char path[500];
    snprintf(path, sizeof path, "%s/%s", stores_path(name), file);
    return access(path, F_OK) == 0;
}

static void write_deck(void)
{
    FILE *deck = fopen(stores_path("deck.cfg"), "w");
    fprintf(deck,
            "model = { layers = 1; hidden = 16; ffn = 32; heads = 2; };\n"
            "data = { train = \"%s\"; row_tokens = 32; };\n"
            "train = { steps = 14; global_batch = 4; micro_batch = 2; };\n"
            "checkpoint = { every = 1; keep = 20; };\nlog = { every = 1; tensorboard = false; };\n"
            "device = { threads = 1; };\n",
            stores_path("five.h5"));
    fclose(deck);
}

int main(void)
{
    char before[32], at[32], after[32], whole[32];
    stores_begin();
    stores_write_periodic(stores_path("five.h5"));
    write_deck();

    CHECK(train("whole", "stop", 0, 0) == 0);
    stores_digest("whole", 14, whole);
    CHECK(whole[0] != '\0');

    CHECK(train("stop", "stop", 6, 6) == ERROR_DIVERGED);
    CHECK(there("stop", "step_00000005.h5") && !there("stop", "step_00000006.h5") && !there("stop", "final_model.h5"));
    CHECK(train("stop", "stop", 0, 0) == 0); /* the fault gone, the run goes on as if it had never been */
    stores_digest("stop", 14, after);
    CHECK_STRING(after, whole);

    CHECK(train("skip", "skip", 6, 6) == 0);
    stores_digest("skip", 5, before);
    stores_digest("skip", 6, at);
    stores_digest("skip", 7, after);
    CHECK(before[0] != '\0');
    CHECK_STRING(at, before); /* no weight and no moment has changed */
    CHECK(strcmp(after, before) != 0);
    CHECK(there("skip", "final_model.h5"));

    CHECK(train("nine", "skip", 3, 11) == 0); /* nine in a row */
    CHECK(train("ten", "skip", 3, 12) == ERROR_DIVERGED);
    CHECK(there("ten", "step_00000011.h5") && !there("ten", "step_00000012.h5"));
    stores_end();
    return check_end();
}
