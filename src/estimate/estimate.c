#include "estimate/estimate.h"
#include "base/error.h"
#include "base/memory.h"
#include "comm/threads.h"
#include "loader/data_set.h"
#include "plan/plan.h"
#include "plan/race.h"
#include "plan/timeline.h"
#include "state/snapshot.h"
#include "setup/layout.h"
#include "setup/precision_text.h"
#include "setup/settings.h"

#include <stdlib.h>
#include <string.h>

int estimate_threads(int64_t asked, int64_t ranks)
{
    int given = threads_asked(asked), idle;
    if (given > 0)
        return given;
    struct comm *self = comm_self();
    int64_t share = threads_for_rank(self, &idle) / ranks;
    comm_destroy(self);
    return share > 1 ? (int)share : 1;
}

/* -- Data -------------------------------------------------------------------------------------------------------- */

static int count_store(struct estimate *f, int store)
{
    const char *path = f->stores.paths[store];
    if (!data_set_exists(path)) {
        if (f->data_missing == NULL)
            f->data_missing = memory_format("%s does not exist", path);
        return ERROR_NONE;
    }
    const struct loader_settings *settings = &f->setup.train;
    const struct windows_layout layout = loader_layout(settings);
    struct data_set data_set;
    int code = data_set_open(&data_set, path, &settings->megatron);
    if (code == ERROR_NONE)
        code = data_set_measure(&data_set, &layout, &settings->megatron);
    f->epoch_windows += data_set.epoch_windows;
    f->epoch_tokens += data_set.epoch_tokens;
    if (code == ERROR_NONE && f->shares != NULL)
        f->shares[store] =
            (struct store_share){f->stores.paths[store], f->stores.weights[store],
                                 data_set.epoch_windows > 0 ? data_set.epoch_windows : 1, data_set.epoch_tokens, 0};
    data_set_close(&data_set);
    return code;
}

/* Counts an epoch, which is each store once, as in training. */
static int count_data(struct estimate *f)
{
    const struct loader_settings *settings = &f->setup.train;
    const bool padded = settings->format == LOADER_PADDED;
    if (f->setup.random) {
        f->data_missing = memory_string("random data has no end");
        return ERROR_NONE;
    }
    if (settings->stores[0] == '\0') {
        f->data_missing = memory_string("data.train is not set");
        return ERROR_NONE;
    }
    int code = store_list_parse(&f->stores, settings->stores, settings->weights);
    if (code == ERROR_NONE && f->stores.weighted && f->stores.count > 1)
        f->shares = memory_allocate(f->stores.count * (int64_t)sizeof *f->shares);
    for (int i = 0; i < f->stores.count && code == ERROR_NONE; i++)
        code = count_store(f, i);
    if (f->data_missing != NULL || code != ERROR_NONE) {
        f->epoch_windows = f->epoch_tokens = 0;
        memory_free(f->shares);
        f->shares = NULL;
        return code;
    }
    if (f->shares != NULL)
        store_epochs(f->shares, f->stores.count, (double)f->setup.steps * (double)settings->global_rows,
                     padded ? 0 : settings->row_tokens);
    double rows = padded ? (double)f->epoch_windows : (double)f->epoch_tokens / (double)settings->row_tokens;
    f->epoch_steps = rows / (double)settings->global_rows;
    return code;
}

/* Returns the number of micro-batches in the global batch. */
static int64_t groups_of_rows(const struct loader_settings *settings)
{
    return (settings->global_rows + settings->micro_rows - 1) / settings->micro_rows;
}

/* -- Planned engine of a rank ------------------------------------------------------------------------------------ */

/* The engine of a rank on the planning executor. */
struct dry_run {
    struct executor *executor; /* the planning executor */
    struct grid_numbers sizes, place;
    struct group made[ESTIMATE_GROUPS];
    enum layout_axis axes[ESTIMATE_GROUPS]; /* [made_count] axis of each group */
    int made_count;
    struct model model;
    struct engine engine;
};

static struct group *make_group(void *self, enum layout_axis axis, const char *name)
{
    struct dry_run *r = self;
    struct group *made = &r->made[r->made_count];
    *made = (struct group){.name = name, .rank = layout_along(&r->place, axis), .size = layout_along(&r->sizes, axis)};
    r->axes[r->made_count++] = axis;
    return made;
}

