/* Layouts: however 1, 2, 3, 4, 6 and 8 ranks divide rows and state, losses and gradients are those of one rank that
 * holds everything. Run on 8 ranks. */
#include "check.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "cpu/cpu.h"
#include "io/checkpoint.h"
#include "model/attention.h"
#include "plan/plan.h"
#include "plan/race.h"
#include "plan/record.h"
#include "ref/team.h"
#include "ref/wrapper.h"
#include "step/initialise.h"
#include "step/snapshot.h"

#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>

static struct comm *world, *self;
static struct executor *cpu;

/* -- One layout -------------------------------------------------------------------------------------------------- */

/* The largest distances of all, as shares of their bounds. */
static struct distances worst;

static void check_layout(struct comm *comm, const struct layout *layout, const struct form *form,
                         const struct outcome *alone, const struct distances *bound)
{
    struct distances apart;
    const bool equal = layout_is_equal(comm, cpu, layout, form, alone, bound, &apart);
    worst.loss = fmax(worst.loss, apart.loss / bound->loss);
    worst.norm = fmax(worst.norm, apart.norm / bound->norm);
    worst.first = fmax(worst.first, apart.first / bound->first);
    worst.last = fmax(worst.last, apart.last / bound->last);
    if (comm->rank == 0 && (!equal || getenv("T_DISTANCES") != NULL))
        fprintf(stderr, "%s:\n    loss %.2e of %.2e, norm %.2e of %.2e, gradients %.2e of %.2e and %.2e of %.2e\n",
                team_text(comm->size, layout, form), apart.loss, bound->loss, apart.norm, bound->norm, apart.first,
                bound->first, apart.last, bound->last);
    CHECK(equal);
}

/* -- Axes -------------------------------------------------------------------------------------------------------- */

static const int sizes[] = {1, 2, 3, 4, 6, 8};
/* Ranks to a layer; with whole rows. */
static const struct {
    int ranks;
    bool whole_rows;
} tensors[] = {{1, false}, {2, false}, {2, true}, {3, false}, {4, false}, {4, true}, {6, false}, {8, false}};
static const enum deck_context methods[] = {DECK_CONTEXT_GATHER, DECK_CONTEXT_HEADS, DECK_CONTEXT_RING};
static const struct {
    enum dtype compute;
    int recipe; /* enum deck_recipe */
    bool bf16_sums, no_masters;
} numbers[] = {{DTYPE_F32, DECK_RECIPE_NONE, false, false},    {DTYPE_BF16, DECK_RECIPE_NONE, false, false},
               {DTYPE_BF16, DECK_RECIPE_BLOCK, false, false},  {DTYPE_BF16, DECK_RECIPE_NONE, true, false},
               {DTYPE_BF16, DECK_RECIPE_NONE, false, true},    {DTYPE_BF16, DECK_RECIPE_BLOCK, true, true},
               {DTYPE_BF16, DECK_RECIPE_CURRENT, false, false}};
static const struct {
    enum deck_recompute recompute;
    int slots;
    bool split;
} memories[] = {{DECK_RECOMPUTE_NONE, 1, false},
                {DECK_RECOMPUTE_NORMS, 2, true},
                {DECK_RECOMPUTE_QKV, 2, false},
                {DECK_RECOMPUTE_FULL, 1, false}};
static const int micro_batches[] = {1, 3};
/* Stages, and parts of each; the first is none. */
static const struct {
    int stages, chunks;
} pipelines[] = {{1, 1}, {2, 1}, {2, 2}, {3, 2}, {4, 2}, {8, 1}};
enum { PIPELINE_LAYERS = 6 /* embedding and head are parts too */ };

enum axis {
    RANKS,
    CONTEXT,
    SHARD,
    SHARDING,
    METHOD,
    KIND,
    GATHERS,
    PACKED,
    MICRO,
    NUMBERS,
    MEMORY,
    REPLAYS,
    TENSOR,
    PIPELINE,
    AXES
};
enum { LAYOUT_AXES = KIND };
#define LENGTH(array) ((int)(sizeof(array) / sizeof(array)[0]))
static const int axis_values[AXES] = {LENGTH(sizes),
                                      LENGTH(sizes),
                                      LENGTH(sizes),
                                      TEAM_SHARDINGS,
                                      LENGTH(methods),
                                      TOY_KINDS,
                                      2,
                                      2,
                                      LENGTH(micro_batches),
                                      LENGTH(numbers),
                                      LENGTH(memories),
                                      2,
                                      LENGTH(tensors),
                                      LENGTH(pipelines)};
enum { MOST_VALUES = 8 };

/* A layout and a form: the number of a value on each axis. */
struct trial_case {
    int at[AXES];
};

/* Number `index` of the product of the first `axes` axes; the others have their first value. */
static struct trial_case case_of(int64_t index, int axes)
{
    struct trial_case c = {0};
    for (int a = 0; a < axes; a++) {
        c.at[a] = (int)(index % axis_values[a]);
        index /= axis_values[a];
    }
    return c;
}

static int64_t product(int axes)
{
    int64_t cases = 1;
    for (int a = 0; a < axes; a++)
        cases *= axis_values[a];
    return cases;
}

static struct layout layout_of(const struct trial_case *c)
{
    struct layout layout = {.context = sizes[c->at[CONTEXT]],
                            .shard = sizes[c->at[SHARD]],
                            .method = methods[c->at[METHOD]],
                            .sharding = team_shardings[c->at[SHARDING]],
                            .tensor = tensors[c->at[TENSOR]].ranks,
                            .whole_rows = tensors[c->at[TENSOR]].whole_rows,
                            .stages = pipelines[c->at[PIPELINE]].stages,
                            .chunks = pipelines[c->at[PIPELINE]].chunks};
    layout.sharding.bf16_sums = numbers[c->at[NUMBERS]].bf16_sums;
    layout.sharding.no_masters = numbers[c->at[NUMBERS]].no_masters;
    return layout;
}

