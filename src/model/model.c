#include "model/model.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/range.h"
#include "model/block.h"
#include "model/boundary.h"
#include "model/embedding.h"
#include "model/linear_adapter.h"
#include "model/lm_head.h"
#include "model/task_head.h"
#include "architecture/stages.h"

#include <math.h>
#include <stdio.h>

/* Adds the next unit to slice `slice` of the model. */
static struct unit *start_unit(struct model *model, int slice, int layer)
{
    const struct pipeline_parallel *pipeline = &model->settings.pipeline;
    struct unit *unit = &model->units[model->unit_count];
    unit->settings = &model->settings;
    unit->index = model->unit_count++;
    unit->layer = layer;
    unit->tokens = model->tokens;
    unit->here = slice % stage_count(pipeline) == pipeline->stage;
    unit->chunk = unit->here ? slice / stage_count(pipeline) : -1;
    return unit;
}

static void add_block(struct model *model, int slice, int layer)
{
    snprintf(start_unit(model, slice, layer)->name, sizeof model->units->name, "block.%d", layer);
}

/* Adds the units of adapters behind the head, and declares the blocks, which borrow from them. */
static void declare_blocks(struct model *model)
{
    for (int u = 0; u < model->head; u++) {
        struct unit *block = &model->units[u], *adapters = NULL;
        if (block->layer < 0)
            continue;
        if (model->settings.lora.rank > 0) {
            adapters = start_unit(model, 0, block->layer);
            adapters_declare(adapters);
            adapters->here = block->here;
            adapters->chunk = -1;
            snprintf(adapters->name, sizeof adapters->name, "adapters.%d", block->layer);
        }
        block_declare(block, adapters);
    }
}

static void add_boundary(struct model *model, int slice)
{
    struct unit *send = start_unit(model, slice, -1);
    stage_send_declare(send);
    snprintf(send->name, sizeof send->name, "stage_send.%d", slice);
    struct unit *receive = start_unit(model, slice + 1, -1);
    stage_receive_declare(receive);
    snprintf(receive->name, sizeof receive->name, "stage_receive.%d", slice + 1);
}

static void find_chunks(struct model *model)
{
    if (model->settings.pipeline.chunks > MODEL_CHUNKS)
        error_fatal("bug: a stage has %d chunks", model->settings.pipeline.chunks);
    for (int u = 0; u < model->unit_count; u++) {
        const int chunk = model->units[u].chunk;
        if (chunk == model->chunk_count)
            model->chunks[model->chunk_count++].first = u;
        if (chunk >= 0)
            model->chunks[chunk].end = u + 1;
    }
}

/* A tied head's stage stores the table too. */
static void mark_two_stages(struct unit *table, const struct unit *head)
{
    const int stages = stage_count(&table->settings->pipeline);
    table->on_two_stages = stages > 1 && unit_lender(head) == table;
    table->here |= table->on_two_stages && head->here;
}

/* Lets ops write bf16 gradients, except of weights to which a unit adds in chunks, or two units add (a tied embedding):
 * these are summed in fp32. So are those of a tied head, which has one launch for them and the table's, and those of
 * adapters, which are few. */
static void round_gradients(struct model *model, const struct unit *head)
{
    for (int u = 0; u < model->unit_count; u++) {
        struct unit *unit = &model->units[u];
        const bool in_parts = unit == head ? head->head_tokens < head->tokens : block_is_sliced(unit);
        const bool tied = unit_lender(head) != NULL && (unit == head || unit == unit_lender(head));
        unit->rounds_gradients = model->settings.rounds_gradients && !in_parts && !tied && u <= model->head;
    }
}

/* Returns whether a unit's weights are not trained. A boundary has none; it is frozen with the trunk. */
static bool is_frozen(const struct model *model, const struct unit *unit)
{
    const struct model_settings *s = &model->settings;
    if (unit->index == model->head)
        return !model_trains_head(s);
    return unit->index < model->head && (s->lora.rank > 0 || s->freeze == DECK_FREEZE_TRUNK);
}

static void freeze(struct model *model)
{
    bool trains = false, before; /* this unit, or one before it; the latter alone */
    for (int u = 0; u < model->unit_count; u++)
        model->units[u].frozen = is_frozen(model, &model->units[u]);
    for (int u = 0; u <= model->head; u++) {
        struct unit *unit = &model->units[u];
        const struct unit *lender = unit_lender(unit);
        before = trains;
        trains |= !unit->frozen || (lender != NULL && !lender->frozen);
        unit->idle_backward = !trains;
        unit->ends_backward = trains && !before;
    }
}

