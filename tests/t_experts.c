/* Tensor ranks that have whole experts give one rank's losses and gradients: 2 and 4 ranks, alone and with shards,
 * context ranks and stages; with AdamW, Muon and LoRA. All ranks together count the FLOPs and bytes of one. A range of
 * experts that begins at the wrong one, a router whose gradients are not summed, and a lost auxiliary loss are noticed.
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

/* -- FLOPs and bytes ---------------------------------------------------------------------------------------------- */

enum { PAIR_OPS = 5 };

static const enum op pair_ops[PAIR_OPS] = {OP_EMBEDDING_FORWARD, OP_SWIGLU_FORWARD, OP_SWIGLU_BACKWARD,
                                           OP_COMBINE_FORWARD, OP_COMBINE_BACKWARD};

struct work {
    int64_t flops, bytes[PAIR_OPS]; /* of the experts' GEMMs; of the matrices of pairs in other ops */
};

static int64_t bytes_of(const struct tensor *t)
{
    return tensor_count(t) * dtype_size(t->dtype);
}

/* Returns the bytes of an op that are not of a matrix of pairs. */
static int64_t other_bytes(enum op op, const void *args)
{
    const struct embedding_forward_args *e = args;
    const struct combine_forward_args *c = args;
    const struct combine_backward_args *d = args;
    switch (op) {
    case OP_EMBEDDING_FORWARD:
        return bytes_of(&e->tokens) + bytes_of(&e->weight) + bytes_of(&e->ends);
    case OP_SWIGLU_FORWARD:
        return bytes_of(&((const struct swiglu_forward_args *)args)->ends);
    case OP_SWIGLU_BACKWARD:
        return bytes_of(&((const struct swiglu_backward_args *)args)->ends);
    case OP_COMBINE_FORWARD:
        return bytes_of(&c->places) + bytes_of(&c->y) + (tensor_present(&c->weights) ? bytes_of(&c->weights) : 0) +
               (tensor_present(&c->addend) ? bytes_of(&c->addend) : 0);
    default:
        return bytes_of(&d->dy) + bytes_of(&d->places) + bytes_of(&d->weights) + bytes_of(&d->d_weights);
    }
}

static void count_work(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args)
{
    struct work *work = wrapper->self;
    if (op == OP_EXPERT_GEMM || op == OP_EXPERT_GRADIENT)
        work->flops += op_flops(op, args);
    const bool pairs =
        op != OP_EMBEDDING_FORWARD || tensor_present(&((const struct embedding_forward_args *)args)->ends);
    for (int i = 0; i < PAIR_OPS; i++)
        if (op == pair_ops[i] && pairs)
            work->bytes[i] += op_bytes(op, args) - other_bytes(op, args);
    wrapper_pass(wrapper, stream, op, args);
}

/* Returns the work of experts in a step, of all ranks. */
static struct work work_of(const struct layout *layout, const struct form *form)
{
    struct work work = {0};
    struct wrapper wrapper;
    struct team team;
    wrapper_create(&wrapper, cpu, count_work, &work);
    team_create(&team, world, &wrapper.executor, layout, form);
    team_step(&team, 0);
    team_destroy(&team);
    work.flops = comm_sum_i64(world, work.flops);
    for (int i = 0; i < PAIR_OPS; i++)
        work.bytes[i] = comm_sum_i64(world, work.bytes[i]);
    return work;
}

/* Tensor ranks are expected to have as many pairs, together, as ranks with rows of their own. */
static void test_work(void)
{
    const struct layout replicas = {.context = 1, .shard = 1};
    struct form form = form_of(0);
    form.poisoned = false;
    form.micro_batches = 1; /* of ranks with other rows */
    const struct work of_rows = work_of(&replicas, &form);
    form.micro_batches = 4;
    const struct work of_ranks = work_of(&layouts[0], &form);
    CHECK(of_rows.flops > 0 && of_ranks.flops == of_rows.flops);
    for (int i = 0; i < PAIR_OPS; i++)
        CHECK(of_rows.bytes[i] > 0 && of_ranks.bytes[i] == of_rows.bytes[i]);
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
    test_work();
    test_faults();
    cpu->class->destroy(cpu);
    comm_destroy(world);
    MPI_Finalize();
    return check_end();
}
