/* Trainings whose every step has another layout, through checkpoints, have one rank's losses: other ranks, stages and
 * shards. A layout reads what another wrote to the bit, and writing in the background gives the same file.
 *
 * ranks: 8 */
#include "check.h"
#include "rank_folder.h"

#include "cpu/cpu.h"
#include "checkpoint/checkpoint.h"
#include "ref/team.h"
#include "state/initialise.h"
#include "state/snapshot.h"

#include <mpi.h>
#include <stdlib.h>

static struct comm *world;
static struct executor *cpu;
static char *folder; /* of this test's files */

/* -- A link ------------------------------------------------------------------------------------------------------ */

/* What the ranks of a link leave to those of the next. */
struct left {
    uint64_t digest;
    int64_t elements;
    float *states[TEAM_STATES];
};

/* What a thread writes beside is what a step would have written, though the state is another by then, to the bit. */
static void check_beside(struct comm *comm, struct team *team, const struct checkpoint_meta *meta, const char *all)
{
    char *beside = memory_format("%s/beside.h5", folder);
    struct engine *e = &team->toy.engine;
    struct snapshot snapshot;
    struct checkpoint_save *save;
    struct checkpoint_written written = {0};
    const uint64_t digest = checkpoint_digest(comm, e);
    snapshot_create(&snapshot, e);
    snapshot.exchange_bytes = 1; /* one share a call */
    CHECK(checkpoint_begin(&save, comm, e, meta, beside, true, &snapshot) == ERROR_NONE);
    snapshot_taken(&snapshot, true);
    CHECK(team->grid.tensor->size == 1 || comm_sum_i64(comm, snapshot.share_count - snapshot.shares_exchanged) > 0);
    team_step(team, 0); /* any */
    for (int i = 0; i < 3; i++)
        checkpoint_ready(save); /* checkpoint_end exchanges the rest */
    CHECK(checkpoint_end(save, &written) == ERROR_NONE && written.digest == digest);
    CHECK(checkpoint_digest(comm, e) != digest);
    snapshot_destroy(&snapshot);
    char *command = memory_format("cmp '%s' '%s' && cmp '%s.xxh3' '%s.xxh3'", all, beside, all, beside);
    CHECK(comm->rank != 0 || system(command) == 0);
    free(command);
    free(beside);
}

static void leave(struct comm *comm, struct team *team, struct left *left)
{
    struct checkpoint_meta meta = {.deck_text = (char *)"", .version = "0", .tokenizer = "nucleotide"};
    meta.position = blend_position_create(1);
    char *all = memory_format("%s/all.h5", folder), *weights = memory_format("%s/weights.h5", folder);
    CHECK(checkpoint_write(comm, &team->toy.engine, &meta, all, true) == ERROR_NONE);
    CHECK(checkpoint_write(comm, &team->toy.engine, &meta, weights, false) == ERROR_NONE);
    left->digest = checkpoint_digest(comm, &team->toy.engine);
    for (enum team_state state = TEAM_WEIGHT; state < TEAM_STATES; state++)
        CHECK(team_gather(team, state, left->states[state]));
    check_beside(comm, team, &meta, all); /* last: it goes on by a step */
    blend_position_destroy(&meta.position);
    free(all);
    free(weights);
}

static bool same_parameters(const struct team *team, const float *a, const float *b)
{
    bool same = true;
    int64_t at = 0;
    for (int u = 0; u < team->whole.unit_count; u++) {
        const struct unit *unit = &team->whole.units[u];
        for (int i = 0; i < unit->parameter_count; i++) {
            const struct parameter *p = &unit->parameters[i];
            const int64_t first = at + p->offset + (p->storage == STORAGE_VECTOR ? unit->elements[STORAGE_MATRIX] : 0);
            same &= memcmp(a + first, b + first, (size_t)(p->part.rows * p->part.cols) * sizeof *a) == 0;
        }
        at += unit->elements[STORAGE_MATRIX] + unit->elements[STORAGE_VECTOR];
    }
    return same;
}

static bool has_state(struct team *team, enum team_state state, const struct left *left)
{
    float *whole = memory_allocate(team->elements * (int64_t)sizeof *whole);
    const bool agree = team_gather(team, state, whole);
    const bool same = agree && same_parameters(team, whole, left->states[state]);
    memory_free(whole);
    return same;
}

/* First weights alone, then all. */
static void take_up(struct comm *comm, struct team *team, const struct left *left, int updates)
{
    struct engine *engine = &team->toy.engine;
    char *all = memory_format("%s/all.h5", folder), *weights = memory_format("%s/weights.h5", folder);
    CHECK(checkpoint_read(comm, engine, weights, false) == ERROR_NONE && has_state(team, TEAM_WEIGHT, left));
    CHECK(checkpoint_read(comm, engine, all, true) == ERROR_NONE && engine_updates(engine) == updates);
    for (enum team_state state = TEAM_WEIGHT; state < TEAM_STATES; state++)
        CHECK(has_state(team, state, left));
    CHECK(checkpoint_digest(comm, engine) == left->digest);
    free(all);
    free(weights);
}

struct link {
    int ranks;
    struct layout layout;
};

