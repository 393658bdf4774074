#include "bridge/frequencies.h"
#include "base/memory.h"
#include "checkpoint/safetensors_dtype.h"

#include <math.h>
#include <string.h>

bool frequencies_named(const char *name)
{
    return strstr(name, "inv_freq") != NULL;
}

double frequencies_error(const struct rope_settings *rope, int64_t head_dim, const struct carried_tensor *tensor)
{
    enum safetensors_dtype dtype;
    const int64_t count = head_dim / 2;
    if (tensor->dims != 1 || tensor->shape[0] != count || !safetensors_dtype_find(tensor->dtype, &dtype))
        return INFINITY;
    float *table = memory_allocate(count * (int64_t)sizeof *table);
    double worst = safetensors_to_float(dtype, tensor->data, count, table) ? 0 : INFINITY;
    for (int64_t i = 0; i < count; i++) {
        double error = fabs((double)table[i] / rope_frequency(rope, head_dim, i) - 1);
        worst = error <= worst ? worst : isnan(error) ? INFINITY : error;
    }
    memory_free(table);
    return worst;
}