/* Makes the planned engine. rates: the machine profile, NULL if only memory counts. */
static void dry_run_create(struct dry_run *r, const struct setup *setup, int rank, struct executor *target,
                           const struct machine_rates *rates)
{
    const int64_t block = target != NULL && target->node_block > 0 ? target->node_block
                          : rates != NULL                          ? rates->node
                                                                   : 0;
    const struct grid_shape shape = layout_shape_on(setup->deck, setup->ranks, block);
    *r = (struct dry_run){.executor = plan_executor_create(target),
                          .sizes = grid_sizes(&shape, (int)setup->ranks),
                          .place = grid_place(&shape, (int)setup->ranks, rank)};
    const struct parallel_groups groups = layout_groups(&r->sizes, r->executor, make_group, r);
    setup_create_engine(setup, rank, r->executor, &groups, &r->model, &r->engine);
}

static void dry_run_destroy(struct dry_run *r)
{
    engine_destroy(&r->engine);
    model_destroy(&r->model);
    r->executor->class->destroy(r->executor);
}

/* Returns the bytes that count: with host memory only if the device does not have its own. */
static int64_t need_of(const struct budget *budget, const struct executor *target)
{
    return budget_total(budget) + (target->device == NULL ? budget->bytes[BUDGET_HOST] : 0);
}

/* Returns the rank that needs the most memory (the first, if several do), with number, need and memory only. */
static struct estimate_rank plan_neediest(const struct setup *setup, struct executor *target)
{
    int kinds[GRID_KINDS];
    const int count = grid_kinds(&setup->shape, (int)setup->ranks, kinds);
    struct estimate_rank most = {.need = -1};
    for (int i = 0; i < count; i++) {
        struct dry_run r;
        dry_run_create(&r, setup, kinds[i], target, NULL);
        const int64_t need = need_of(&r.engine.budget, target);
        if (need > most.need) {
            most = (struct estimate_rank){.rank = kinds[i], .need = need};
            memcpy(most.memory, r.engine.budget.bytes, sizeof most.memory);
        }
        dry_run_destroy(&r);
    }
    return most;
}

int64_t estimate_memory(int64_t *memory, const struct setup *setup, struct executor *target)
{
    const struct estimate_rank most = plan_neediest(setup, target);
    memcpy(memory, most.memory, sizeof most.memory);
    return most.need;
}

/* Integers and floats both have 4 bytes. */
static void *fake_numbers(struct executor *plan, int64_t count)
{
    return plan->class->allocate(plan, count * (int64_t)sizeof(int32_t), MEMORY_HOST);
}

static void refuse_races(const struct plan_log *log)
{
    struct launch_race race;
    if (race_check(log, -1, &race, 1) > 0)
        error_fatal("bug: the streams of a step race: %s", race_describe(&race));
}

/* Computes FLOPs and seconds of a step's launches. */
struct pricing {
    const struct dry_run *dry_run;
    const struct machine_rates *rates;
    int64_t segment; /* tokens of each segment, assumed: real lengths are device data, which op_flops can only guess */
    bool free_transfers;
};

/* Returns the FLOPs of a launch. With context parallelism, several launches of attention make up one attention: each
 * sees some of the rows' tokens as keys, or they add to dq. */
static double launch_flops(const struct pricing *p, enum op op, const void *args)
{
    if (op == OP_ATTENTION_FORWARD) { /* GEMMs: q k' and p v */
        const struct attention_forward_args *a = args;
        const struct memory_settings *m = &p->dry_run->engine.settings.memory;
        const double seen = (double)a->k.rows / (double)(m->rows * m->row_tokens);
        return 2 * 2 * seen * flops_keys(p->segment, a->causal, a->window) * (double)tensor_count(&a->q);
    }
    if (op == OP_ATTENTION_BACKWARD) { /* GEMMs: the scores again, and four gradients */
        const struct attention_backward_args *a = args;
        return a->accumulate_q ? 0 : 5 * 2 * flops_keys(p->segment, a->causal, a->window) * (double)tensor_count(&a->q);
    }
    return (double)op_flops(op, args);
}

static double launched_flops(const struct plan_log *log, const struct pricing *p)
{
    double flops = 0;
    for (int64_t i = 0; i < log->count; i++)
        if (log->entries[i].kind == PLAN_LAUNCH)
            flops += launch_flops(p, log->entries[i].op, plan_log_args(log, &log->entries[i]));
    return flops;
}

static enum layout_axis axis_of(const struct dry_run *r, const char *group)
{
    for (int g = 0; g < r->made_count; g++)
        if (r->made[g].name == group)
            return r->axes[g];
    error_fatal("bug: group %s is of no axis", group);
}

/* Returns the seconds of a reduction's additions, 0 for other collectives. Each rank adds its part of all ranks'
 * numbers on the SMs, so concurrent kernels lose this time. Copies between devices, and to the host, use copy engines.
 */
