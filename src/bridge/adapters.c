#include "bridge/adapters.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/range.h"
#include "checkpoint/checkpoint_stream.h"
#include "checkpoint/safetensors_dtype.h"

#include <stdlib.h>
#include <string.h>
/* xxhash: see file/block.c */
#include <xxhash.h>

void adapters_create(struct adapter_values *adapters, const struct model *model)
{
    *adapters = (struct adapter_values){model, memory_allocate(model_parameters(model) * (int64_t)sizeof(float *))};
}

int adapters_first_unit(const struct model *model)
{
    return model_trains_head(&model->settings) ? model->head : model->head + 1;
}

float *adapters_place(struct adapter_values *adapters, const struct parameter *parameter, int number)
{
    float **values = &adapters->values[number];
    if (*values == NULL)
        *values = memory_allocate(parameter->rows * parameter->cols * (int64_t)sizeof **values);
    return *values;
}

static int keep_piece(void *self, const struct checkpoint_piece *piece)
{
    float *values = adapters_place(self, piece->parameter, piece->number);
    memcpy(values + piece->slab.first, piece->staging, (size_t)piece->slab.count * sizeof *values);
    return ERROR_NONE;
}

int adapters_read(struct adapter_values *adapters, const struct model *model, int first, const char *path)
{
    adapters_create(adapters, model);
    if (model->head + 1 == model->unit_count)
        return ERROR_NONE;
    return checkpoint_stream_read(model, first, model->unit_count, path, keep_piece, adapters);
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

struct base_digest {
    XXH3_state_t *state;
    uint16_t *rounded;
    int64_t most; /* elements of rounded */
};

static int add_piece(void *self, const struct checkpoint_piece *piece)
{
    struct base_digest *digest = self;
    for (int64_t done = 0; done < piece->slab.count; done += digest->most) {
        const int64_t rest = piece->slab.count - done, count = MIN(rest, digest->most);
        safetensors_from_float(SAFETENSORS_BF16, piece->staging + done, count, digest->rounded);
        XXH3_64bits_update(digest->state, digest->rounded, (size_t)count * sizeof *digest->rounded);
    }
    return ERROR_NONE;
}

int adapters_base_digest(uint64_t *digest, const struct model *model, const char *path)
{
    enum { MOST = 1 << 18 };
    struct base_digest sum = {XXH3_createState(), memory_allocate(MOST * (int64_t)sizeof(uint16_t)), MOST};
    if (sum.state == NULL)
        error_fatal("out of memory for a hash");
    XXH3_64bits_reset(sum.state);
    int code = checkpoint_stream_read(model, 0, adapters_first_unit(model), path, add_piece, &sum);
    *digest = XXH3_64bits_digest(sum.state);
    XXH3_freeState(sum.state);
    memory_free(sum.rounded);
    return code;
}