/* Chunks have as many in turn as there are stages. */
static int micro_batches_of(const struct trial_case *c)
{
    const int turn = pipelines[c->at[PIPELINE]].chunks > 1 ? pipelines[c->at[PIPELINE]].stages : 1;
    return turn == 1 ? micro_batches[c->at[MICRO]] : (1 + c->at[MICRO]) * turn;
}

static struct form form_of(const struct trial_case *c)
{
    return (struct form){.kind = (enum toy_kind)c->at[KIND],
                         .layers = c->at[PIPELINE] > 0 ? PIPELINE_LAYERS : 0,
                         .gathers = c->at[GATHERS] == 1,
                         .packed = c->at[PACKED] == 0,
                         .micro_batches = micro_batches_of(c),
                         .compute = numbers[c->at[NUMBERS]].compute,
                         .recipe = numbers[c->at[NUMBERS]].recipe,
                         .recompute = memories[c->at[MEMORY]].recompute,
                         .slots = memories[c->at[MEMORY]].slots,
                         .split_backward = memories[c->at[MEMORY]].split,
                         .replays = c->at[REPLAYS] == 1};
}

/* Is there such a layout? What does not matter in it has its first value. */
static bool is_possible(const struct trial_case *c)
{
    const struct layout layout = layout_of(c);
    const int ranks = sizes[c->at[RANKS]];
    const int left = ranks / layout.tensor / layout.stages;
    if (ranks % (layout.tensor * layout.stages) != 0 || left % layout.context != 0 || left % layout.shard != 0)
        return false;
    if (layout.sharding.level == SHARD_NONE && (layout.shard > 1 || layout.sharding.bf16_sums))
        return false;
    const struct form form = form_of(c);
    if (layout.stages > 1 && form.split_backward)
        return false;
    const struct model_settings settings = team_settings(&layout, &form);
    if (form.recipe != DECK_RECIPE_NONE && (TEAM_ROW_TOKENS / layout.context % 4 != 0 || model_ffn(&settings) % 4 != 0))
        return false; /* scales lie in rows of a multiple of 4; decks have rows of more */
    const bool divides = layer_cut_check(&settings, "tensor") == ERROR_NONE && attention_check(&settings) == ERROR_NONE;
    error_clear();
    return divides && (layout.context > 1 || c->at[METHOD] == 0);
}

/* -- All layouts of one form, a spread of the rest --------------------------------------------------------------- */

/* Layers that are cut or dealt out have nothing to do with when gradients are summed, nor with how attention sees a
 * row: one way of these is enough. */
static bool is_alike(const struct trial_case *c)
{
    return (c->at[TENSOR] > 0 || c->at[PIPELINE] > 0) &&
           (team_shardings[c->at[SHARDING]].whole_gradients || c->at[METHOD] > 0);
}

/* With NaN wherever nothing is held. */
static int try_all_layouts(struct comm *comm, struct form form, const struct outcome *alone, int pipeline)
{
    int count = 0;
    form.poisoned = true;
    for (int64_t i = 0; i < product(LAYOUT_AXES) * LENGTH(tensors); i++) {
        struct trial_case c = case_of(i / LENGTH(tensors), LAYOUT_AXES);
        c.at[TENSOR] = (int)(i % LENGTH(tensors));
        c.at[PIPELINE] = pipeline;
        form.layers = form_of(&c).layers;
        form.micro_batches = pipeline > 0 ? micro_batches_of(&c) : form.micro_batches;
        if (sizes[c.at[RANKS]] != comm->size || is_alike(&c) || !is_possible(&c))
            continue;
        const struct layout layout = layout_of(&c);
        check_layout(comm, &layout, &form, alone, &bound_f32);
        count++;
    }
    return count;
}

/* Which values of two of the first axes have not met yet. */
struct pairs {
    bool open[AXES][MOST_VALUES][AXES][MOST_VALUES];
};

static int open_pairs(const struct pairs *pairs, const struct trial_case *c, int axes)
{
    int count = 0;
    for (int a = 0; a < axes; a++)
        for (int b = 0; b < a; b++)
            count += pairs->open[a][c->at[a]][b][c->at[b]];
    return count;
}

static void set_pairs(struct pairs *pairs, const struct trial_case *c, int axes, bool open)
{
    for (int a = 0; a < axes; a++)
        for (int b = 0; b < a; b++)
            pairs->open[a][c->at[a]][b][c->at[b]] = open;
}

static int open_pairs_left(const struct pairs *pairs)
{
    const bool *open = &pairs->open[0][0][0][0];
    int count = 0;
    for (size_t i = 0; i < sizeof *pairs / sizeof *open; i++)
        count += open[i];
    return count;
}

enum { MOST_CASES = 400 };

/* With all layers whole and on each rank; those that are cut; those that are dealt out to stages. */
enum spread { SPREAD_WHOLE, SPREAD_CUT, SPREAD_DEALT, SPREADS };

static bool is_of(enum spread spread, const struct trial_case *c)
{
    return spread == SPREAD_DEALT ? c->at[PIPELINE] > 0
                                  : c->at[PIPELINE] == 0 && (c->at[TENSOR] > 0) == (spread == SPREAD_CUT);
}

/* Adds cases in which each value of each axis meets each of every other, if it can. Those that have many new pairs come
 * first. */
