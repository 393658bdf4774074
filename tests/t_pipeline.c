/* Pipelines of 2, 3 and 4 stages, with one part each or two, give one rank's losses to 1e-6 and gradients to 1e-5,
 * combined with every sharding level, shared rows, shared layers, offload, capture, bf16 and 8 bits. Each wait between
 * compute and transfers is needed. Injected faults: gradients of a tied table that are not added, a lost gradient.
 *
 * "hang", on 2 ranks: each send waits until it is received (t_ranks.sh).
 *
 * ranks: 8 */
#include "check.h"

#include "base/error.h"
#include "base/memory.h"
#include "cpu/cpu.h"
#include "plan/plan.h"
#include "plan/race.h"
#include "ref/team.h"

#include <mpi.h>
#include <stdlib.h>

static struct comm *world;
static struct executor *cpu;

/* -- Planted faults ---------------------------------------------------------------------------------------------- */

enum fault { FAULT_NONE, FAULT_TABLE, FAULT_LOST };
static enum fault fault;
static const struct executor_class *plain;

/* FAULT_TABLE: gradients of a table that two stages hold are not added; FAULT_LOST: what a stage receives is lost. */
static void faulty_launch(struct executor *executor, struct stream *stream, enum op op, const void *args)
{
    const struct send_receive_args *send_receive = args;
    const bool of_tables = op == OP_SEND_RECEIVE && send_receive->to_next.rows <= 1 &&
                           send_receive->to_previous.rows <= 1 && send_receive->from_previous.rows <= 1 &&
                           send_receive->from_next.rows <= 1;
    if (of_tables && fault == FAULT_TABLE) { /* 0 comes */
        const struct tensor from =
            tensor_present(&send_receive->from_next) ? send_receive->from_next : send_receive->from_previous;
        plain->launch(executor, stream, OP_FILL, &(struct fill_args){.x = from, .value = 0});
        return;
    }
    plain->launch(executor, stream, op, args);
    if (op == OP_SEND_RECEIVE && fault == FAULT_LOST && tensor_present(&send_receive->from_next))
        plain->launch(executor, stream, OP_FILL, &(struct fill_args){.x = send_receive->from_next, .value = 0});
}

/* -- Layouts ----------------------------------------------------------------------------------------------------- */

static bool is_equal(struct comm *comm, const struct layout *layout, const struct form *form,
                     const struct run_outcome *alone)
{
    struct distances apart;
    const bool equal = layout_is_equal(comm, cpu, layout, form, alone, &bound_f32, &apart);
    if (comm->rank == 0 && fault == FAULT_NONE && (!equal || getenv("T_DISTANCES") != NULL))
        fprintf(stderr, "%s:\n    loss %.2e, norm %.2e, gradients %.2e and %.2e\n", team_text(comm->size, layout, form),
                apart.loss, apart.norm, apart.first, apart.last);
    return equal;
}

/* On the first `ranks` of all. */
static void check_layout(int ranks, const struct layout *layout, const struct form *form,
                         const struct run_outcome *alone, bool equal)
{
    struct comm *comm = comm_split(world, world->rank < ranks ? 0 : 1);
    CHECK(world->rank >= ranks || is_equal(comm, layout, form, alone) == equal);
    comm_destroy(comm);
}

static struct layout layout_of(int stages, int chunks, int shard)
{
    return (struct layout){.context = 1,
                           .shard = shard,
                           .sharding.level = shard > 1 ? SHARD_OPTIMIZER : SHARD_NONE,
                           .stages = stages,
                           .chunks = chunks};
}

/* Every model, of 8 layers in 2 to 10 parts (then embedding and head have one each), with data ranks or without, fewer
 * micro-batches than stages and more. */
static void test_models(void)
{
    static const struct {
        int stages, chunks, data, shard, micro_batches;
    } cases[] = {{2, 1, 1, 1, 4}, {2, 1, 4, 4, 1}, {2, 2, 2, 2, 4}, {3, 1, 1, 1, 2}, {3, 2, 2, 1, 3},
                 {4, 1, 2, 2, 2}, {4, 1, 1, 1, 7}, {4, 2, 1, 1, 4}, {4, 2, 2, 2, 4}, {5, 2, 1, 1, 5}};
    for (int kind = 0; kind < TOY_KINDS; kind++) {
        struct form form = {
            .kind = kind, .layers = 8, .packed = true, .micro_batches = 4, .slots = 1, .poisoned = true};
        struct run_outcome alone = train_alone(world, cpu, &form, false);
        for (int i = 0; i < LENGTH(cases); i++) {
            const struct layout layout = layout_of(cases[i].stages, cases[i].chunks, cases[i].shard);
            form.micro_batches = cases[i].micro_batches;
            check_layout(cases[i].stages * cases[i].data, &layout, &form, &alone, true);
        }
        outcome_destroy(&alone);
    }
}

