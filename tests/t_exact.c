/* With train.reproducible the bits of losses, norms, gradients and digests do not depend on the layout: 1, 2, 3, 4 and
 * 6 ranks, every sharding level, sharding groups that are split by nodes. Injected faults: gradients, squares or losses
 * summed in fp32 or in a plain order.
 *
 * ranks: 8 */
#include "check.h"

#include "cpu/cpu.h"
#include "checkpoint/checkpoint.h"
#include "ref/team.h"
#include "ref/wrapper.h"

#include <mpi.h>
#include <xxhash.h>

static struct comm *world;
static struct executor *cpu;

/* What a training leaves that must have the same bits in all layouts. The f64 sums show what a norm of fp32 hides. */
struct exact_outcome {
    double losses[TEAM_STEPS], norms[TEAM_STEPS];
    uint64_t first, last; /* hashes of gradients */
    uint64_t sums;        /* of losses, labels and squares in the last step */
    uint64_t digest;      /* of weights and moments after it */
};

enum inexact { EXACT, INEXACT_GRADIENTS, INEXACT_SQUARES, INEXACT_LOSSES, INEXACT_COUNT };

struct inexact_planter {
    enum inexact fault;
    int64_t launched;
};

/* Gradients, or the losses of micro-batches, are added in fp32; squares are summed in one order from the first of a cut
 * to its last. (Losses of so few tokens have few bits: in f64 their plain sums are exact by themselves.) */
static void plant_inexact(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args)
{
    struct inexact_planter *p = wrapper->self;
    const struct exact_add_args *add = args;
    const bool adds = op == OP_EXACT_ADD, gradient = adds && stream->id == STREAM_REDUCE;
    if (p->fault == INEXACT_LOSSES && adds && !gradient) {
        for (int64_t i = 0; i < add->to.cols; i++)
            ((double *)add->to.data)[i] = (float)(((double *)add->to.data)[i] + ((double *)add->from.data)[i]);
        p->launched++;
        return;
    }
    wrapper_pass(wrapper, stream, op, args);
    if (p->fault == INEXACT_GRADIENTS && gradient) {
        for (int64_t i = 0; i < add->to.cols; i++)
            ((double *)add->to.data)[i] = (double)(float)((double *)add->to.data)[i];
        p->launched++;
    }
    if (p->fault == INEXACT_SQUARES && op == OP_SUM_SQUARES) {
        const struct sum_squares_args *a = args;
        double *sum = a->sum.data;
        sum[0] = sum[1] = sum[2] = 0;
        for (int64_t i = 0; i < a->x.cols; i++)
            sum[0] += (double)((float *)a->x.data)[i] * (double)((float *)a->x.data)[i];
        p->launched++;
    }
}

/* places: micro-batches of a step, over all ranks. */
static struct exact_outcome train_exactly(struct comm *comm, struct layout layout, struct form form, int places,
                                          enum inexact fault)
{
    struct inexact_planter planter = {.fault = fault};
    struct wrapper wrapper;
    struct team team;
    wrapper_create(&wrapper, cpu, plant_inexact, &planter);
    form.micro_batches = places * layout.context / comm->size;
    form.poisoned = true;
    layout.sharding.exact = exact_quanta_of(TEAM_ROWS * TEAM_ROW_TOKENS, 2.0 * places * layout.context);
    team_create(&team, comm, fault != EXACT ? &wrapper.executor : cpu, &layout, &form);
    struct run_outcome outcome = team_train(&team);
    const struct tensor sums = team.toy.engine.sums;
    const size_t bytes = (size_t)outcome.elements * sizeof(float);
    CHECK(outcome.agree && (comm_sum_i64(comm, planter.launched) > 0) == (fault != EXACT));
    struct exact_outcome found = {.first = XXH3_64bits(outcome.first, bytes),
                                  .last = XXH3_64bits(outcome.last, bytes),
                                  .sums = XXH3_64bits(sums.data, (size_t)tensor_extent(&sums)),
                                  .digest = checkpoint_digest(comm, &team.toy.engine)};
    memcpy(found.losses, outcome.losses, sizeof found.losses);
    memcpy(found.norms, outcome.norms, sizeof found.norms);
    outcome_destroy(&outcome);
    team_destroy(&team);
    return found;
}