static int64_t add_spread(struct trial_case cases[MOST_CASES], int64_t count, enum spread spread)
{
    enum { MOST_TRIED = 8000000 };
    const int axes = spread == SPREAD_WHOLE ? TENSOR : spread == SPREAD_CUT ? PIPELINE : AXES;
    static const int wanted[] = {50, 40, 30, 22, 16, 12, 8, 6, 4, 3, 2, 1};
    static struct pairs pairs;
    const int64_t all = product(axes), tried = all < MOST_TRIED ? all : MOST_TRIED, first = count,
                  stride = 7919; /* a prime: neighbours in the list are not alike */
    int64_t *possible = memory_allocate(tried * (int64_t)sizeof *possible), possible_count = 0;
    memset(&pairs, 0, sizeof pairs);
    for (int64_t i = 0; i < tried; i++) {
        const int64_t index = i * stride % all;
        const struct trial_case c = case_of(index, axes);
        if (!is_of(spread, &c) || !is_possible(&c))
            continue;
        set_pairs(&pairs, &c, axes, true);
        possible[possible_count++] = index;
    }
    for (int w = 0; w < LENGTH(wanted); w++) {
        for (int64_t i = 0; i < possible_count; i++) {
            const struct trial_case c = case_of(possible[i], axes);
            if (open_pairs(&pairs, &c, axes) < wanted[w])
                continue;
            if (count == MOST_CASES)
                error_fatal("t_layouts: more than %d cases", MOST_CASES);
            set_pairs(&pairs, &c, axes, false);
            cases[count++] = c;
        }
    }
    memory_free(possible);
    CHECK(count - first > 40 && open_pairs_left(&pairs) == 0);
    return count;
}

/* Of other numbers. Where rows are not cut, the first gradients are only summed in another order; a weight that is
 * rounded the other way after it is rare. Where rows are cut or gradients are bf16, what is rounded differs everywhere:
 * then both are about as far from fp32, and the sum of both ways from each other; the loss of few labels varies more,
 * by half a unit of bf16. */
static struct distances bound_of(const struct layout *layout, const struct form *form, const struct outcome *alone,
                                 const struct outcome *exact)
{
    struct model model;
    struct model_settings settings = team_settings(layout, form);
    settings.layer = (struct layer_cut){0};
    model_create(&model, &settings, 1, 1);
    struct distances bound = outcome_apart(alone, exact, &model);
    model_destroy(&model);
    if (layout->context == 1 && layout->tensor <= 1 && !layout->sharding.bf16_sums && !layout->sharding.no_masters)
        return (struct distances){bound.loss / 4, bound.norm / 4, bound_f32.first, bound.last / 4};
    const double both = 1 + 1.5; /* as t_golden allows */
    return (struct distances){fmax(both * bound.loss, 0x1p-9), both * bound.norm, both * bound.first,
                              both * bound.last};
}

static struct distances larger(struct distances a, struct distances b)
{
    return (struct distances){fmax(a.loss, b.loss), fmax(a.norm, b.norm), fmax(a.first, b.first), fmax(a.last, b.last)};
}

/* Where layers are cut, sums within products are too. How far that may go is found with one rank that cuts its rows
 * into other micro-batches: its first gradients are summed in another order, and after these steps it is as far away as
 * such a change brings it. */
static struct distances bound_of_cut(struct comm *comm, const struct layout *layout, const struct form *form_alone,
                                     const struct outcome *alone, const struct outcome *exact)
{
    struct form other = *form_alone;
    other.micro_batches = form_alone->micro_batches == 1 ? 2 : 1;
    struct outcome again = train_alone(comm, cpu, &other, layout->sharding.no_masters);
    struct distances bound = bound_f32;
    if (form_alone->compute == DTYPE_F32)
        bound.last = fmax(bound.last, bound_of(layout, form_alone, &again, alone).last);
    else
        bound = larger(bound_of(layout, form_alone, alone, exact), bound_of(layout, form_alone, &again, exact));
    outcome_destroy(&again);
    return bound;
}

/* One rank alone has the same micro-batches one after the other that ranks have at a time, since blocks of 8-bit
 * numbers do not reach beyond one. */
static void try_case(struct comm *comm, const struct trial_case *c)
{
    const struct layout layout = layout_of(c);
    const struct form form = form_of(c);
    struct form form_alone = form, plain;
    form_alone.replays = false;
    form_alone.micro_batches *= comm->size / layout.tensor / layout.context / layout.stages;
    plain = form_alone;
    plain.compute = DTYPE_F32;
    plain.recipe = DECK_RECIPE_NONE;
    struct outcome alone = train_alone(comm, cpu, &form_alone, layout.sharding.no_masters), exact = {0};
    struct distances bound = bound_f32;
    if (form.compute != DTYPE_F32) {
        exact = train_alone(comm, cpu, &plain, false);
        bound = bound_of(&layout, &form, &alone, &exact);
    }
    if (layout.tensor > 1)
        bound = bound_of_cut(comm, &layout, &form_alone, &alone, &exact);
    check_layout(comm, &layout, &form, &alone, &bound);
    outcome_destroy(&exact);
    outcome_destroy(&alone);
}

/* -- Planned and real ------------------------------------------------------------------------------------------- */

enum { MOST_GROUPS = 8 };

/* What an executor has allocated on its device. */
static int64_t allocated;
static void *(*plain_allocate)(struct executor *executor, int64_t bytes, enum memory_kind kind);

static void *counting_allocate(struct executor *executor, int64_t bytes, enum memory_kind kind)
{
    allocated += kind == MEMORY_DEVICE ? bytes : 0;
    return plain_allocate(executor, bytes, kind);
}

static int64_t planned_bytes(const struct executor *plan)
{
    const struct plan_block *blocks;
    const int64_t count = plan_executor_blocks(plan, &blocks);
    int64_t bytes = 0;
    for (int64_t i = 0; i < count; i++)
        bytes += blocks[i].kind == MEMORY_DEVICE && !blocks[i].released ? blocks[i].bytes : 0;
    return bytes;
}

static bool same_traffic(const struct plan_log *a, const struct plan_log *b)
{
    struct plan_traffic of_a[MOST_GROUPS], of_b[MOST_GROUPS];
    const int groups = plan_log_traffic(plan_log_all(a), of_a, MOST_GROUPS);
    bool same = groups <= MOST_GROUPS && plan_log_traffic(plan_log_all(b), of_b, MOST_GROUPS) == groups;
    for (int g = 0; same && g < groups; g++)
        same = strcmp(of_a[g].group, of_b[g].group) == 0 && of_a[g].collectives == of_b[g].collectives &&
               of_a[g].bytes == of_b[g].bytes;
    return same;
}