static double addition_seconds(const struct machine_rates *rates, enum op op, const void *args)
{
    const struct all_reduce_args *reduce = args;
    const struct reduce_scatter_args *scatter = args;
    if ((op != OP_ALL_REDUCE || reduce->maximum) && op != OP_REDUCE_SCATTER)
        return 0;
    const struct tensor *all = op == OP_ALL_REDUCE ? &reduce->x : &scatter->in;
    const double bytes = (double)(tensor_count(all) * dtype_size(all->dtype));
    const int ranks = op == OP_ALL_REDUCE ? reduce->group->size : scatter->group->size;
    return ranks > 1 ? rates_seconds(rates, RATE_MEMORY, 1, bytes + bytes / ranks) : 0;
}

static struct launch_time launch_time(const void *self, int stream, enum op op, const void *args)
{
    const struct pricing *p = self;
    const struct group *group;
    int64_t bytes;
    if (plan_traffic_of(op, args, &group, &bytes)) {
        const struct dry_run *r = p->dry_run;
        const int64_t near = layout_neighbours(&r->sizes, axis_of(r, group->name), p->rates->node);
        if (p->free_transfers)
            return (struct launch_time){0};
        return (struct launch_time){rates_transfer_seconds(p->rates, op, group->size, near, (double)bytes),
                                    addition_seconds(p->rates, op, args)};
    }
    if (stream == STREAM_OFFLOAD) /* op_bytes counts a read and a write */
        return (struct launch_time){rates_seconds(p->rates, RATE_HOST, 1, (double)op_bytes(op, args) / 2), 0};
    const double seconds = rates_op_seconds(p->rates, op, args, launch_flops(p, op, args), p->segment);
    return (struct launch_time){seconds, seconds};
}

static struct batch fake_batch(const struct dry_run *r)
{
    const struct memory_settings *m = &r->engine.settings.memory;
    const int64_t tokens = m->rows * m->row_tokens, segments = m->rows * m->max_segments;
    return (struct batch){.rows = m->rows,
                          .row_tokens = m->row_tokens,
                          .max_segments = m->max_segments,
                          .tokens = fake_numbers(r->executor, tokens),
                          .labels = fake_numbers(r->executor, tokens),
                          .positions = fake_numbers(r->executor, tokens),
                          .segment_start = fake_numbers(r->executor, segments),
                          .segment_length = fake_numbers(r->executor, segments),
                          .scale = fake_numbers(r->executor, tokens)};
}

/* Adds `times` the cost of a step of `count` equal micro-batches; returns the step's seconds, 0 without rates. */
static double add_step(struct estimate_rank *rank, struct dry_run *r, const struct setup *setup,
                       const struct machine_rates *rates, const struct batch *batches, int64_t count, int64_t times)
{
    struct pricing pricing = {.dry_run = r, .rates = rates, .segment = setup->train.window};
    struct plan_traffic traffic[ESTIMATE_GROUPS];
    double seconds = 0;
    struct schedule schedule = setup_schedule(setup, count, r->place.all);
    plan_executor_clear(r->executor);
    engine_step(&r->engine, &schedule, batches, setup->learning_rate.own.peak);
    schedule_destroy(&schedule);
    const struct plan_log *log = plan_executor_log(r->executor);
    refuse_races(log);
    rank->flops += (double)times * launched_flops(log, &pricing);
    if (rates != NULL) {
        seconds = timeline_seconds(log, launch_time, &pricing);
        pricing.free_transfers = true;
        rank->seconds += (double)times * seconds;
        rank->exposed += (double)times * (seconds - timeline_seconds(log, launch_time, &pricing));
    }
    rank->groups = plan_log_traffic(plan_log_all(log), traffic, ESTIMATE_GROUPS); /* same order for any count */
    for (int g = 0; g < rank->groups; g++) {
        rank->traffic[g].group = traffic[g].group;
        rank->axes[g] = axis_of(r, traffic[g].group);
        rank->traffic[g].collectives += times * traffic[g].collectives;
        rank->traffic[g].bytes += times * traffic[g].bytes;
    }
    return seconds;
}

/* Returns the cost of one step. Micro-batches are equal except the first, which starts the gradients, and the last,
 * which ends them. So the cost of one more micro-batch is the difference between steps of three and of two. A pipeline
 * needs as many as it has stages to be full; with several model chunks, micro-batches are added in turns of one per
 * stage. */