/* One rank alone has the same micro-batches, so rounding is the same. */
static void test_others(void)
{
    static const struct form forms[] = {
        {.kind = TOY_LLAMA, .compute = DTYPE_BF16, .recipe = DECK_RECIPE_DELAYED, .replays = true},
        {.kind = TOY_ESM2, .recompute = DECK_RECOMPUTE_FULL, .replays = true},
        {.kind = TOY_AMPLIFY, .compute = DTYPE_BF16, .recipe = DECK_RECIPE_BLOCK, .recompute = DECK_RECOMPUTE_QKV}};
    for (int i = 0; i < LENGTH(forms); i++)
        for (int chunks = 1; chunks <= 2; chunks++) {
            struct form form = forms[i];
            form.layers = 4;
            form.packed = true;
            form.micro_batches = 4;
            form.slots = 1;
            struct run_outcome alone = train_alone(world, cpu, &form, false);
            const struct layout layout = layout_of(2, chunks, 1);
            check_layout(2, &layout, &form, &alone, true);
            outcome_destroy(&alone);
        }
}

/* Layers' activations wait in the host's memory, and ranks of a stage share what its parts hold: at each level, which
 * update reached which part, and when gradients that are cut are complete, is for each to know. */
static void test_parts(void)
{
    struct form form = {.kind = TOY_LLAMA_TIED,
                        .layers = 8,
                        .packed = true,
                        .micro_batches = 2,
                        .slots = 1,
                        .recompute = DECK_RECOMPUTE_NORMS,
                        .offloaded = true,
                        .replays = true};
    struct form form_alone = form;
    form_alone.offloaded = false;
    struct run_outcome alone = train_alone(world, cpu, &form_alone, false);
    for (enum shard_level level = SHARD_OPTIMIZER; level <= SHARD_FULL; level++)
        for (int chunks = 1; chunks <= 2; chunks++) {
            struct layout layout = layout_of(2, chunks, 2);
            layout.sharding.level = level;
            check_layout(4, &layout, &form, &alone, true);
        }
    outcome_destroy(&alone);
}

/* Each of a stage's parts quantizes its shards of weights after an update. (The first three layers are quantized,
 * the third is of a second part.) */
static void test_quantized_parts(void)
{
    struct form form = {.kind = TOY_LLAMA,
                        .layers = 4,
                        .packed = true,
                        .micro_batches = 2,
                        .compute = DTYPE_BF16,
                        .recipe = DECK_RECIPE_CURRENT,
                        .slots = 1};
    struct layout layout = layout_of(2, 2, 2);
    layout.sharding.level = SHARD_FULL;
    struct form form_alone = form;
    form_alone.micro_batches = 4; /* of as many rows */
    struct run_outcome alone = train_alone(world, cpu, &form_alone, false);
    check_layout(4, &layout, &form, &alone, true);
    outcome_destroy(&alone);
}

/* With rows and layers that ranks share; sums of gradients, recorded. */
static void test_splits(void)
{
    struct form form = {
        .kind = TOY_LLAMA_TIED, .layers = 4, .packed = true, .micro_batches = 2, .slots = 1, .replays = true};
    struct run_outcome alone = train_alone(world, cpu, &form, false);
    struct layout rows = layout_of(2, 2, 1), layers = layout_of(2, 1, 2);
    rows.context = 2;
    rows.method = DECK_CONTEXT_RING;
    check_layout(4, &rows, &form, &alone, true);
    layers.tensor = 2;
    check_layout(8, &layers, &form, &alone, true);
    outcome_destroy(&alone);
}

static void test_faults(void)
{
    struct executor_class faulty = *cpu->class;
    struct form form = {.kind = TOY_LLAMA_TIED, .layers = 4, .packed = true, .micro_batches = 4, .slots = 1};
    struct run_outcome alone = train_alone(world, cpu, &form, false);
    plain = cpu->class;
    faulty.launch = faulty_launch;
    cpu->class = &faulty;
    for (int chunks = 1; chunks <= 2; chunks++)
        for (fault = FAULT_NONE; fault <= FAULT_LOST; fault++) {
            const struct layout layout = layout_of(2, chunks, 1);
            check_layout(2, &layout, &form, &alone, fault == FAULT_NONE);
        }
    fault = FAULT_NONE;
    cpu->class = plain;
    outcome_destroy(&alone);
}

