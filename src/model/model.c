#include "model/model.h"
#include "base/memory.h"
#include "base/random.h"
#include "model/block.h"
#include "model/embedding.h"
#include "model/lm_head.h"

#include <math.h>
#include <stdio.h>

static struct unit *start_unit(struct model *model, int index, int layer)
{
    struct unit *unit = &model->units[index];
    unit->settings = &model->settings;
    unit->index = index;
    unit->layer = layer;
    unit->tokens = model->tokens;
    return unit;
}

void model_create(struct model *model, const struct model_settings *settings, int64_t tokens, int64_t head_tokens)
{
    int layers = (int)settings->layers;
    model->settings = *settings;
    model->tokens = tokens;
    model->unit_count = layers + 2;
    model->units = memory_allocate((int64_t)sizeof *model->units * model->unit_count);

    struct unit *embedding = start_unit(model, 0, -1);
    embedding_declare(embedding);
    snprintf(embedding->name, sizeof embedding->name, "embedding");
    for (int layer = 0; layer < layers; layer++) {
        struct unit *block = start_unit(model, 1 + layer, layer);
        block_declare(block);
        snprintf(block->name, sizeof block->name, "block.%d", layer);
    }
    struct unit *head = start_unit(model, layers + 1, -1);
    lm_head_declare(head, embedding, head_tokens);
    snprintf(head->name, sizeof head->name, "lm_head");
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

void parameter_initial_values(const struct parameter *parameter, uint64_t seed, int64_t first, int64_t count,
                              double *values)
{
    const struct initial *initial = &parameter->initial;
    const struct random_key key = {seed, RANDOM_INIT, random_hash_name(parameter->name)};
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
    for (int64_t i = 0; initial->zero_row >= 0 && i < count; i++)
        if ((first + i) / parameter->cols == initial->zero_row)
            values[i] = 0;
}

double rope_table_value(const struct model_settings *settings, int64_t position, int64_t column)
{
    int64_t half = settings->head_dim / 2;
    double angle = (double)position * rope_frequency(&settings->rope, settings->head_dim, column % half);
    return column < half ? cos(angle) : sin(angle);
}