/* On every rank: memory as planned, bytes of each group in a step as planned, and no race in it. */
static void check_plan(struct comm *comm, const struct layout *layout, const struct form *form)
{
    const struct executor_class *plain = cpu->class;
    struct executor_class counting = *plain;
    plain_allocate = plain->allocate;
    counting.allocate = counting_allocate;
    cpu->class = &counting;
    struct executor *real = record_executor_create(cpu), *plan = plan_executor_create(cpu);
    struct team of_real, of_plan;
    allocated = 0;
    team_create(&of_real, comm, real, layout, form);
    const int64_t bytes = allocated;
    team_create(&of_plan, comm, plan, layout, form);
    CHECK(bytes > 0 && bytes == planned_bytes(plan));
    CHECK(budget_total(&of_real.toy.engine.budget) == budget_total(&of_plan.toy.engine.budget));
    record_clear(real);
    plan_executor_clear(plan);
    team_step(&of_real, 0);
    team_step(&of_plan, 0);
    struct race race;
    const bool right = same_traffic(record_executor_log(real), plan_executor_log(plan)) &&
                       race_check(plan_executor_log(plan), -1, &race, 1) == 0;
    if (!CHECK(right))
        fprintf(stderr, "    %s\n", team_text(comm->size, layout, form));
    team_destroy(&of_real);
    team_destroy(&of_plan);
    real->class->destroy(real);
    plan->class->destroy(plan);
    cpu->class = plain;
}

/* -- A training whose every step has another layout -------------------------------------------------------------- */

static char folder[300]; /* of this test's files; the same on all ranks */

static void make_folder(void)
{
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/cistron-layouts-XXXXXX", base != NULL ? base : "/tmp");
    if (world->rank == 0 && mkdtemp(folder) == NULL)
        error_fatal("cannot make a folder like %s", folder);
    comm_broadcast(world, folder, sizeof folder, 0);
}

static void remove_folder(void)
{
    comm_barrier(world);
    char *command = memory_format("rm -rf '%s'", folder);
    if (world->rank == 0 && system(command) != 0)
        fprintf(stderr, "%s stays behind\n", folder);
    free(command);
}

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
    CHECK(checkpoint_begin(&save, comm, e, meta, beside, true, &snapshot) == ERROR_NONE);
    snapshot_taken(&snapshot, true);
    team_step(team, 0); /* any */
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
    if (team->grid.tensor->size == 1)
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
    struct outcome alone = train_alone(world, cpu, &form, no_masters), exact = alone;
    struct left left = {.elements = alone.elements};
    double bound = bound_f32.loss, losses[TEAM_STEPS];
    if (form.compute != DTYPE_F32) {
        struct form plain = form;
        plain.compute = DTYPE_F32;
        exact = train_alone(world, cpu, &plain, false);
        bound = fmax((1 + 1.5) * check_apart(alone.losses, exact.losses, TEAM_STEPS), 0x1p-9);
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
    make_folder();
    test_chain(first, (struct form){.kind = TOY_ESM2, .packed = true, .micro_batches = 1, .slots = 1}, false);
    test_chain(second, (struct form){.kind = TOY_LLAMA_TIED, .micro_batches = 2, .compute = DTYPE_BF16, .slots = 1},
               false);
    test_chain(
        second,
        (struct form){
            .kind = TOY_ESM2, .micro_batches = 2, .compute = DTYPE_BF16, .recipe = DECK_RECIPE_DELAYED, .slots = 1},
        false);
    test_chain(second, (struct form){.kind = TOY_AMPLIFY, .micro_batches = 2, .compute = DTYPE_BF16, .slots = 1}, true);
    remove_folder();
}

/* -- Without training -------------------------------------------------------------------------------------------- */

enum { READ_TOKENS = 24, READ_HIDDEN = 32, READ_VOCABULARY = 40 };

/* What a model says of one sequence: each token's loss and state, the logits of the last. */
struct reading {
    double losses[READ_TOKENS], logits[READ_VOCABULARY];
    float states[READ_TOKENS * READ_HIDDEN];
};

/* Of a second sequence, so that the first one's logits are the second row. */
static void read_logits(struct engine *engine, const int32_t *tokens, double *logits)
{
    const struct engine_piece pieces[] = {{3, tokens, 2, true}, {1, tokens, READ_TOKENS - 2, false}};
    const struct engine_piece rest[] = {{3, tokens, 1, true}, {1, tokens + READ_TOKENS - 2, 2, true}};
    engine_extend(engine, pieces, 2);
    const struct tensor found = engine_extend(engine, rest, 2);
    for (int v = 0; v < READ_VOCABULARY; v++)
        logits[v] = tensor_get(&found, 1, v);
}

static void read_with(const struct model_settings *settings, const struct groups *groups, enum memory_use use,
                      struct reading *reading)
{
    const struct engine_settings of = {.memory = {.use = use,
                                                  .compute = DTYPE_F32,
                                                  .statistic = DTYPE_F32,
                                                  .slots = {1},
                                                  .rows = 1,
                                                  .row_tokens = READ_TOKENS,
                                                  .max_segments = 4},
                                       .positions = READ_TOKENS};
    struct model model;
    struct engine engine;
    struct batch batch;
    toy_batch(&batch, 1, READ_TOKENS, 5);
    model_create(&model, settings, READ_TOKENS, 10);
    engine_create(&engine, cpu, &model, groups, &of);
    engine_initialise(&engine, 7);
    if (use == MEMORY_EVALUATE)
        engine_score(&engine, &batch, reading->losses);
    else if (use == MEMORY_EMBED)
        engine_embed(&engine, &batch, reading->states);
    else
        read_logits(&engine, batch.tokens, reading->logits);
    batch_destroy(&batch);
    engine_destroy(&engine);
    model_destroy(&model);
}

