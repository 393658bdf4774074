/* Tensor ranks that have whole experts give one rank's losses and gradients: 2 and 4 ranks, alone and with shards,
 * context ranks and stages; with AdamW, Muon and LoRA. All ranks together count the FLOPs of one. A range of experts
 * that begins at the wrong one, a router whose gradients are not summed, and a lost auxiliary loss are noticed.
 *
 * ranks: 4 */
#include "check.h"

#include "base/memory.h"
#include "cpu/cpu.h"
#include "ref/team.h"
#include "ref/wrapper.h"

#include <mpi.h>

static struct comm *world;
static struct executor *cpu;

/* With 4 ranks a rank has one expert, which is chosen by fewer tokens than there are pairs. */
static const struct layout layouts[] = {
    {.context = 1, .shard = 1, .tensor = 4},
    {.context = 1, .shard = 1, .tensor = 4, .whole_rows = true},
    {.context = 1, .shard = 1, .tensor = 2},
    {.context = 1, .shard = 2, .tensor = 2, .sharding.level = SHARD_FULL},
    {.context = 1, .shard = 2, .tensor = 2, .whole_rows = true, .sharding.level = SHARD_OPTIMIZER},
    {.context = 2, .shard = 2, .tensor = 2, .method = DECK_CONTEXT_RING, .sharding.level = SHARD_GRADIENTS},
    {.context = 1, .shard = 1, .tensor = 2, .stages = 2, .chunks = 1}};

static const struct form forms[] = {
    {.recompute = DECK_RECOMPUTE_NONE, .poisoned = true},
    {.recompute = DECK_RECOMPUTE_NORMS, .muon = true},
    {.recompute = DECK_RECOMPUTE_FULL, .replays = true},
    {.recompute = DECK_RECOMPUTE_QKV, .adapted = true},
};

static struct form form_of(int i)
{
    struct form form = forms[i];
    form.kind = TOY_MIXTRAL;
    form.packed = true;
    form.micro_batches = 2;
    form.slots = 1;
    return form;
}

static bool is_equal(struct executor *executor, const struct layout *layout, const struct form *form,
                     const struct run_outcome *alone, bool reports)
{
    struct distances far;
    const bool equal = layout_is_equal(world, executor, layout, form, alone, &bound_f32, &far);
    if (world->rank == 0 && !equal && reports)
        fprintf(stderr, "%s:\n    loss %.2e, norm %.2e, gradients %.2e and %.2e\n",
                team_text(world->size, layout, form), far.loss, far.norm, far.first, far.last);
    return equal;
}

static void test_layouts(void)
{
    for (int f = 0; f < LENGTH(forms); f++) {
        const struct form form = form_of(f);
        struct run_outcome alone = train_alone(world, cpu, &form, false);
        for (int l = 0; l < LENGTH(layouts); l++)
            CHECK(is_equal(cpu, &layouts[l], &form, &alone, true));
        outcome_destroy(&alone);
    }
}

/* -- FLOPs -------------------------------------------------------------------------------------------------------- */

static void count_flops(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args)
{
    if (op == OP_EXPERT_GEMM || op == OP_EXPERT_GRADIENT)
        *(int64_t *)wrapper->self += op_flops(op, args);
    wrapper_pass(wrapper, stream, op, args);
}

/* Returns the FLOPs of experts in a step, of all ranks. */
static int64_t flops_of(const struct layout *layout, const struct form *form)
{
    int64_t flops = 0;
    struct wrapper wrapper;
    struct team team;
    wrapper_create(&wrapper, cpu, count_flops, &flops);
    team_create(&team, world, &wrapper.executor, layout, form);
    team_step(&team, 0);
    team_destroy(&team);
    return comm_sum_i64(world, flops);
}

static void test_flops(void)
{
    const struct layout replicas = {.context = 1, .shard = 1};
    struct form form = form_of(0);
    form.poisoned = false;
    form.micro_batches = 1; /* of ranks with other rows */
    const int64_t of_rows = flops_of(&replicas, &form);
    form.micro_batches = 4;
    CHECK(of_rows > 0 && flops_of(&layouts[0], &form) == of_rows);
}

/* -- Faults ------------------------------------------------------------------------------------------------------- */

enum fault { FIRST_EXPERT, ROUTER_SUM, AUXILIARY_LOSS, FAULTS };

struct injected {
    enum fault fault;
    int count;
};

static void spoil(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args)
{
    struct injected *injected = wrapper->self;
    const struct model_settings settings = toy_settings(TOY_MIXTRAL);
    union {
        struct expert_order_args order;
        struct route_backward_args route;
        struct all_reduce_args sum;
    } a;
    if (injected->fault == FIRST_EXPERT && op == OP_EXPERT_ORDER) {
        a.order = *(const struct expert_order_args *)args;
        a.order.first = 0;
        injected->count++;
        wrapper_pass(wrapper, stream, op, &a);
    } else if (injected->fault == AUXILIARY_LOSS && op == OP_ROUTE_BACKWARD) {
        a.route = *(const struct route_backward_args *)args;
        a.route.labels = a.route.load = (struct tensor){0};
        injected->count++;
        wrapper_pass(wrapper, stream, op, &a);
    } else if (injected->fault == ROUTER_SUM && op == OP_ALL_REDUCE) {
        a.sum = *(const struct all_reduce_args *)args;
        if (tensor_count(&a.sum.x) == settings.experts * settings.hidden)
            injected->count++; /* the sum is missing */
        else
            wrapper_pass(wrapper, stream, op, args);
    } else {
        wrapper_pass(wrapper, stream, op, args);
    }
}

static void test_faults(void)
{
    const struct form form = form_of(1); /* memory that is not poisoned */
    struct run_outcome alone = train_alone(world, cpu, &form, false);
    for (int l = 0; l < 2; l++)
        for (enum fault fault = 0; fault < FAULTS; fault++) {
            struct injected injected = {.fault = fault};
            struct wrapper wrapper;
            wrapper_create(&wrapper, cpu, spoil, &injected);
            CHECK(!is_equal(&wrapper.executor, &layouts[l], &form, &alone, false));
            CHECK(comm_sum_i64(world, injected.count) > 0);
        }
    outcome_destroy(&alone);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    world = comm_open_mpi();
    cpu = cpu_executor_create(1);
    cpu->copies = true; /* as devices do, so that sums have scratch */
    test_layouts();
    test_flops();
    test_faults();
    cpu->class->destroy(cpu);
    comm_destroy(world);
    MPI_Finalize();
    return check_end();
}
