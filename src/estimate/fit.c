#include "estimate/fit.h"
#include "base/available.h"
#include "base/bytes.h"
#include "base/error.h"
#include "estimate/estimate.h"

#include <stdlib.h>

int64_t fit_free(struct executor *target, int64_t sharing)
{
    return target->device != NULL ? target->device->available(target->owner) : available_memory("") / sharing;
}

int fit_limit(int64_t *limit, const struct setup *setup, int64_t sharing, struct executor *target)
{
    *limit = setup->memory < 0x1p62 ? (int64_t)setup->memory : INT64_MAX;
    if (setup->memory > 0)
        return ERROR_NONE;
    *limit = fit_free(target, sharing);
    if (*limit == 0 && available_memory("") == 0)
        return error_environment("/proc/meminfo has no MemAvailable; set device.memory");
    return ERROR_NONE;
}

int64_t fit_usable(const struct setup *setup, int64_t limit, const struct executor *target)
{
    return setup->memory > 0 ? limit : limit - limit / (target->device != NULL ? 64 : 8);
}

int fit_check(struct memory_fit *fit, const struct setup *setup, int64_t need, int64_t sharing, struct executor *target)
{
    *fit = (struct memory_fit){.need = need, .of_deck = setup->memory > 0};
    int code = fit_limit(&fit->limit, setup, sharing, target);
    if (code != ERROR_NONE)
        return code;
    if (fit->need <= fit->limit)
        return ERROR_NONE;
    fit_advise(fit->advice, fit->limit, setup, target);
    return ERROR_NONE;
}

int fit_refuse(const struct memory_fit *fit)
{
    char need[BYTES_TEXT], limit[BYTES_TEXT];
    if (fit->need <= fit->limit)
        return ERROR_NONE;
    bytes_text(need, (double)fit->need);
    bytes_text(limit, (double)fit->limit);
    if (fit->of_deck)
        return error_user("key device.memory: a rank needs %s and may use %s; %s", need, limit, fit->advice);
    return error_user("a rank needs %s, and this machine has %s free for each, within this job's limits (to plan for "
                      "another machine, set device.memory to the GiB of a rank there); %s",
                      need, limit, fit->advice);
}

int64_t fit_host(const struct setup *setup, int64_t sharing)
{
    const double bytes =
        (double)(available_memory("") / sharing) - loader_bytes(&setup->train, setup->ranks / setup->sharing);
    return bytes > 0 ? (int64_t)bytes : 0;
}

/* If the device does not have its own memory, the engine's memory is not touched yet and still counts as free. */
int64_t fit_snapshot(const struct setup *setup, const struct budget *budget, int64_t sharing, struct executor *target)
{
    int64_t limit = 0;
    if (target->device != NULL)
        return fit_host(setup, sharing) / 8 * 7;
    if (fit_limit(&limit, setup, sharing, target) != ERROR_NONE)
        error_clear();
    return fit_usable(setup, limit, target) - budget_total(budget) - budget->bytes[BUDGET_HOST];
}

int fit_check_host(const struct setup *setup, int64_t bytes, int64_t host, const struct executor *target)
{
    char need[BYTES_TEXT], limit[BYTES_TEXT];
    if (target->device == NULL || bytes <= host)
        return ERROR_NONE;
    char *layers = deck_key_text(setup->deck, "memory.offload_layers");
    int code = error_user("key memory.offload_layers = %s: needs %s of host memory for each rank, but this machine has "
                          "%s free for each, after the rows of two steps; name fewer layers",
                          layers, bytes_text(need, (double)bytes), bytes_text(limit, (double)host));
    free(layers);
    return code;
}

int fit_check_training(const struct setup *setup, int64_t sharing, struct executor *target)
{
    struct memory_fit fit;
    int64_t memory[BUDGET_CATEGORIES], need = estimate_memory(memory, setup, target);
    int code = fit_check(&fit, setup, need, sharing, target);
    if (code == ERROR_NONE)
        code = fit_refuse(&fit);
    if (code != ERROR_NONE)
        return code;
    return fit_check_host(setup, memory[BUDGET_HOST], fit_host(setup, sharing), target);
}