static double most_apart(const struct reading *a, const struct reading *b)
{
    double most = 0;
    for (int t = 0; t < READ_TOKENS; t++)
        most = fmax(most, fabs(a->losses[t] - b->losses[t]));
    for (int v = 0; v < READ_VOCABULARY; v++)
        most = fmax(most, fabs(a->logits[v] - b->logits[v]));
    for (int i = 0; i < READ_TOKENS * READ_HIDDEN; i++)
        most = fmax(most, (double)fabsf(a->states[i] - b->states[i]));
    return most;
}

/* Ranks that have a part of each layer and of the vocabulary, which they do not divide evenly, each say what one rank
 * alone says. Whole rows are needed to embed and to generate. */
static void test_reading(struct comm *comm)
{
    const struct form form = {.kind = TOY_LLAMA};
    const struct layout one = {.context = 1};
    struct model_settings whole = team_settings(&one, &form);
    struct group *own = comm_group_create(self, NULL, "own"), *tensor = comm_group_create(comm, NULL, "tensor");
    const struct groups alone = groups_replicated(own);
    struct groups cut = alone;
    cut.tensor = tensor;
    for (int whole_rows = 0; whole_rows < 2; whole_rows++) {
        const struct layout layout = {.context = 1, .tensor = comm->size, .whole_rows = whole_rows};
        struct model_settings part = team_settings(&layout, &form);
        part.layer.rank = comm->rank;
        part.kv_heads = whole.kv_heads = comm->size;
        static struct reading wanted, found;
        for (enum memory_use use = MEMORY_EVALUATE; use <= (whole_rows ? MEMORY_GENERATE : MEMORY_EVALUATE); use++) {
            read_with(&whole, &alone, use, &wanted);
            read_with(&part, &cut, use, &found);
        }
        CHECK(most_apart(&wanted, &(struct reading){0}) > 0.1 && most_apart(&wanted, &found) < 1e-5);
    }
    comm_group_destroy(tensor);
    comm_group_destroy(own);
}

/* -- Copies that are gathered ------------------------------------------------------------------------------------ */

/* A maximum over tensor ranks, or the zeros behind the last token, may be left out. */
struct copies_planter {
    bool alone, nothing_behind;
    int maxima, beside; /* of these launches; gathers and sums of parts beside the units' stream */
};

static void plant_in_copies(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args)
{
    struct copies_planter *p = wrapper->self;
    const struct all_reduce_args *sum = args;
    const struct fill_args *fill = args;
    p->maxima += op == OP_ALL_REDUCE && sum->maximum;
    p->beside += stream->id == STREAM_EXCHANGE && (op == OP_ALL_GATHER || op == OP_REDUCE_SCATTER);
    if (p->alone && op == OP_ALL_REDUCE && sum->maximum)
        return;
    if (p->nothing_behind && op == OP_FILL && fill->x.rows > 1 && !tensor_contiguous(&fill->x))
        return;
    wrapper_pass(wrapper, stream, op, args);
}

static struct outcome train_copies(struct comm *comm, const struct layout *layout, const struct form *form,
                                   struct copies_planter *planter)
{
    struct wrapper wrapper;
    struct team team;
    wrapper_create(&wrapper, cpu, plant_in_copies, planter);
    team_create(&team, comm, &wrapper.executor, layout, form);
    struct outcome outcome = team_train(&team);
    team_destroy(&team);
    return outcome;
}

static bool same_bits(const struct outcome *a, const struct outcome *b)
{
    const size_t gradients = (size_t)a->elements * sizeof *a->first;
    return a->agree && b->agree && memcmp(a->losses, b->losses, sizeof a->losses) == 0 &&
           memcmp(a->norms, b->norms, sizeof a->norms) == 0 && memcmp(a->first, b->first, gradients) == 0 &&
           memcmp(a->last, b->last, gradients) == 0;
}

/* Where tensor ranks gather 8-bit copies, all bits are those of copies of gathered values. What is gathered has the
 * scale of all ranks: the inputs of two linears and the gradients of two. What ranks have parts of has a scale for each
 * part. Two sums and a gather of each layer's backward run beside products.
 */
static void test_copies(struct comm *comm)
{
    static const struct {
        enum toy_kind kind;
        int recipe, tensor;
        enum deck_recompute recompute;
        bool split;
    } cases[] = {{TOY_LLAMA, DECK_RECIPE_CURRENT, 2, DECK_RECOMPUTE_NONE, false},
                 {TOY_LLAMA, DECK_RECIPE_DELAYED, 4, DECK_RECOMPUTE_NORMS, true},
                 {TOY_ESM2, DECK_RECIPE_CURRENT, 4, DECK_RECOMPUTE_FULL, false},
                 {TOY_AMPLIFY, DECK_RECIPE_DELAYED, 2, DECK_RECOMPUTE_QKV, false}};
    for (int i = 0; i < LENGTH(cases); i++) {
        const struct layout layout = {.context = 1, .shard = 1, .tensor = cases[i].tensor};
        struct form form = {.kind = cases[i].kind,
                            .packed = true,
                            .micro_batches = 2,
                            .compute = DTYPE_BF16,
                            .recipe = cases[i].recipe,
                            .recompute = cases[i].recompute,
                            .slots = cases[i].split ? 2 : 1,
                            .split_backward = cases[i].split};
        struct copies_planter plain = {0}, no_maximum = {.alone = true}, no_zeros = {.nothing_behind = true};
        struct outcome copies = train_copies(comm, &layout, &form, &plain);
        const int64_t layers = TEAM_STEPS * form.micro_batches * toy_settings(form.kind).layers;
        CHECK(i > 0 || (plain.maxima == 4 * layers && plain.beside == 3 * layers));
        struct outcome alone = train_copies(comm, &layout, &form, &no_maximum);
        struct outcome nothing = train_copies(comm, &layout, &form, &no_zeros);
        form.measured = true;
        struct outcome values = train_copies(comm, &layout, &form, &plain);
        if (!CHECK(same_bits(&copies, &values)) || !CHECK(!same_bits(&copies, &alone)) ||
            !CHECK(!same_bits(&copies, &nothing)))
            fprintf(stderr, "    %s\n", team_text(comm->size, &layout, &form));
        outcome_destroy(&copies);
        outcome_destroy(&values);
        outcome_destroy(&alone);
        outcome_destroy(&nothing);
    }
}

