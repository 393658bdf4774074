#include "loader/loader.h"
#include "base/error.h"

#include <stdint.h>

struct windows_layout loader_layout(const struct loader_settings *settings)
{
    enum windows_mode mode = settings->special == LOADER_SPECIAL_SEQUENCE ? WINDOWS_ENDS : WINDOWS_EACH;
    return (struct windows_layout){settings->window, settings->overlap, settings->truncate ? WINDOWS_FIRST : mode,
                                   settings->no_bos, settings->no_eos};
}

/* With Megatron-LM's order, a row is one sample. */
static int check_order(const struct loader_settings *settings)
{
    if (settings->window != settings->row_tokens)
        return error_user("key data.window = %lld: data.order = \"megatron\" needs data.row_tokens = %lld, or 0",
                          (long long)settings->window, (long long)settings->row_tokens);
    if (settings->seed > UINT32_MAX)
        return error_user("key train.seed = %llu: must be below 2^32 with data.order = \"megatron\"",
                          (unsigned long long)settings->seed);
    if (settings->megatron.samples >= UINT32_MAX)
        return error_user("key train.steps: times train.global_batch is %lld rows, but must be below 2^32 - 1 with "
                          "data.order = \"megatron\"",
                          (long long)settings->megatron.samples);
    return ERROR_NONE;
}

int loader_check_settings(const struct loader_settings *settings)
{
    if (settings->row_tokens < 16 || settings->row_tokens % 16 != 0)
        return error_user("key data.row_tokens = %lld: must be a positive multiple of 16",
                          (long long)settings->row_tokens);
    if (settings->window < 4 || settings->window > settings->row_tokens)
        return error_user("key data.window = %lld: must be between 4 and data.row_tokens = %lld",
                          (long long)settings->window, (long long)settings->row_tokens);
    if (settings->max_segments < 1)
        return error_user("key data.max_segments = %lld: must be at least 1", (long long)settings->max_segments);
    if (settings->global_rows < 1)
        return error_user("key train.global_batch = %lld: must be at least 1 row", (long long)settings->global_rows);
    if (settings->micro_rows < 1)
        return error_user("key train.micro_batch = %lld: must be at least 1 row", (long long)settings->micro_rows);
    if (settings->micro_rows > INT32_MAX / settings->row_tokens)
        return error_user("key train.micro_batch = %lld: times data.row_tokens = %lld must stay below 2^31 tokens",
                          (long long)settings->micro_rows, (long long)settings->row_tokens);
    if (settings->truncate && settings->special == LOADER_SPECIAL_SEQUENCE)
        return error_user("key data.truncate = true: needs data.special_tokens = \"window\"");
    if (settings->reverse_complement > 0 && settings->special == LOADER_SPECIAL_SEQUENCE)
        return error_user("key data.reverse_complement = %g: needs data.special_tokens = \"window\"",
                          settings->reverse_complement);
    if (settings->mask_probability > 0 && (settings->no_bos || settings->no_eos))
        return error_user("key data.%s = false: masked models need both special tokens",
                          settings->no_bos ? "bos" : "eos");
    struct windows_layout layout = loader_layout(settings);
    int code = windows_check_layout(&layout);
    if (code == ERROR_NONE && settings->megatron.ordered)
        code = check_order(settings);
    return code == ERROR_NONE && settings->stores == NULL ? random_windows_check(&settings->random) : code;
}
