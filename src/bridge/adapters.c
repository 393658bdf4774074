#include "bridge/adapters.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/range.h"
#include "checkpoint/checkpoint_stream.h"

#include <stdlib.h>
#include <string.h>

static int keep_piece(void *self, const struct checkpoint_piece *piece)
{
    const struct adapter_values *adapters = self;
    float **values = &adapters->values[piece->number];
    if (*values == NULL)
        *values = memory_allocate(piece->parameter->rows * piece->parameter->cols * (int64_t)sizeof **values);
    memcpy(*values + piece->slab.first, piece->staging, (size_t)piece->slab.count * sizeof **values);
    return ERROR_NONE;
}

int adapters_read(struct adapter_values *adapters, const struct model *model, const char *path)
{
    *adapters = (struct adapter_values){model, memory_allocate(model_parameters(model) * (int64_t)sizeof(float *))};
    if (model->head + 1 == model->unit_count)
        return ERROR_NONE;
    return checkpoint_stream_read(model, model->head + 1, model->unit_count, path, keep_piece, adapters);
}

void adapters_destroy(struct adapter_values *adapters)
{
    for (int i = 0; adapters->values != NULL && i < model_parameters(adapters->model); i++)
        memory_free(adapters->values[i]);
    memory_free(adapters->values);
    *adapters = (struct adapter_values){0};
}

/* Returns the values of the adapter's matrix `which` ("lora_A", "lora_B") of a parameter; NULL: it has no adapter. */
static const float *matrix_of(const struct adapter_values *adapters, const struct parameter *parameter,
                              const char *which)
{
    static const char end[] = ".weight";
    const size_t length = strlen(parameter->name), stem = length - strlen(end);
    if (length < strlen(end) || strcmp(parameter->name + stem, end) != 0)
        return NULL;
    char *name = memory_format("%.*s.%s%s", (int)stem, parameter->name, which, end);
    const float *found = NULL;
    int number = 0;
    for (int u = 0; u < adapters->model->unit_count; u++)
        for (int i = 0; i < adapters->model->units[u].parameter_count; i++, number++)
            if (adapters->values[number] != NULL && strcmp(adapters->model->units[u].parameters[i].name, name) == 0)
                found = adapters->values[number];
    free(name);
    return found;
}

void adapters_merge(const struct adapter_values *adapters, const struct parameter *parameter,
                    struct parameter_slab slab, float *values)
{
    const int64_t rank = adapters->model->settings.lora.rank, cols = parameter->cols;
    const float *a = matrix_of(adapters, parameter, "lora_A"), *b = matrix_of(adapters, parameter, "lora_B");
    if (a == NULL || b == NULL)
        return;
    const double factor = lora_factor(&adapters->model->settings.lora);
    double *sums = memory_allocate(cols * (int64_t)sizeof *sums);
    for (int64_t done = 0, count; done < slab.count; done += count) {
        const int64_t row = (slab.first + done) / cols, first = (slab.first + done) % cols;
        count = MIN(cols - first, slab.count - done);
        for (int64_t c = 0; c < count; c++)
            sums[c] = 0;
        for (int64_t k = 0; k < rank; k++)
            for (int64_t c = 0; c < count; c++)
                sums[c] += (double)b[row * rank + k] * a[k * cols + first + c];
        for (int64_t c = 0; c < count; c++)
            values[done + c] = (float)(values[done + c] + factor * sums[c]);
    }
    memory_free(sums);
}