/* -- Planted faults ---------------------------------------------------------------------------------------------- */

enum fault {
    FAULT_NORMALISED,  /* each data rank's mean loss, not that of all labels */
    FAULT_GROUP,       /* replicas of a cut are summed over all ranks */
    FAULT_REPLICAS,    /* they are not summed */
    FAULT_CUT,         /* gradients are cut one alignment unit too late */
    FAULT_TIED,        /* the tied matrix counts twice in the norm */
    FAULT_OVERWRITTEN, /* what a micro-batch adds to a cut replaces it */
    FAULT_STALE,       /* the second step uses the weights that were gathered in the first */
    FAULT_CHUNKS,      /* keys and values of ranks that share rows are taken for each other's */
    FAULT_FORGOTTEN,   /* the last rank's tokens are missing from the embedding's gradient */
    FAULT_FACTORS,     /* and so are all tokens' factors */
    FAULT_TWICE,       /* complete gradients count twice */
    FAULT_ROWS,        /* tensor ranks take their rows of the vocabulary for the first rank's: as tokens, */
    FAULT_LABELS,      /* or as labels */
    FAULT_LARGEST,     /* a row's parts are merged as if they had one largest logit */
    FAULT_TOTAL,       /* losses count on every tensor rank */
    FAULT_TENSOR,      /* tensor ranks' tokens are taken for each other's */
    FAULT_RESIDUAL,    /* what comes behind a sum over tensor ranks does not */
    FAULT_SHARED,      /* each tensor rank keeps its part of the gradients of norms */
    FAULT_ALIKE,       /* and of key and value heads */
    FAULT_COUNTED      /* all tensor ranks measure what they share */
};

struct planter {
    enum fault fault;
    struct team team;
    int64_t launched; /* otherwise than they should be */
};

static void rotate(struct tensor x, int64_t elements)
{
    const int64_t bytes = tensor_count(&x) * dtype_size(x.dtype), ahead = elements * dtype_size(x.dtype);
    char *copy = memory_allocate(bytes), *data = x.data;
    memcpy(copy, data + ahead, (size_t)(bytes - ahead));
    memcpy(copy + bytes - ahead, data, (size_t)ahead);
    memcpy(data, copy, (size_t)bytes);
    memory_free(copy);
}

static bool is_tied_gradient(struct team *team, const struct tensor *x)
{
    struct engine *engine = &team->toy.engine;
    const struct shard shard = engine->store->class->shard(engine->store, &team->toy.model.units[0], STORAGE_MATRIX);
    return tensor_present(&shard.gradient) && x->data == shard.gradient.data;
}

/* The group of a collective that such a fault may change; NULL: it is another op. */
static const struct group *group_of(enum op op, const void *args)
{
    switch (op) {
    case OP_ALL_REDUCE:
        return ((const struct all_reduce_args *)args)->group;
    case OP_REDUCE_SCATTER:
        return ((const struct reduce_scatter_args *)args)->group;
    case OP_ALL_GATHER:
        return ((const struct all_gather_args *)args)->group;
    default:
        return NULL;
    }
}

/* Is it a launch that the fault changes? */
static bool is_target(struct planter *p, const struct stream *stream, enum op op, const void *args)
{
    const struct groups *groups = &p->team.groups;
    switch (p->fault) {
    case FAULT_NORMALISED:
        return op == OP_XENT_GRAD;
    case FAULT_GROUP:
    case FAULT_REPLICAS:
        return groups->replicas != NULL && group_of(op, args) == groups->replicas;
    case FAULT_CUT:
        return groups->reduce != NULL && group_of(op, args) == groups->reduce;
    case FAULT_TIED:
        return op == OP_SUM_SQUARES && is_tied_gradient(&p->team, &((const struct sum_squares_args *)args)->x);
    case FAULT_OVERWRITTEN:
        return op == OP_ADD && stream->id == STREAM_REDUCE;
    case FAULT_STALE:
        return p->team.step == 1 && groups->gather != NULL && group_of(op, args) == groups->gather;
    case FAULT_CHUNKS:
        return op == OP_ALL_GATHER && groups->context != NULL && group_of(op, args) == groups->context;
    case FAULT_FORGOTTEN:
    case FAULT_FACTORS:
        return op == OP_EMBEDDING_BACKWARD;
    case FAULT_TWICE:
        return op == OP_COPY && stream->id == STREAM_REDUCE;
    case FAULT_ROWS:
        return op == OP_EMBEDDING_FORWARD || op == OP_EMBEDDING_BACKWARD;
    case FAULT_LABELS:
        return op == OP_XENT_GRAD;
    case FAULT_LARGEST:
    case FAULT_TOTAL:
        return op == OP_XENT_MERGE;
    case FAULT_TENSOR:
        return op == OP_ALL_GATHER && group_of(op, args) == groups->tensor;
    case FAULT_RESIDUAL:
        return op == OP_ADD && stream->id == STREAM_COMPUTE;
    case FAULT_SHARED:
        return group_of(op, args) == groups->shared;
    case FAULT_ALIKE:
        return groups->alike != NULL && group_of(op, args) == groups->alike;
    case FAULT_COUNTED:
        return op == OP_SUM_SQUARES;
    }
    return false;
}

/* All that there is of a fault which is in the model, not in a launch. */
static void plant_in_model(struct planter *p)
{
    struct model *model = &p->team.toy.model;
    struct engine *engine = &p->team.toy.engine;
    if (p->fault == FAULT_TOTAL)
        engine->batches[0].total = engine->total;
    for (int u = 0; u < model->unit_count && p->fault == FAULT_COUNTED; u++)
        for (int i = 0; i < model->units[u].parameter_count; i++)
            model->units[u].parameters[i].holder = 0;
}