static bool same_bits(const struct exact_outcome *a, const struct exact_outcome *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* On as many ranks as wanted, the first of the world, a training that all others are compared with. */
static struct exact_outcome first_exactly(int ranks, int context, const struct form *form, int places)
{
    struct comm *comm = comm_split(world, world->rank < ranks ? 0 : 1);
    struct exact_outcome found = {.digest = 0};
    const struct layout layout = {.context = context, .shard = 1, .method = DECK_CONTEXT_GATHER};
    if (world->rank < ranks)
        found = train_exactly(comm, layout, *form, places, EXACT);
    comm_destroy(comm);
    comm_broadcast(world, &found, sizeof found, 0);
    return found;
}

/* The ranks of a sharding group that count as one node: all, or a half or a third of them where gradients are cut. */
static int next_near(const struct layout *layout)
{
    for (int near = layout->near == 0 ? layout->shard - 1 : layout->near - 1; near > 1; near--)
        if (layout->shard % near == 0 && sharding_shards_gradients(&layout->sharding))
            return near;
    return 0;
}

/* Each level on so many ranks, one group of all and groups of two. Groups of all are also divided by nodes. */
static int try_exact_layouts(struct comm *comm, int context, const struct form *form, int places,
                             const struct exact_outcome *expected)
{
    int count = 0;
    if (comm->size % context != 0 || places * context % comm->size != 0)
        return 0;
    for (int level = 0; level < TEAM_SHARDINGS; level++)
        for (int shard = comm->size; shard > 0; shard = shard > 2 && comm->size % 2 == 0 ? 2 : 0) {
            struct layout layout = {.context = context,
                                    .shard = level == 0 ? 1 : shard,
                                    .method = DECK_CONTEXT_GATHER,
                                    .sharding = team_shardings[level]};
            do {
                const struct exact_outcome found = train_exactly(comm, layout, *form, places, EXACT);
                if (!CHECK(same_bits(&found, expected)) && comm->rank == 0)
                    fprintf(stderr, "    not the same bits: %s, nodes of %d; norm %.17g for %.17g\n",
                            team_text(comm->size, &layout, form), layout.near, found.norms[0], expected->norms[0]);
                count++;
                layout.near = next_near(&layout);
            } while (layout.near > 0);
        }
    return count;
}

/* The bits of losses, norms, gradients, weights and moments do not depend on who computes which micro-batch, nor on who
 * holds what; without exact sums they do. */
static void test_exact(void)
{
    const struct form llama = {.kind = TOY_LLAMA_TIED, .packed = true, .slots = 1};
    const struct form esm2 = {.kind = TOY_ESM2, .compute = DTYPE_BF16, .recipe = DECK_RECIPE_DELAYED, .slots = 1};
    const struct {
        const struct form *form;
        int places, context;
    } trials[] = {{&llama, 12, 1}, {&esm2, 4, 1}, {&llama, 4, 2}};
    static const int side_by_side[][4] = {{4, 3, 1}, {2, 6}};
    int count = 0;
    for (int t = 0; t < LENGTH(trials); t++) {
        const int places = trials[t].places, context = trials[t].context;
        const struct exact_outcome expected = first_exactly(context, context, trials[t].form, places);
        for (int i = 0; i < LENGTH(side_by_side); i++) {
            struct comm *comm = team_comm(world, side_by_side[i]);
            count += try_exact_layouts(comm, context, trials[t].form, places, &expected);
            if (t == 0 && comm->size == 4)
                for (enum inexact fault = EXACT + 1; fault < INEXACT_COUNT; fault++) {
                    const struct layout layout = {
                        .context = 1, .shard = 2, .method = DECK_CONTEXT_GATHER, .sharding.level = SHARD_GRADIENTS};
                    const struct exact_outcome found = train_exactly(comm, layout, *trials[t].form, places, fault);
                    if (!CHECK(!same_bits(&found, &expected)) && comm->rank == 0)
                        fprintf(stderr, "    inexact sums number %d went unnoticed\n", (int)fault);
                }
            comm_destroy(comm);
        }
    }
    CHECK(comm_sum_i64(world, count) > 0);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    world = comm_open_mpi();
    cpu = cpu_executor_create(1);
    cpu->copies = true; /* as devices do, so that sums have scratch */
    test_exact();
    cpu->class->destroy(cpu);
    comm_destroy(world);
    MPI_Finalize();
    return check_end();
}
