#include "model/settings.h"
#include "base/error.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define LLAMA31_ROPE                                                                                                   \
    {                                                                                                                  \
        500000, 8, 1, 4, 8192                                                                                          \
    }
#define LLAMA32_ROPE                                                                                                   \
    {                                                                                                                  \
        500000, 32, 1, 4, 8192                                                                                         \
    }

/* Sources: spec of the BioNeMo recipes (llama3, opengenome2 configurations), Llama 3 / 3.1 model cards, and the
 * layer-cut 405B of the NeMo benchmark recipes. */
static const struct model_preset presets[] = {
    /* name, layers, hidden, ffn, heads, kv, head_dim, vocabulary, tied, rope, init_std, eps, parameters */
    {"llama32_1b", 16, 2048, 8192, 32, 8, 64, 128256, true, LLAMA32_ROPE, 0.02, 1e-5, 1235814400},
    {"llama3_sanity", 2, 384, 1536, 6, 6, 64, 128256, true, LLAMA32_ROPE, 0.02, 1e-5, 53970816},
    {"llama3_convergence", 16, 2048, 8192, 32, 8, 64, 256, false, LLAMA32_ROPE, 0.02, 1e-5, 974194688},
    {"lingua_1b", 25, 2048, 6144, 16, 8, 128, 128256, false, {10000, 0, 0, 0, 0}, 0.023, 1e-5, 1783732224},
    {"llama3_8b", 32, 4096, 14336, 32, 8, 128, 128256, false, {500000, 0, 0, 0, 0}, 0.02, 1e-5, 8030261248},
    {"llama31_8b", 32, 4096, 14336, 32, 8, 128, 128256, false, LLAMA31_ROPE, 0.02, 1e-5, 8030261248},
    {"llama3_70b", 80, 8192, 28672, 64, 8, 128, 128256, false, {500000, 0, 0, 0, 0}, 0.02, 1e-5, 70553706496},
    {"llama31_70b", 80, 8192, 28672, 64, 8, 128, 128256, false, LLAMA31_ROPE, 0.02, 1e-5, 70553706496},
    {"llama31_405b", 126, 16384, 53248, 128, 8, 128, 128256, false, LLAMA31_ROPE, 0.02, 1e-5, 405853388800},
    {"llama31_405b_8", 8, 16384, 53248, 128, 8, 128, 128256, false, LLAMA31_ROPE, 0.02, 1e-5, 29704339456},
    {"llama31_405b_30", 30, 16384, 53248, 128, 8, 128, 128256, false, LLAMA31_ROPE, 0.02, 1e-5, 99833823232},
    {"llama31_405b_62", 62, 16384, 53248, 128, 8, 128, 128256, false, LLAMA31_ROPE, 0.02, 1e-5, 201840345088},
    {"og2_7b", 32, 4096, 14336, 32, 8, 128, 256, false, {500000, 1, 1, 4, 8192}, 0.02, 1e-5, 6981685248},
    {"og2_sanity", 2, 384, 1536, 6, 6, 64, 256, true, LLAMA32_ROPE, 0.02, 1e-5, 4818816},
};

enum { PRESETS = sizeof presets / sizeof presets[0] };

const struct model_preset *model_preset_at(int index)
{
    return index >= 0 && index < PRESETS ? &presets[index] : NULL;
}

static const struct model_preset *find_preset(const char *name)
{
    for (int i = 0; i < PRESETS; i++)
        if (strcmp(presets[i].name, name) == 0)
            return &presets[i];
    return NULL;
}

static int unknown_preset(const char *name)
{
    char known[1024] = "";
    for (int i = 0; i < PRESETS; i++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", presets[i].name);
    }
    return error_user("key model.preset = \"%s\": unknown; the presets are %s", name, known);
}

/* Beyond these, counts of bytes would no longer fit their types. */
enum { MAX_LAYERS = 100000 };
static const double MAX_PARAMETERS = 1e15;