static struct estimate_rank step_of_rank(const struct setup *setup, int number, struct executor *target,
                                         const struct machine_rates *rates)
{
    const int64_t micro_batches = setup->micro_batches, stages = setup->model.pipeline.stages;
    const int64_t turn = setup->model.pipeline.chunks > 1 ? stages : 1;
    const int64_t filled = stages / turn, fewest = filled > 2 ? filled : 2;
    const int64_t more = micro_batches / turn - fewest;
    struct dry_run r;
    dry_run_create(&r, setup, number, target, rates);
    struct estimate_rank rank = {.rank = number, .need = need_of(&r.engine.budget, target)};
    memcpy(rank.memory, r.engine.budget.bytes, sizeof rank.memory);
    rank.quantized = r.engine.store->quantized;
    rank.snapshot = setup->saving.overlapped ? snapshot_bytes(&r.engine) : 0;
    double each; /* seconds of one more micro-batch, or the mean if there are few */
    struct batch batches[3 * GRID_STAGES];
    batches[0] = fake_batch(&r);
    for (int i = 1; i < (fewest + 1) * turn; i++)
        batches[i] = batches[0];
    if (more > 0) {
        each = add_step(&rank, &r, setup, rates, batches, (fewest + 1) * turn, more);
        each = (each - add_step(&rank, &r, setup, rates, batches, fewest * turn, 1 - more)) / (double)turn;
    } else {
        each = add_step(&rank, &r, setup, rates, batches, micro_batches, 1) / (double)micro_batches;
    }
    rank.bubble = (double)(stages - 1) / (double)setup->model.pipeline.chunks * each;
    rank.seconds += rank.bubble;
    dry_run_destroy(&r);
    return rank;
}

struct estimate_rank estimate_step(const struct setup *setup, struct executor *target,
                                   const struct machine_rates *rates)
{
    return step_of_rank(setup, plan_neediest(setup, target).rank, target, rates);
}

void estimate_dry_run(struct estimate *f, struct executor *target, const struct machine_rates *rates)
{
    int numbers[GRID_KINDS];
    memory_free(f->kinds);
    f->kind_count = grid_kinds(&f->setup.shape, (int)f->ranks, numbers);
    f->kinds = memory_allocate(f->kind_count * (int64_t)sizeof *f->kinds);
    for (int i = 0; i < f->kind_count; i++)
        f->kinds[i] = step_of_rank(&f->setup, numbers[i], target, rates);
}

const struct estimate_rank *estimate_neediest(const struct estimate *f)
{
    const struct estimate_rank *most = &f->kinds[0];
    for (int i = 1; i < f->kind_count; i++)
        if (f->kinds[i].need > most->need)
            most = &f->kinds[i];
    return most;
}

const struct estimate_rank *estimate_slowest(const struct estimate *f)
{
    const struct estimate_rank *slowest = &f->kinds[0];
    for (int i = 1; i < f->kind_count; i++)
        if (f->kinds[i].seconds > slowest->seconds)
            slowest = &f->kinds[i];
    return slowest;
}

/* -- Estimate ---------------------------------------------------------------------------------------------------- */

int estimate_create(struct estimate *f, const struct deck *deck, int64_t ranks, int threads, struct executor *target,
                    const struct machine_rates *rates)
{
    *f = (struct estimate){.ranks = ranks, .threads = threads};
    int64_t vocabulary;
    int code = setup_create(&f->setup, deck, ranks);
    if (code == ERROR_NONE)
        code = count_data(f);
    if (code == ERROR_NONE)
        code = settings_vocabulary(&vocabulary, deck);
    if (code == ERROR_NONE)
        code = setup_complete(&f->setup, vocabulary, target);
    if (code != ERROR_NONE)
        return code;
    const struct setup *setup = &f->setup;
    f->quantized = precision_text(&setup->model.precision, setup->model.layers, target->class->lacks_products == NULL);
    f->parameters = model_parameter_count(&setup->model);
    f->trained = model_trained_count(&setup->model);
    const int64_t groups = groups_of_rows(&setup->train), data_ranks = ranks / setup->sharing;
    f->batches = loader_bytes(&setup->train, data_ranks);
    f->idle_ranks = data_ranks > groups ? (data_ranks - groups) * setup->sharing : 0;
    f->step_tokens = setup->train.global_rows * setup->train.row_tokens;
    for (int c = 0; c < FLOPS_CONVENTIONS; c++)
        f->token_flops[c] = flops_per_token(&setup->model, setup->train.window, (enum flops_convention)c);
    estimate_dry_run(f, target, rates);
    f->disk = disk_space_of(setup);
    return ERROR_NONE;
}

void estimate_destroy(struct estimate *f)
{
    setup_destroy(&f->setup);
    free(f->quantized);
    free(f->data_missing);
    memory_free(f->kinds);
    memory_free(f->shares);
    store_list_destroy(&f->stores);
    f->quantized = f->data_missing = NULL;
    f->kinds = NULL;
    f->shares = NULL;
}
