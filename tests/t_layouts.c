/* Parallel layouts give one rank's losses and gradients: each day another quarter of the 1030 ways in which 1, 2, 3, 4,
 * 6 and 8 ranks share rows, state, layers and stages at every sharding level and method of attention, and 314 more in
 * which every two values of all other settings meet. Losses agree to 1e-6, gradients to 1e-5 in the first step and 2e-5
 * in the fifth; in bf16 they are no farther apart than rounding explains. Ranks with equal state have equal bits;
 * memory and the traffic of every group are as planned. `t_layouts all` tests all 1030 ways, `t_layouts 0` to `3` one
 * quarter.
 *
 * ranks: 8, limit: 3600 s */
#include "check.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "cpu/cpu.h"
#include "model/attention.h"
#include "plan/plan.h"
#include "plan/race.h"
#include "plan/record.h"
#include "ref/team.h"

#include <mpi.h>
#include <stdlib.h>
#include <time.h>

static struct comm *world;
static struct executor *cpu;

/* -- One layout -------------------------------------------------------------------------------------------------- */

/* The largest distances of all, as shares of their bounds. */
static struct distances worst;

static void check_layout(struct comm *comm, const struct layout *layout, const struct form *form,
                         const struct run_outcome *alone, const struct distances *bound)
{
    struct distances apart;
    const bool equal = layout_is_equal(comm, cpu, layout, form, alone, bound, &apart);
    worst.loss = fmax(worst.loss, apart.loss / bound->loss);
    worst.norm = fmax(worst.norm, apart.norm / bound->norm);
    worst.first = fmax(worst.first, apart.first / bound->first);
    worst.last = fmax(worst.last, apart.last / bound->last);
    worst.length = fmax(worst.length, apart.length / bound->length);
    if (comm->rank == 0 && (!equal || getenv("T_DISTANCES") != NULL))
        fprintf(stderr,
                "%s:\n    loss %.2e of %.2e, norm %.2e of %.2e, gradients %.2e of %.2e and %.2e of %.2e, norms from "
                "lengths %.2e\n",
                team_text(comm->size, layout, form), apart.loss, bound->loss, apart.norm, bound->norm, apart.first,
                bound->first, apart.last, bound->last, apart.length);
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
    MUON,
    TENSOR,
    PIPELINE,
    AXES
};
enum { LAYOUT_AXES = KIND };
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
                                      2,
                                      LENGTH(tensors),
                                      LENGTH(pipelines)};
enum { MOST_VALUES = TOY_KINDS }; /* of an axis */

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
    layout.near = layout.sharding.bf16_sums && layout.shard > 2 && layout.shard % 2 == 0 && c->at[MICRO] > 0 ? 2 : 0;
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
                         .all_experts = numbers[c->at[NUMBERS]].compute != DTYPE_F32,
                         .recompute = memories[c->at[MEMORY]].recompute,
                         .slots = memories[c->at[MEMORY]].slots,
                         .split_backward = memories[c->at[MEMORY]].split,
                         .replays = c->at[REPLAYS] == 1,
                         .muon = c->at[MUON] == 1};
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
    if (form.muon && form.compute != DTYPE_F32)
        return false; /* t_muon has bounds for bf16, whose roundings Muon enlarges */
    if (form.recipe != DECK_RECIPE_NONE && (TEAM_ROW_TOKENS / layout.context % 4 != 0 || model_ffn(&settings) % 4 != 0))
        return false; /* scales lie in rows of a multiple of 4; decks have rows of more */
    const bool divides =
        tensor_parallel_check(&settings, "tensor") == ERROR_NONE && attention_check(&settings) == ERROR_NONE;
    error_clear();
    return divides && (layout.context > 1 || c->at[METHOD] == 0);
}

/* -- Layouts of one form, a spread of the rest --------------------------------------------------------------- */

/* Layers that are cut or divided into stages have nothing to do with when gradients are summed, nor with how attention
 * sees a row: one way of these is enough. */