/* -- Order of streams --------------------------------------------------------------------------------------------- */

/* Nothing but events orders what a stage computes and what it sends: each is needed, but those that a later one of the
 * other way has done the work of. */
static void check_order(struct comm *comm, int chunks)
{
    enum { STEPS = 2, MICRO_BATCHES = 4 };
    const struct form form = {
        .kind = TOY_LLAMA, .layers = 4, .packed = true, .micro_batches = MICRO_BATCHES, .slots = 1};
    const struct layout layout = layout_of(2, chunks, 1);
    struct executor *plan = plan_executor_create(cpu);
    struct team team;
    team_create(&team, comm, plan, &layout, &form);
    plan_executor_clear(plan);
    for (int s = 0; s < STEPS; s++)
        team_step(&team, s);
    const struct plan_log *log = plan_executor_log(plan);
    CHECK(race_check(log, -1, NULL, 0) == 0);
    int waits = 0;
    int64_t known = -1; /* on STREAM_SEND, to whom computes */
    for (int64_t i = 0; i < log->count; i++) {
        const struct plan_entry *wait = &log->entries[i];
        if (wait->kind != PLAN_WAIT ||
            (wait->stream != STREAM_SEND && log->entries[wait->record].stream != STREAM_SEND))
            continue;
        const bool needed = wait->stream == STREAM_SEND || wait->record > known;
        CHECK((race_check(log, i, NULL, 0) > 0) == needed);
        known = wait->stream == STREAM_SEND || !needed ? known : wait->record;
        waits++;
    }
    /* of each message that it is there; of each but the first of a way that the one before is taken */
    const int messages = STEPS * MICRO_BATCHES * (2 * chunks - 1), ways = chunks > 1 ? 2 : 1;
    CHECK(waits == 2 * messages - ways);
    team_destroy(&team);
    plan->class->destroy(plan);
}

static void test_order(void)
{
    struct comm *comm = comm_split(world, world->rank < 2 ? 0 : 1);
    for (int chunks = 1; chunks <= 2 && world->rank < 2; chunks++)
        check_order(comm, chunks);
    comm_destroy(comm);
}

/* -- Sends that wait --------------------------------------------------------------------------------------------- */

static const struct comm_class *plain_comm;
static struct comm *receipts; /* of the same ranks */

/* Who has received says so, and who has sent waits for it. */
static void send_receive_with_receipt(struct comm *comm, void *const data[TRANSFER_DIRECTIONS],
                                      const int64_t bytes[TRANSFER_DIRECTIONS])
{
    char receipt[TRANSFER_DIRECTIONS];
    void *const at[TRANSFER_DIRECTIONS] = {&receipt[0], &receipt[1], &receipt[2], &receipt[3]};
    const int64_t received[TRANSFER_DIRECTIONS] = {[SEND_TO_NEXT] = bytes[RECEIVE_FROM_NEXT] > 0,
                                                   [RECEIVE_FROM_NEXT] = bytes[SEND_TO_NEXT] > 0,
                                                   [SEND_TO_PREVIOUS] = bytes[RECEIVE_FROM_PREVIOUS] > 0,
                                                   [RECEIVE_FROM_PREVIOUS] = bytes[SEND_TO_PREVIOUS] > 0};
    plain_comm->send_receive(comm, data, bytes);
    plain_comm->send_receive(receipts, at, received);
}

static int hang(void)
{
    const struct form form = {.kind = TOY_LLAMA, .layers = 4, .packed = true, .micro_batches = 4, .slots = 1};
    const struct layout layout = layout_of(2, 1, 1);
    struct comm_class waiting;
    struct team team;
    comm_set_timeout(3);
    team_create(&team, world, cpu, &layout, &form);
    plain_comm = team.grid.stages->class;
    receipts = comm_split(world, 0);
    waiting = *plain_comm;
    waiting.send_receive = send_receive_with_receipt;
    team.grid.stages->class = &waiting;
    team_step(&team, 0);
    fprintf(stderr, "nothing hangs\n");
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "hang") != 0)
        check_unknown_argument(argv[1], "hang");
    MPI_Init(&argc, &argv);
    world = comm_open_mpi();
    cpu = cpu_executor_create(1);
    if (argc > 1)
        return hang();
    test_models();
    test_others();
    test_parts();
    test_quantized_parts();
    test_splits();
    test_faults();
    test_order();
    cpu->class->destroy(cpu);
    comm_destroy(world);
    MPI_Finalize();
    return check_end();
}