void model_create(struct model *model, const struct model_settings *settings, int64_t tokens, int64_t head_tokens)
{
    const int slices = stage_slices(&settings->pipeline), boundaries = slices - 1;
    int layers = 0, *counts = memory_allocate((int64_t)sizeof *counts * slices);
    *model = (struct model){.settings = *settings, .tokens = tokens};
    model->units = memory_allocate((int64_t)sizeof *model->units * (2 * settings->layers + 2 + 2 * boundaries));
    stages_balance(settings, counts);

    struct unit *embedding = start_unit(model, 0, -1);
    embedding_declare(embedding);
    snprintf(embedding->name, sizeof embedding->name, "embedding");
    for (int slice = 0; slice < slices; slice++) {
        for (int i = 0; i < counts[slice]; i++)
            add_block(model, slice, layers++);
        if (slice < boundaries)
            add_boundary(model, slice);
    }
    struct unit *head = start_unit(model, boundaries, -1);
    model->head = head->index;
    if (settings->task.head == DECK_HEAD_LM)
        lm_head_declare(head, embedding, head_tokens);
    else
        task_head_declare(head);
    snprintf(head->name, sizeof head->name, "%s", head->class->name);
    declare_blocks(model);
    mark_two_stages(embedding, head);
    round_gradients(model, head);
    freeze(model);
    find_chunks(model);
    memory_free(counts);
}

void model_destroy(struct model *model)
{
    for (int u = 0; u < model->unit_count; u++)
        unit_destroy(&model->units[u]);
    memory_free(model->units);
    model->units = NULL;
    model->unit_count = 0;
}

int model_parameters(const struct model *model)
{
    int count = 0;
    for (int u = 0; u < model->unit_count; u++)
        count += model->units[u].parameter_count;
    return count;
}

static struct random_key key_of(const struct parameter *parameter, uint64_t seed)
{
    return (struct random_key){seed, RANDOM_INIT, random_hash_name(parameter->name)};
}

static bool is_zero(const struct parameter *parameter, int64_t element)
{
    return parameter->initial.zero_row >= 0 && element / parameter->cols == parameter->initial.zero_row;
}

void parameter_initial_values(const struct parameter *parameter, uint64_t seed, int64_t first, int64_t count,
                              double *values)
{
    const struct initial_value *initial = &parameter->initial;
    const struct random_key key = key_of(parameter, seed);
    switch (initial->kind) {
    case INIT_NORMAL:
        random_normals(&key, (uint64_t)first, count, values);
        for (int64_t i = 0; i < count; i++)
            values[i] *= initial->value;
        break;
    case INIT_UNIFORM:
        random_uniforms(&key, (uint64_t)first, count, values);
        for (int64_t i = 0; i < count; i++)
            values[i] = initial->value * (2 * values[i] - 1);
        break;
    case INIT_CONSTANT:
        for (int64_t i = 0; i < count; i++)
            values[i] = initial->value;
        break;
    }
    for (int64_t i = 0; i < count; i++)
        if (is_zero(parameter, first + i))
            values[i] = 0;
}

void parameter_initial_floats(const struct parameter *parameter, uint64_t seed, int64_t first, int64_t count,
                              float *values)
{
    enum { SOME = 512 };
    double some[SOME];
    if (parameter->initial.kind == INIT_NORMAL) {
        const struct random_key key = key_of(parameter, seed);
        random_normal_floats(&key, (uint64_t)first, count, parameter->initial.value, values);
        for (int64_t i = 0; i < count; i++)
            if (is_zero(parameter, first + i))
                values[i] = 0;
        return;
    }
    for (int64_t done = 0; done < count; done += SOME) {
        const int64_t part = MIN(count - done, SOME);
        parameter_initial_values(parameter, seed, first + done, part, some);
        for (int64_t i = 0; i < part; i++)
            values[done + i] = (float)some[i];
    }
}

double rope_table_value(const struct model_settings *settings, int64_t position, int64_t column)
{
    int64_t half = settings->head_dim / 2;
    double angle = (double)position * rope_frequency(&settings->rope, settings->head_dim, column % half);
    return rope_magnitude(&settings->rope) * (column < half ? cos(angle) : sin(angle));
}