static void scale_gradient(const struct team *team, const struct xent_grad_args *a)
{
    const double factor = team->labels > 0 ? team->all_labels / team->grid.data_ranks / team->labels : 0;
    for (int64_t i = 0; i < tensor_count(&a->logits); i++)
        ((float *)a->logits.data)[i] *= (float)factor;
}

/* The embedding's rows taken for the first of the vocabulary. */
static void forget_origin(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args)
{
    if (op == OP_EMBEDDING_FORWARD) {
        struct embedding_forward_args first = *(const struct embedding_forward_args *)args;
        first.origin = 0;
        wrapper_pass(wrapper, stream, op, &first);
    } else {
        struct embedding_backward_args first = *(const struct embedding_backward_args *)args;
        first.origin = 0;
        wrapper_pass(wrapper, stream, op, &first);
    }
}

/* Changes launches that the fault is about, and counts them. */
static void plant(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args)
{
    struct planter *p = wrapper->self;
    const bool target = is_target(p, stream, op, args);
    if (!target || p->fault == FAULT_NORMALISED || p->fault == FAULT_TIED || p->fault == FAULT_CHUNKS ||
        p->fault == FAULT_TENSOR || p->fault == FAULT_COUNTED || p->fault == FAULT_TOTAL)
        wrapper_pass(wrapper, stream, op, args);
    if (!target)
        return;
    p->launched++;
    switch (p->fault) {
    case FAULT_NORMALISED:
        scale_gradient(&p->team, args);
        break;
    case FAULT_GROUP: {
        struct all_reduce_args wrong = *(const struct all_reduce_args *)args;
        wrong.group = p->team.groups.data;
        wrong.room = (struct tensor){0};
        wrapper_pass(wrapper, stream, op, &wrong);
        break;
    }
    case FAULT_CUT:
        rotate(((const struct reduce_scatter_args *)args)->in, UNIT_ALIGNMENT);
        wrapper_pass(wrapper, stream, op, args);
        break;
    case FAULT_TIED:
        *(double *)((const struct sum_squares_args *)args)->sum.data *= 2;
        break;
    case FAULT_OVERWRITTEN: {
        const struct add_args *a = args;
        wrapper_pass(wrapper, stream, OP_COPY, &(struct copy_args){.from = a->from, .to = a->to});
        break;
    }
    case FAULT_CHUNKS:
    case FAULT_TENSOR: {
        const struct tensor out = ((const struct all_gather_args *)args)->out;
        rotate(out, out.cols);
        break;
    }
    case FAULT_ROWS:
        forget_origin(wrapper, stream, op, args);
        break;
    case FAULT_LABELS: {
        struct xent_grad_args first = *(const struct xent_grad_args *)args;
        first.origin = 0;
        wrapper_pass(wrapper, stream, op, &first);
        break;
    }
    case FAULT_LARGEST: {
        const struct tensor parts = ((const struct xent_merge_args *)args)->statistics;
        for (int64_t i = XENT_STATISTICS; i < parts.rows; i += XENT_STATISTICS)
            memcpy(tensor_at(&parts, i + XENT_LARGEST, 0), parts.data, (size_t)parts.cols * sizeof(float));
        wrapper_pass(wrapper, stream, op, args);
        break;
    }
    case FAULT_FORGOTTEN: {
        struct embedding_backward_args few = *(const struct embedding_backward_args *)args;
        few.tokens.cols = few.dy.rows -= few.dy.rows / p->team.groups.data->size;
        if (tensor_present(&few.scale))
            few.scale.cols = few.dy.rows;
        wrapper_pass(wrapper, stream, op, &few);
        break;
    }
    case FAULT_FACTORS: {
        struct embedding_backward_args plain = *(const struct embedding_backward_args *)args;
        plain.scale = (struct tensor){0};
        wrapper_pass(wrapper, stream, op, &plain);
        break;
    }
    case FAULT_TWICE: {
        const struct copy_args *a = args;
        wrapper_pass(wrapper, stream, op, args);
        wrapper_pass(wrapper, stream, OP_ADD, &(struct add_args){.from = a->from, .to = a->to});
        break;
    }
    case FAULT_REPLICAS: /* they are left out */
    case FAULT_STALE:
    case FAULT_RESIDUAL:
    case FAULT_SHARED:
    case FAULT_ALIKE:
    case FAULT_TOTAL: /* these two are not: plant_in_model */
    case FAULT_COUNTED:
        break;
    }
}

/* A fault in a layout where it has a place: there must be one, and the result beyond a bound. */
struct planted {
    enum fault fault;
    const char *name;
    const struct layout *layout;
};

static void test_faults(struct comm *comm, const struct form *form, const struct planted *faults, int count)
{
    struct outcome alone = train_alone(comm, cpu, form, false);
    for (int i = 0; i < count; i++) {
        struct planter planter = {.fault = faults[i].fault};
        struct wrapper wrapper;
        wrapper_create(&wrapper, cpu, plant, &planter);
        struct team *team = &planter.team;
        team_create(team, comm, &wrapper.executor, faults[i].layout, form);
        plant_in_model(&planter);
        struct outcome outcome = team_train(team);
        const struct distances apart = outcome_apart(&outcome, &alone, &team->whole);
        const bool equal = outcome_within(&outcome, &apart, &alone, &bound_f32);
        const bool planted = comm_sum_i64(comm, planter.launched) > 0;
        if (!CHECK(planted && !equal) && comm->rank == 0)
            fprintf(stderr, "    %s in %s: loss %.2e, norm %.2e, gradients %.2e and %.2e\n", faults[i].name,
                    team_text(comm->size, faults[i].layout, form), apart.loss, apart.norm, apart.first, apart.last);
        outcome_destroy(&outcome);
        team_destroy(team);
    }
    outcome_destroy(&alone);
}

