#include "engine/optimizer.h"
#include "base/error.h"
#include "base/range.h"

/* Returns the number of runs (optimizer.h) of a storage class, the same on all tensor ranks. A run ends after
 * parameters that another rank may measure: neighbours with the same number of owners are measured by the same rank.
 */
static int64_t runs_of(const struct unit *unit, enum storage_class storage)
{
    int64_t runs = 1, owners = 1;
    for (int i = 0; i < unit->parameter_count; i++) {
        const struct parameter *p = &unit->parameters[i];
        if (p->storage != storage)
            continue;
        runs += p->owners > 1 && p->owners != owners;
        owners = p->owners;
    }
    return runs;
}

static int64_t most_runs(const struct model *model)
{
    int64_t most = 1;
    for (int u = 0; u < model->unit_count; u++)
        for (int st = 0; st < STORAGE_COUNT; st++) {
            const int64_t runs = runs_of(&model->units[u], (enum storage_class)st);
            most = MAX(runs, most);
        }
    return most;
}

static int64_t parts_of(double squares_quantum)
{
    return squares_quantum > 0 ? SQUARES_PARTS : 1;
}

int64_t optimizer_squares(const struct model *model, double squares_quantum)
{
    return (int64_t)model->unit_count * STORAGE_COUNT * most_runs(model) * parts_of(squares_quantum);
}

void optimizer_create(struct optimizer *optimizer, const struct optimizer_settings *settings, const struct model *model,
                      struct tensor squares, double squares_quantum, struct budget *budget, enum dtype statistic)
{
    const int64_t width = dtype_size(statistic);
    optimizer->settings = *settings;
    optimizer->runs = most_runs(model);
    optimizer->squares = squares;
    optimizer->squares_quantum = squares_quantum;
    optimizer->scale = tensor_vector(budget_allocate(budget, width, BUDGET_BATCH), statistic, 1);
    optimizer->norm = tensor_vector(budget_allocate(budget, width, BUDGET_BATCH), statistic, 1);
    for (int i = 0; i < 1 + settings->decoupled; i++)
        optimizer->steps[i] =
            tensor_vector(budget_allocate(budget, ADAMW_STEP_COUNT * width, BUDGET_BATCH), statistic, ADAMW_STEP_COUNT);
    optimizer->updates = tensor_vector(budget_allocate(budget, dtype_size(DTYPE_F64), BUDGET_BATCH), DTYPE_F64, 1);
}

/* Measures elements first .. end - 1 of a unit's flat buffer, restricted to the shard. */
static void measure_run(const struct store_shard *shard, int64_t first, int64_t end, struct tensor sum, double quantum,
                        struct stream *stream)
{
    const struct index_range common = range_common((struct index_range){first, end - first},
                                                   (struct index_range){shard->first, shard->gradient.cols});
    if (common.count > 0)
        LAUNCH(stream, SUM_SQUARES, sum_squares,
               .x = tensor_columns(&shard->gradient, common.first - shard->first, common.count), .sum = sum,
               .quantum = quantum);
}

/* Measures the shard without parameters that another rank measures (the first owner), run by run. */
static void measure_shard(const struct unit *unit, enum storage_class storage, const struct store_shard *shard,
                          struct tensor squares, double squares_quantum, struct stream *stream)
{
    const int64_t parts = parts_of(squares_quantum);
    int64_t first = -1; /* start of the run; -1: no run is open */
    int run = 0;
    for (int i = 0; i <= unit->parameter_count; i++) {
        const struct parameter *p = i < unit->parameter_count ? &unit->parameters[i] : NULL;
        if (p != NULL && p->storage != storage)
            continue;
        if (p != NULL && p->owner == 0 && first < 0)
            first = p->offset;
        if (first < 0 || (p != NULL && p->owner == 0))
            continue;
        if (run * parts == squares.cols)
            error_fatal("bug: unit %s has more than %d runs of parameters to measure", unit->name, run);
        measure_run(shard, first, p != NULL ? p->offset : unit->elements[storage],
                    tensor_columns(&squares, run++ * parts, parts), squares_quantum, stream);
        first = -1;
    }
}

/* Returns whether this rank measures the shard, among its owners. */
static bool is_measured(const struct unit *unit, const struct store_shard *shard)
{
    return tensor_present(&shard->gradient) && shard->owner == 0 && unit_is_owned(unit);
}

void optimizer_plan_measure(struct optimizer *optimizer, struct weight_store *store, struct unit *unit,
                            struct stream *stream)
{
    const double squares_quantum = optimizer->squares_quantum;
    for (int st = 0; st < STORAGE_COUNT; st++) {
        const struct store_shard shard = store->class->shard(store, unit, (enum storage_class)st);
        if (is_measured(unit, &shard))
            measure_run(&shard, 0, unit->elements[st],
                        tensor_columns(&optimizer->squares, 0, parts_of(squares_quantum)), squares_quantum, stream);
    }
}

void optimizer_measure(struct optimizer *optimizer, struct weight_store *store, struct unit *unit,
                       struct stream *stream)
{
    const int64_t numbers = optimizer->runs * parts_of(optimizer->squares_quantum);
    for (int st = 0; st < STORAGE_COUNT; st++) {
        const struct store_shard shard = store->class->shard(store, unit, (enum storage_class)st);
        if (is_measured(unit, &shard))
            measure_shard(
                unit, (enum storage_class)st, &shard,
                tensor_columns(&optimizer->squares, ((int64_t)unit->index * STORAGE_COUNT + st) * numbers, numbers),
                optimizer->squares_quantum, stream);
    }
}

static struct tensor corrections(const struct tensor *step)
{
    return tensor_columns(step, ADAMW_CORRECTION_1, 2);
}

void optimizer_scale(struct optimizer *optimizer, struct stream *stream, struct tensor total)
{
    LAUNCH(stream, GRADIENT_SCALE, gradient_scale, .squares = optimizer->squares, .total = total,
           .scale = optimizer->scale, .norm = optimizer->norm, .updates = optimizer->updates,
           .corrections = corrections(&optimizer->steps[0]), .beta1 = optimizer->settings.beta1,
           .beta2 = optimizer->settings.beta2, .max_norm = (float)optimizer->settings.clip);
    if (optimizer->settings.decoupled)
        LAUNCH(stream, COPY, copy, .from = corrections(&optimizer->steps[0]), .to = corrections(&optimizer->steps[1]));
}

void optimizer_update(struct optimizer *optimizer, struct weight_store *store, struct unit *unit, struct stream *stream)
{
    const struct optimizer_settings *s = &optimizer->settings;
    for (int st = 0; st < STORAGE_COUNT; st++) {
        struct store_shard shard = store->class->shard(store, unit, (enum storage_class)st);
        if (unit_uses_muon(unit, (enum storage_class)st))
            muon_update(&optimizer->muon, store, unit, stream,
                        &(struct muon_step){.rate = tensor_columns(&optimizer->steps[0], ADAMW_LR, 1),
                                            .scale = optimizer->scale,
                                            .weight_decay = unit->decay[st] ? s->weight_decay : 0});
        else if (tensor_present(&shard.gradient))
            LAUNCH(stream, ADAMW, adamw, .weight = shard.weight.value, .low = shard.weight.low,
                   .gradient = shard.gradient, .m = shard.m, .v = shard.v,
                   .step = optimizer->steps[unit->decoupled[st]], .scale = optimizer->scale, .beta1 = s->beta1,
                   .beta2 = s->beta2, .eps = s->eps, .weight_decay = unit->decay[st] ? s->weight_decay : 0,
                   .lr_factor = 1);
    }
}
