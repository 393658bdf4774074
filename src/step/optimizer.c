#include "step/optimizer.h"

int64_t optimizer_squares(const struct model *model)
{
    return (int64_t)model->unit_count * STORAGE_COUNT;
}

void optimizer_create(struct optimizer *optimizer, const struct optimizer_settings *settings, struct tensor squares,
                      struct budget *budget, enum dtype statistic)
{
    const int64_t width = dtype_size(statistic);
    optimizer->settings = *settings;
    optimizer->squares = squares;
    optimizer->scale = tensor_vector(budget_allocate(budget, width, BUDGET_BATCH), statistic, 1);
    optimizer->norm = tensor_vector(budget_allocate(budget, width, BUDGET_BATCH), statistic, 1);
    for (int i = 0; i < 1 + settings->decoupled; i++)
        optimizer->steps[i] =
            tensor_vector(budget_allocate(budget, ADAMW_STEP_COUNT * width, BUDGET_BATCH), statistic, ADAMW_STEP_COUNT);
    optimizer->updates = tensor_vector(budget_allocate(budget, dtype_size(DTYPE_F64), BUDGET_BATCH), DTYPE_F64, 1);
}

void optimizer_measure(struct optimizer *optimizer, struct store *store, struct unit *unit, struct stream *stream)
{
    for (int st = 0; st < STORAGE_COUNT; st++) {
        struct shard shard = store->class->shard(store, unit, (enum storage)st);
        if (tensor_present(&shard.gradient) && shard.holder == 0)
            LAUNCH(stream, SUM_SQUARES, sum_squares, .x = shard.gradient,
                   .sum = tensor_columns(&optimizer->squares, (int64_t)unit->index * STORAGE_COUNT + st, 1));
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

void optimizer_update(struct optimizer *optimizer, struct store *store, struct unit *unit, struct stream *stream)
{
    const struct optimizer_settings *s = &optimizer->settings;
    for (int st = 0; st < STORAGE_COUNT; st++) {
        struct shard shard = store->class->shard(store, unit, (enum storage)st);
        if (tensor_present(&shard.gradient))
            LAUNCH(stream, ADAMW, adamw, .weight = shard.weight.value, .low = shard.weight.low,
                   .gradient = shard.gradient, .m = shard.m, .v = shard.v,
                   .step = optimizer->steps[unit->decoupled[st]], .scale = optimizer->scale, .beta1 = s->beta1,
                   .beta2 = s->beta2, .eps = s->eps, .weight_decay = unit->decay[st] ? s->weight_decay : 0,
                   .lr_factor = 1);
    }
}