static int check_sizes(const struct model_settings *s)
{
    const struct {
        const char *key;
        int64_t value;
    } sizes[] = {{"layers", s->layers}, {"hidden", s->hidden},     {"ffn", s->ffn},
                 {"heads", s->heads},   {"kv_heads", s->kv_heads}, {"vocabulary", s->vocabulary}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (sizes[i].value <= 0)
            return error_user("key model.%s: not set, and no preset or token store gives it", sizes[i].key);
    double block = (double)s->hidden * (2.0 * (double)(s->heads + s->kv_heads) * (double)s->head_dim) +
                   3.0 * (double)s->hidden * (double)s->ffn;
    double parameters = (double)s->layers * block + 2.0 * (double)s->vocabulary * (double)s->hidden;
    if (s->layers > MAX_LAYERS || parameters > MAX_PARAMETERS)
        return error_user("keys of model: %lld layers and %.3g parameters; at most %d and %g are possible",
                          (long long)s->layers, parameters, MAX_LAYERS, MAX_PARAMETERS);
    if (s->heads % s->kv_heads != 0)
        return error_user("key model.kv_heads = %lld: must divide model.heads = %lld", (long long)s->kv_heads,
                          (long long)s->heads);
    if (s->head_dim <= 0)
        return error_user("key model.head_dim: not set, and model.hidden = %lld does not divide by model.heads = %lld",
                          (long long)s->hidden, (long long)s->heads);
    if (s->head_dim % 2 != 0 || s->head_dim > 256)
        return error_user("key model.head_dim = %lld: must be even and at most 256", (long long)s->head_dim);
    if (s->rope.factor > 1 && !(s->rope.original > 0 && s->rope.low > 0 && s->rope.high > s->rope.low))
        return error_user("key model.rope_scaling.factor = %g: needs original > 0 and 0 < low < high, not %lld, %g, %g",
                          s->rope.factor, (long long)s->rope.original, s->rope.low, s->rope.high);
    return ERROR_NONE;
}

static int64_t pick_size(int64_t own, int64_t preset)
{
    return own > 0 ? own : preset;
}

static double pick_real(double own, double preset)
{
    return own > 0 ? own : preset;
}

int model_settings_from_deck(struct model_settings *s, const struct deck *deck, int64_t store_vocabulary)
{
    static const struct model_preset no_preset = {.rope = {10000, 0, 0, 0, 0}, .init_std = 0.02, .norm_eps = 1e-5};
    const struct model_preset *p = &no_preset;
    if (deck->model.preset[0] != '\0') {
        p = find_preset(deck->model.preset);
        if (p == NULL)
            return unknown_preset(deck->model.preset);
    }
    *s = (struct model_settings){
        .layers = pick_size(deck->model.layers, p->layers),
        .hidden = pick_size(deck->model.hidden, p->hidden),
        .ffn = pick_size(deck->model.ffn, p->ffn),
        .heads = pick_size(deck->model.heads, p->heads),
        .kv_heads = pick_size(deck->model.kv_heads, p->kv_heads),
        .vocabulary = pick_size(deck->model.vocabulary, pick_size(p->vocabulary, store_vocabulary)),
        .tied = deck->model.tied == DECK_TIED_PRESET ? p->tied : deck->model.tied == DECK_TIED_YES,
        .rope = {.theta = pick_real(deck->model.rope_theta, p->rope.theta),
                 .factor = pick_real(deck->model.rope_scaling.factor, p->rope.factor),
                 .low = pick_real(deck->model.rope_scaling.low, p->rope.low),
                 .high = pick_real(deck->model.rope_scaling.high, p->rope.high),
                 .original = pick_size(deck->model.rope_scaling.original, p->rope.original)},
        .norm_eps = pick_real(deck->model.norm_eps, p->norm_eps),
        .init_std = pick_real(deck->model.init_std, p->init_std),
        .decay_matrices = true,
        .decay_vectors = deck->optimizer.decay == DECK_DECAY_ALL,
        .decay_embedding = deck->optimizer.decay != DECK_DECAY_MATRICES_NOT_EMBEDDING,
    };
    if (s->kv_heads == 0)
        s->kv_heads = s->heads;
    /* Heads that the deck changes make the preset's head size meaningless. */
    bool own_heads = deck->model.heads > 0 || deck->model.hidden > 0;
    s->head_dim = pick_size(deck->model.head_dim, own_heads ? 0 : p->head_dim);
    if (s->head_dim == 0 && s->heads > 0 && s->hidden % s->heads == 0)
        s->head_dim = s->hidden / s->heads;
    s->embedding_std = s->init_std;
    s->output_std =
        deck->model.scaled_init && s->layers > 0 ? s->init_std / sqrt(2.0 * (double)s->layers) : s->init_std;
    if (deck->model.spike_no_more) { /* Takase et al. 2023: embeddings of unit variance */
        s->embedding_std = 1.0;
        s->tied = false;
        s->decay_embedding = false;
    }
    if (store_vocabulary > 0 && s->vocabulary > 0 && s->vocabulary < store_vocabulary)
        return error_user("key model.vocabulary = %lld: the token store data.train has ids up to %lld",
                          (long long)s->vocabulary, (long long)store_vocabulary - 1);
    return check_sizes(s);
}

int64_t model_parameter_count(const struct model_settings *s)
{
    int64_t q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    int64_t block = s->hidden * (q + 2 * kv) + q * s->hidden + 3 * s->hidden * s->ffn + 2 * s->hidden;
    return s->layers * block + s->hidden + (s->tied ? 1 : 2) * s->vocabulary * s->hidden;
}

double rope_frequency(const struct rope_settings *rope, int64_t head_dim, int64_t i)
{
    double frequency = pow(rope->theta, -2.0 * (double)i / (double)head_dim);
    if (rope->factor <= 1)
        return frequency;
    double wavelength = 2 * 3.14159265358979323846 / frequency;
    if (wavelength > (double)rope->original / rope->low)
        return frequency / rope->factor;
    if (wavelength < (double)rope->original / rope->high)
        return frequency;
    double blend = ((double)rope->original / wavelength - rope->low) / (rope->high - rope->low);
    return (1 - blend) * frequency / rope->factor + blend * frequency;
}