/* Losses are those of one rank that never stopped; what a layout wrote, the next reads, to the bit. */
static void test_chain(const struct link links[TEAM_STEPS], struct form form, bool no_masters)
{
    struct run_outcome alone = train_alone(world, cpu, &form, no_masters), exact = alone;
    struct left left = {.elements = alone.elements};
    double bound = bound_f32.loss, losses[TEAM_STEPS];
    if (form.compute != DTYPE_F32) {
        struct form plain = form;
        plain.compute = DTYPE_F32;
        exact = train_alone(world, cpu, &plain, false);
        const struct distances one = {.loss = check_apart(alone.losses, exact.losses, TEAM_STEPS)};
        bound = bound_of_rounding(&one).loss;
        outcome_destroy(&exact);
    }
    for (enum team_state state = TEAM_WEIGHT; state < TEAM_STATES; state++)
        left.states[state] = memory_allocate(left.elements * (int64_t)sizeof(float));
    for (int i = 0; i < TEAM_STEPS; i++) {
        struct comm *comm = comm_split(world, world->rank < links[i].ranks ? 0 : 1);
        if (world->rank < links[i].ranks) {
            struct layout layout = links[i].layout;
            struct team team;
            layout.sharding.no_masters = no_masters;
            team_create(&team, comm, cpu, &layout, &form);
            if (i > 0)
                take_up(comm, &team, &left, i);
            const struct engine_result result = team_step(&team, i);
            losses[i] = result.loss_sum / result.labels;
            leave(comm, &team, &left);
            team_destroy(&team);
        }
        comm_destroy(comm);
        comm_broadcast(world, &left.digest, sizeof left.digest, 0);
        for (enum team_state state = TEAM_WEIGHT; state < TEAM_STATES; state++)
            comm_broadcast(world, left.states[state], left.elements * (int64_t)sizeof(float), 0);
    }
    const double apart = check_apart(losses, alone.losses, TEAM_STEPS);
    if (world->rank == 0 && !CHECK(apart <= bound))
        fprintf(stderr, "    a chain of layouts in %s: losses %.2e apart\n", dtype_name(form.compute), apart);
    for (enum team_state state = TEAM_WEIGHT; state < TEAM_STATES; state++)
        memory_free(left.states[state]);
    outcome_destroy(&alone);
}

static void test_chains(void)
{
    static const struct sharding none = {.level = SHARD_NONE}, optimizer = {.level = SHARD_OPTIMIZER},
                                 gradients = {.level = SHARD_GRADIENTS}, full = {.level = SHARD_FULL};
    const struct link first[] = {
        {6, {.context = 1, .shard = 2, .method = DECK_CONTEXT_GATHER, .sharding = optimizer, .stages = 3, .chunks = 1}},
        {8, {.context = 2, .shard = 4, .method = DECK_CONTEXT_HEADS, .sharding = full}},
        {3, {.context = 1, .shard = 1, .sharding = none, .tensor = 3}}, /* 40 tokens: 14, 13 and 13 */
        {4, {.context = 2, .shard = 1, .method = DECK_CONTEXT_RING, .sharding = none, .stages = 2, .chunks = 1}},
        {6, {.context = 3, .shard = 2, .method = DECK_CONTEXT_RING, .sharding = gradients}}};
    const struct link second[] = {
        {6, {.context = 1, .shard = 6, .method = DECK_CONTEXT_GATHER, .sharding = full}},
        {4, {.context = 1, .shard = 2, .method = DECK_CONTEXT_GATHER, .sharding = full, .tensor = 2}},
        {4, {.context = 1, .shard = 2, .method = DECK_CONTEXT_GATHER, .sharding = full, .stages = 2, .chunks = 2}},
        {8, {.context = 2, .shard = 8, .method = DECK_CONTEXT_RING, .sharding = optimizer}},
        {4, {.context = 4, .shard = 2, .method = DECK_CONTEXT_GATHER, .sharding = full}}};
    const struct link third[] = {
        {4, {.context = 1, .shard = 1, .sharding = none, .tensor = 4}},
        {8, {.context = 1, .shard = 2, .sharding = optimizer, .tensor = 2, .stages = 2, .chunks = 1}},
        {8, {.context = 1, .shard = 2, .sharding = full, .tensor = 4}},
        {4, {.context = 1, .shard = 1, .sharding = none, .tensor = 2, .stages = 2, .chunks = 1}},
        {8, {.context = 2, .shard = 2, .method = DECK_CONTEXT_RING, .sharding = gradients, .tensor = 2}}};
    test_chain(third, (struct form){.kind = TOY_ESM2, .packed = true, .micro_batches = 1, .slots = 1}, false);
    test_chain(third, (struct form){.kind = TOY_MIXTRAL, .packed = true, .micro_batches = 1, .slots = 1}, false);
    test_chain(first, (struct form){.kind = TOY_ESM2, .packed = true, .micro_batches = 1, .slots = 1}, false);
    test_chain(second, (struct form){.kind = TOY_LLAMA_TIED, .micro_batches = 2, .compute = DTYPE_BF16, .slots = 1},
               false);
    test_chain(
        second,
        (struct form){
            .kind = TOY_ESM2, .micro_batches = 2, .compute = DTYPE_BF16, .recipe = DECK_RECIPE_DELAYED, .slots = 1},
        false);
    test_chain(second, (struct form){.kind = TOY_AMPLIFY, .micro_batches = 2, .compute = DTYPE_BF16, .slots = 1}, true);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    world = comm_open_mpi();
    cpu = cpu_executor_create(1);
    cpu->copies = true; /* as devices do, so that sums have scratch */
    folder = rank_folder_create(world, "t_reshard");
    test_chains();
    rank_folder_remove(world, folder);
    cpu->class->destroy(cpu);
    comm_destroy(world);
    MPI_Finalize();
    return check_end();
}