static void test_all_faults(struct comm *comm, const struct form *form)
{
    static const struct layout gradients = {.context = 1, .shard = 2, .sharding.level = SHARD_GRADIENTS},
                               full = {.context = 1, .shard = 2, .sharding.level = SHARD_FULL},
                               rows = {.context = 2,
                                       .shard = 4,
                                       .method = DECK_CONTEXT_GATHER,
                                       .sharding.level = SHARD_FULL},
                               layers = {.context = 1, .shard = 2, .sharding.level = SHARD_FULL, .tensor = 2},
                               heads = {.context = 1, .shard = 1, .tensor = 4, .whole_rows = true},
                               none = {.context = 1, .shard = 1};
    static const struct planted of_any[] = {{FAULT_NORMALISED, "normalised per rank", &full},
                                            {FAULT_GROUP, "summed over the wrong group", &gradients},
                                            {FAULT_GROUP, "summed over the wrong group", &full},
                                            {FAULT_REPLICAS, "replicas not summed", &gradients},
                                            {FAULT_REPLICAS, "replicas not summed", &full},
                                            {FAULT_CUT, "cut off by a unit", &gradients},
                                            {FAULT_CUT, "cut off by a unit", &full},
                                            {FAULT_TIED, "tied matrix twice", &full},
                                            {FAULT_OVERWRITTEN, "contribution overwritten", &gradients},
                                            {FAULT_OVERWRITTEN, "contribution overwritten", &full},
                                            {FAULT_STALE, "stale weights", &gradients},
                                            {FAULT_STALE, "stale weights", &full},
                                            {FAULT_NORMALISED, "normalised per rank", &rows},
                                            {FAULT_STALE, "stale weights", &rows},
                                            {FAULT_CHUNKS, "swapped chunks", &rows},
                                            {FAULT_TENSOR, "swapped tokens of tensor ranks", &layers},
                                            {FAULT_RESIDUAL, "residual forgotten", &layers},
                                            {FAULT_SHARED, "norms' gradients not summed", &layers},
                                            {FAULT_COUNTED, "norms measured twice", &layers},
                                            {FAULT_ALIKE, "kv heads' gradients not summed", &heads},
                                            {FAULT_ROWS, "rows of the first rank", &layers},
                                            {FAULT_LABELS, "labels of the first rank", &layers},
                                            {FAULT_LARGEST, "one largest logit for all parts", &layers},
                                            {FAULT_TOTAL, "losses counted twice", &heads}},
                                of_gathered[] = {{FAULT_FORGOTTEN, "a rank's tokens forgotten", &none},
                                                 {FAULT_FORGOTTEN, "a rank's tokens forgotten", &rows},
                                                 {FAULT_FACTORS, "factors forgotten", &full},
                                                 {FAULT_TWICE, "complete gradients twice", &gradients}};
    const struct form gathered = {.kind = TOY_ESM2, .gathers = true, .packed = true, .micro_batches = 1, .slots = 1};
    test_faults(comm, form, of_any, LENGTH(of_any));
    test_faults(comm, &gathered, of_gathered, LENGTH(of_gathered));
}

/* -- All
 * --------------------------------------------------------------------------------------------------------------- */

/* All layouts of so many ranks, and the cases of the spread; returns how many there were of each on rank 0. */
static void test_size(struct comm *comm, const struct form *form, const struct outcome *alone,
                      const struct outcome *alone_deep, const struct trial_case *cases, int64_t case_count,
                      int64_t count[2])
{
    int all = 0;
    for (int p = 0; p < LENGTH(pipelines); p++)
        all += try_all_layouts(comm, *form, p == 0 ? alone : alone_deep, p);
    for (int64_t k = 0; k < case_count; k++) {
        if (sizes[cases[k].at[RANKS]] != comm->size)
            continue;
        const struct layout layout = layout_of(&cases[k]);
        const struct form other = form_of(&cases[k]);
        try_case(comm, &cases[k]);
        check_plan(comm, &layout, &other);
        count[1] += comm->rank == 0;
    }
    count[0] += comm->rank == 0 ? all : 0;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    world = comm_open_mpi();
    self = comm_self();
    cpu = cpu_executor_create(1);
    cpu->copies = true; /* as devices do, so that sums have room */
    const double begun = clock_seconds();
    const struct form form = {.kind = TOY_LLAMA_TIED, .packed = true, .micro_batches = 3, .slots = 1};
    struct outcome alone = train_alone(world, cpu, &form, false);
    CHECK(alone.labels[0] > alone.labels[1]);
    struct form deep = form;
    deep.layers = PIPELINE_LAYERS;
    struct outcome alone_deep = train_alone(world, cpu, &deep, false);
    test_chains();
    static struct trial_case cases[MOST_CASES];
    int64_t case_count = 0, count[2] = {0};
    for (int s = 0; s < SPREADS && world->rank == 0; s++)
        case_count = add_spread(cases, case_count, (enum spread)s);
    comm_broadcast(world, &case_count, sizeof case_count, 0);
    comm_broadcast(world, cases, sizeof cases, 0);
    static const int side_by_side[][3] = {{8}, {6, 2}, {4, 3, 1}};
    for (int i = 0; i < LENGTH(side_by_side); i++) {
        struct comm *comm = team_comm(world, side_by_side[i]);
        if (comm->size == 4) {
            test_all_faults(comm, &form);
            test_copies(comm);
        }
        if (comm->size == 3)
            test_reading(comm);
        test_size(comm, &form, &alone, &alone_deep, cases, case_count, count);
        comm_destroy(comm);
    }
    const int64_t all = comm_sum_i64(world, count[0]), some = comm_sum_i64(world, count[1]);
    if (world->rank == 0)
        printf("%lld layouts of one form, %lld with other forms in %.1f s; of the bounds: losses %.2g, norms %.2g, "
               "gradients %.2g and %.2g\n",
               (long long)all, (long long)some, clock_seconds() - begun, worst.loss, worst.norm, worst.first,
               worst.last);
    outcome_destroy(&alone_deep);
    outcome_destroy(&alone);
    cpu->class->destroy(cpu);
    comm_destroy(self);
    comm_destroy(world);
    MPI_Finalize();
    return check_end();
}
