#include "architecture/flops.h"

const char *flops_name(enum flops_convention convention)
{
    static const char *const names[FLOPS_CONVENTIONS] = {"causal", "full", "opengenome2"};
    return names[convention];
}

double flops_keys(int64_t segment, bool causal, int64_t window)
{
    const double length = (double)segment, seen = (double)(window > 0 ? MIN(window, segment) : segment);
    return causal ? seen - seen * (seen - 1) / 2 / length : length;
}

double flops_per_token(const struct model_settings *s, int64_t segment, enum flops_convention convention)
{
    double layers = (double)s->layers, hidden = (double)s->hidden, length = (double)segment;
    const bool trunk = s->freeze == DECK_FREEZE_TRUNK, lora = s->lora.rank > 0;
    /* a forward, the input's gradient, the weights' gradient: 1 each; attention has twice a forward in its backward */
    const int blocks = lora ? 2 : trunk ? 1 : 3, attends = trunk && !lora ? 1 : 3, heads = model_trains_head(s) ? 3 : 2;
    if (convention == FLOPS_OPENGENOME2)
        return (24 * hidden * hidden * blocks + 4 * length * hidden * attends) * layers +
               2 * hidden * (double)s->vocabulary * heads;
    const bool half = convention == FLOPS_CAUSAL && model_causal(s);
    const double whole = (double)MIN(s->sliding_window > 0 ? s->max_window_layers : s->layers, s->layers);
    const double keys = whole * flops_keys(segment, half, 0) +
                        (layers - whole) * flops_keys(segment, half, half ? s->sliding_window : 0); /* of all layers */
    const double attention = 2 * 2 * keys * (double)s->heads * (double)s->head_dim; /* GEMMs q k' and p v */
    const double head = 2 * model_head_elements(s);
    const double adapters = 3 * 2 * (double)model_adapter_count(s);
    return blocks * (2 * model_matrix_elements(s) - head) + attends * attention + heads * head + adapters;
}

double flops_utilisation(double per_token, double tokens_per_second, double peak)
{
    return tokens_per_second * per_token / peak;
}

double flops_days(double tokens, double tokens_per_second)
{
    return tokens / tokens_per_second / 86400;
}