static bool is_alike(const struct trial_case *c)
{
    return (c->at[TENSOR] > 0 || c->at[PIPELINE] > 0) &&
           (team_shardings[c->at[SHARDING]].whole_gradients || c->at[METHOD] > 0);
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

/* The default is one of SHARE parts of the layouts of one form. */
enum { SHARE = 4, MOST_LAYOUTS = 2000, MOST_CASES = 400 };

/* Number `index` of all layouts of one form: rows, state and layers in the first axes, stages in the last. */
static struct trial_case layout_case(int64_t index)
{
    struct trial_case c = case_of(index / LENGTH(tensors) / LENGTH(pipelines), LAYOUT_AXES);
    c.at[TENSOR] = (int)(index / LENGTH(pipelines) % LENGTH(tensors));
    c.at[PIPELINE] = (int)(index % LENGTH(pipelines));
    return c;
}

/* Adds the layouts of one form with the numbers `quarter`, `quarter` + SHARE and so on; with those of a few others each
 * value of an axis meets each of every other, if it can. A negative quarter is all. */
static int64_t add_layouts(struct trial_case cases[MOST_LAYOUTS], int quarter)
{
    static struct pairs pairs;
    static struct trial_case possible[MOST_LAYOUTS];
    int64_t possible_count = 0, count = 0;
    for (int64_t i = 0; i < product(LAYOUT_AXES) * LENGTH(tensors) * LENGTH(pipelines); i++) {
        const struct trial_case c = layout_case(i);
        if (is_alike(&c) || !is_possible(&c))
            continue;
        if (possible_count == MOST_LAYOUTS)
            error_fatal("t_layouts: more than %d layouts", MOST_LAYOUTS);
        set_pairs(&pairs, &c, AXES, true);
        possible[possible_count++] = c;
    }
    for (int w = 0; w < 2; w++)
        for (int64_t i = 0; i < possible_count; i++) {
            const bool chosen = quarter < 0 || i % SHARE == quarter;
            if (w == 0 ? !chosen : chosen || open_pairs(&pairs, &possible[i], AXES) == 0)
                continue;
            set_pairs(&pairs, &possible[i], AXES, false);
            cases[count++] = possible[i];
        }
    CHECK(possible_count > 1000 && open_pairs_left(&pairs) == 0);
    return count;
}

/* With all layers whole and on each rank; those that are cut; those that are divided into stages. */
enum spread { SPREAD_WHOLE, SPREAD_SPLIT, SPREAD_STAGES, SPREADS };

static bool is_of(enum spread spread, const struct trial_case *c)
{
    return spread == SPREAD_STAGES ? c->at[PIPELINE] > 0
                                   : c->at[PIPELINE] == 0 && (c->at[TENSOR] > 0) == (spread == SPREAD_SPLIT);
}

/* Adds cases in which each value of each axis meets each of every other, if it can. Those that have many new pairs come
 * first. */
static int64_t add_spread(struct trial_case cases[MOST_CASES], int64_t count, enum spread spread)
{
    enum { MOST_TRIED = 8000000 };
    const int axes = spread == SPREAD_WHOLE ? TENSOR : spread == SPREAD_SPLIT ? PIPELINE : AXES;
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
 * rounded the other way after it is rare. Where rows are cut or gradients are bf16, what is rounded differs everywhere.
 */
static struct distances bound_of(const struct layout *layout, const struct form *form, const struct run_outcome *alone,
                                 const struct run_outcome *exact)
{
    struct model model;
    struct model_settings settings = team_settings(layout, form);
    settings.tensor = (struct tensor_parallel){0};
    model_create(&model, &settings, 1, 1);
    const struct distances one = outcome_apart(alone, exact, &model);
    model_destroy(&model);
    if (layout->context == 1 && layout->tensor <= 1 && !layout->sharding.bf16_sums && !layout->sharding.no_masters)
        return (struct distances){one.loss / 4, one.norm / 4, bound_f32.first, one.last / 4, bound_f32.length};
    return bound_of_rounding(&one);
}

static struct distances larger(struct distances a, struct distances b)
{
    return (struct distances){fmax(a.loss, b.loss), fmax(a.norm, b.norm), fmax(a.first, b.first), fmax(a.last, b.last),
                              bound_f32.length};
}

/* Where layers are cut, sums within products are too, and where rows are cut, other numbers are rounded. How far that
 * may go is found with one rank that cuts its rows into other micro-batches: its first gradients are summed in another
 * order, and after these steps it is as far away as such a change brings it. */
static struct distances bound_of_split(struct comm *comm, const struct layout *layout, const struct form *form_alone,
                                       const struct run_outcome *alone, const struct run_outcome *exact)
{
    struct form other = *form_alone;
    other.micro_batches = form_alone->micro_batches == 1 ? 2 : 1;
    struct run_outcome again = train_alone(comm, cpu, &other, layout->sharding.no_masters);
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
    struct run_outcome alone = train_alone(comm, cpu, &form_alone, layout.sharding.no_masters), exact = {0};
    struct distances bound = bound_f32;
    if (form.compute != DTYPE_F32)
        exact = train_alone(comm, cpu, &plain, false);
    if (layout.tensor > 1 || (layout.context > 1 && form.compute != DTYPE_F32))
        bound = bound_of_split(comm, &layout, &form_alone, &alone, &exact);
    else if (form.compute != DTYPE_F32)
        bound = bound_of(&layout, &form, &alone, &exact);
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
    struct launch_race race;
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

/* -- All --------------------------------------------------------------------------------------------------------- */

/* What rank 0 has chosen, known to all. */
struct choice {
    struct trial_case layouts[MOST_LAYOUTS], spread[MOST_CASES];
    int64_t layout_count, spread_count;
    int quarter;
};

/* Tests the chosen layouts and cases of comm->size ranks; rank 0 adds their numbers to count[0] and count[1]. */
static void test_size(struct comm *comm, const struct form *form, const struct run_outcome *alone,
                      const struct run_outcome *alone_deep, const struct choice *choice, int64_t count[2])
{
    for (int64_t k = 0; k < choice->layout_count; k++) {
        const struct trial_case *c = &choice->layouts[k];
        if (sizes[c->at[RANKS]] != comm->size)
            continue;
        const struct layout layout = layout_of(c);
        struct form own = *form;
        own.poisoned = true; /* with NaN wherever nothing is held */
        own.layers = form_of(c).layers;
        own.micro_batches = layout.stages > 1 ? micro_batches_of(c) : form->micro_batches;
        check_layout(comm, &layout, &own, layout.stages > 1 ? alone_deep : alone, &bound_f32);
        count[0] += comm->rank == 0;
    }
    for (int64_t k = 0; k < choice->spread_count; k++) {
        const struct trial_case *c = &choice->spread[k];
        if (sizes[c->at[RANKS]] != comm->size)
            continue;
        const struct layout layout = layout_of(c);
        const struct form other = form_of(c);
        try_case(comm, c);
        check_plan(comm, &layout, &other);
        count[1] += comm->rank == 0;
    }
}

/* The quarter that the argument names, all (-1), or the day's. */
static int quarter_of(int argc, char **argv)
{
    if (argc < 2)
        return (int)(time(NULL) / 86400 % SHARE);
    return strcmp(argv[1], "all") == 0 ? -1 : atoi(argv[1]) % SHARE;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    world = comm_open_mpi();
    cpu = cpu_executor_create(1);
    cpu->copies = true; /* as devices do, so that sums have scratch */
    const double begun = clock_seconds();
    const struct form form = {.kind = TOY_LLAMA_TIED, .packed = true, .micro_batches = 3, .slots = 1};
    struct run_outcome alone = train_alone(world, cpu, &form, false);
    CHECK(alone.labels[0] > alone.labels[1]);
    struct form deep = form;
    deep.layers = PIPELINE_LAYERS;
    struct run_outcome alone_deep = train_alone(world, cpu, &deep, false);
    static struct choice choice;
    int64_t count[2] = {0};
    if (world->rank == 0) {
        choice.quarter = quarter_of(argc, argv);
        choice.layout_count = add_layouts(choice.layouts, choice.quarter);
        for (int s = 0; s < SPREADS; s++)
            choice.spread_count = add_spread(choice.spread, choice.spread_count, (enum spread)s);
    }
    comm_broadcast(world, &choice, sizeof choice, 0);
    static const int side_by_side[][3] = {{8}, {6, 2}, {4, 3, 1}};
    for (int i = 0; i < LENGTH(side_by_side); i++) {
        struct comm *comm = team_comm(world, side_by_side[i]);
        test_size(comm, &form, &alone, &alone_deep, &choice, count);
        comm_destroy(comm);
    }
    const int64_t layouts = comm_sum_i64(world, count[0]), some = comm_sum_i64(world, count[1]);
    if (world->rank == 0)
        printf("quarter %d (-1: all): %lld layouts of one form, %lld with other forms in %.1f s; of the bounds: losses "
               "%.2g, norms %.2g, gradients %.2g and %.2g, norms from their lengths %.2g\n",
               choice.quarter, (long long)layouts, (long long)some, clock_seconds() - begun, worst.loss, worst.norm,
               worst.first, worst.last, worst.length);
    outcome_destroy(&alone_deep);
    outcome_destroy(&alone);
    cpu->class->destroy(cpu);
    comm_destroy(world);
    MPI_Finalize();
    return check_end();
}
