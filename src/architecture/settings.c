#include "architecture/settings.h"
#include "base/error.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define LLAMA31_ROPE                                                                                                   \
    {                                                                                                                  \
        .theta = 500000, .factor = 8, .low = 1, .high = 4, .original = 8192                                            \
    }
#define LLAMA32_ROPE                                                                                                   \
    {                                                                                                                  \
        .theta = 500000, .factor = 32, .low = 1, .high = 4, .original = 8192                                           \
    }
#define OG2_ROPE                                                                                                       \
    {                                                                                                                  \
        .theta = 500000, .factor = 1, .low = 1, .high = 4, .original = 8192                                            \
    }
#define PLAIN_ROPE(base)                                                                                               \
    {                                                                                                                  \
        .theta = base                                                                                                  \
    }

/* Sources: spec of the BioNeMo recipes (llama3, opengenome2, esm2, amplify configurations), Llama 3 / 3.1, ESM-2 and
 * AMPLIFY model cards, and the layer-cut 405B of the NeMo benchmark recipes. AMPLIFY's ffn is two thirds of its
 * intermediate size, rounded up to a multiple of 8. */
static const struct model_preset presets[] = {
    /* name, family, layers, hidden, ffn, heads, kv, head_dim, vocabulary, tied, rope, init_std, eps, positions,
     * parameters */
    {"llama32_1b", FAMILY_LLAMA, 16, 2048, 8192, 32, 8, 64, 128256, true, LLAMA32_ROPE, 0.02, 1e-5, 131072, 1235814400},
    {"llama3_sanity", FAMILY_LLAMA, 2, 384, 1536, 6, 6, 64, 128256, true, LLAMA32_ROPE, 0.02, 1e-5, 131072, 53970816},
    {"llama3_convergence", FAMILY_LLAMA, 16, 2048, 8192, 32, 8, 64, 256, false, LLAMA32_ROPE, 0.02, 1e-5, 131072,
     974194688},
    {"lingua_1b", FAMILY_LLAMA, 25, 2048, 6144, 16, 8, 128, 128256, false, PLAIN_ROPE(10000), 0.023, 1e-5, 4096,
     1783732224},
    {"llama3_8b", FAMILY_LLAMA, 32, 4096, 14336, 32, 8, 128, 128256, false, PLAIN_ROPE(500000), 0.02, 1e-5, 8192,
     8030261248},
    {"llama31_8b", FAMILY_LLAMA, 32, 4096, 14336, 32, 8, 128, 128256, false, LLAMA31_ROPE, 0.02, 1e-5, 131072,
     8030261248},
    {"llama3_70b", FAMILY_LLAMA, 80, 8192, 28672, 64, 8, 128, 128256, false, PLAIN_ROPE(500000), 0.02, 1e-5, 8192,
     70553706496},
    {"llama31_70b", FAMILY_LLAMA, 80, 8192, 28672, 64, 8, 128, 128256, false, LLAMA31_ROPE, 0.02, 1e-5, 131072,
     70553706496},
    {"llama31_405b", FAMILY_LLAMA, 126, 16384, 53248, 128, 8, 128, 128256, false, LLAMA31_ROPE, 0.02, 1e-5, 131072,
     405853388800},
    {"llama31_405b_8", FAMILY_LLAMA, 8, 16384, 53248, 128, 8, 128, 128256, false, LLAMA31_ROPE, 0.02, 1e-5, 131072,
     29704339456},
    {"llama31_405b_30", FAMILY_LLAMA, 30, 16384, 53248, 128, 8, 128, 128256, false, LLAMA31_ROPE, 0.02, 1e-5, 131072,
     99833823232},
    {"llama31_405b_62", FAMILY_LLAMA, 62, 16384, 53248, 128, 8, 128, 128256, false, LLAMA31_ROPE, 0.02, 1e-5, 131072,
     201840345088},
    {"og2_7b", FAMILY_LLAMA, 32, 4096, 14336, 32, 8, 128, 256, false, OG2_ROPE, 0.02, 1e-5, 8192, 6981685248},
    {"og2_sanity", FAMILY_LLAMA, 2, 384, 1536, 6, 6, 64, 256, true, LLAMA32_ROPE, 0.02, 1e-5, 131072, 4818816},
    {"esm2_8m", FAMILY_ESM2, 6, 320, 1280, 20, 20, 16, 33, true, PLAIN_ROPE(10000), 0.02, 1e-5, 1026, 7512353},
    {"esm2_35m", FAMILY_ESM2, 12, 480, 1920, 20, 20, 24, 33, true, PLAIN_ROPE(10000), 0.02, 1e-5, 1026, 33501153},
    {"esm2_150m", FAMILY_ESM2, 30, 640, 2560, 20, 20, 32, 33, true, PLAIN_ROPE(10000), 0.02, 1e-5, 1026, 148139553},
    {"esm2_650m", FAMILY_ESM2, 33, 1280, 5120, 20, 20, 64, 33, true, PLAIN_ROPE(10000), 0.02, 1e-5, 1026, 651042593},
    {"esm2_3b", FAMILY_ESM2, 36, 2560, 10240, 40, 40, 64, 33, true, PLAIN_ROPE(10000), 0.02, 1e-5, 1026, 2839004193},
    {"esm2_15b", FAMILY_ESM2, 48, 5120, 20480, 40, 40, 128, 33, true, PLAIN_ROPE(10000), 0.02, 1e-5, 1026, 15129098273},
    {"amplify_120m", FAMILY_AMPLIFY, 24, 640, 1712, 10, 10, 64, 27, false, PLAIN_ROPE(10000), 0.02, 1e-5, 2048,
     118276507},
    {"amplify_350m", FAMILY_AMPLIFY, 32, 960, 2560, 15, 15, 64, 27, false, PLAIN_ROPE(10000), 0.02, 1e-5, 2048,
     354008667},
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
enum { MAX_LAYERS = 100000, WIDEST_HEAD = 256 };
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
    double parameters = model_matrix_elements(s) + (double)s->vocabulary * (double)s->hidden;
    if (s->layers > MAX_LAYERS || parameters > MAX_PARAMETERS)
        return error_user("keys of model: %lld layers and %.3g parameters; at most %d and %g are possible",
                          (long long)s->layers, parameters, MAX_LAYERS, MAX_PARAMETERS);
    if (s->heads % s->kv_heads != 0)
        return error_user("key model.kv_heads = %lld: must divide model.heads = %lld", (long long)s->kv_heads,
                          (long long)s->heads);
    if (s->head_dim <= 0)
        return error_user("key model.head_dim: not set, and model.hidden = %lld does not divide by model.heads = %lld",
                          (long long)s->hidden, (long long)s->heads);
    if (s->head_dim % 2 != 0 || s->head_dim > WIDEST_HEAD)
        return error_user("key model.head_dim = %lld: must be even and at most %d", (long long)s->head_dim,
                          WIDEST_HEAD);
    if ((float)s->norm_eps < 1e-35f) /* 0 in fp32, or nearly so */
        return error_user("key model.norm_eps = %g: must be from 1e-35 to 1, or 0 for the preset's", s->norm_eps);
    if (s->rope.factor > 1 && !(s->rope.original > 0 && s->rope.low > 0 && s->rope.high > s->rope.low))
        return error_user("key model.rope_scaling.factor = %g: needs original > 0 and 0 < low < high, not %lld, %g, %g",
                          s->rope.factor, (long long)s->rope.original, s->rope.low, s->rope.high);
    return ERROR_NONE;
}

_Static_assert((int)DECK_FAMILY_LLAMA == 1 + (int)FAMILY_LLAMA && (int)DECK_FAMILY_ESM2 == 1 + (int)FAMILY_ESM2 &&
                   (int)DECK_FAMILY_AMPLIFY == 1 + (int)FAMILY_AMPLIFY && FAMILY_COUNT == 3,
               "decks name the families in the order of enum model_family, behind PRESET");

static enum model_family pick_family(int deck, enum model_family preset)
{
    return deck == DECK_FAMILY_PRESET ? preset : (enum model_family)(deck - DECK_FAMILY_LLAMA);
}

static int64_t pick_size(int64_t own, int64_t preset)
{
    return own > 0 ? own : preset;
}

static double pick_real(double own, double preset)
{
    return own > 0 ? own : preset;
}

enum model_family model_family_from_deck(const struct deck *deck)
{
    const struct model_preset *p = find_preset(deck->model.preset);
    return pick_family(deck->model.family, p != NULL ? p->family : FAMILY_LLAMA);
}

int64_t model_vocabulary_from_deck(const struct deck *deck)
{
    const struct model_preset *p = find_preset(deck->model.preset);
    return pick_size(deck->model.vocabulary, p != NULL ? p->vocabulary : 0);
}

int64_t model_kv_heads_from_deck(const struct deck *deck)
{
    const struct model_preset *p = find_preset(deck->model.preset);
    const int64_t heads = pick_size(deck->model.heads, p != NULL ? p->heads : 0);
    return pick_size(pick_size(deck->model.kv_heads, p != NULL ? p->kv_heads : 0), heads);
}

int64_t model_positions_from_deck(const struct deck *deck)
{
    const struct model_preset *p = find_preset(deck->model.preset);
    return pick_size(deck->model.positions, p != NULL ? p->positions : 0);
}

int model_settings_from_deck(struct model_settings *s, const struct deck *deck, int64_t store_vocabulary)
{
    static const struct model_preset no_preset = {.rope = PLAIN_ROPE(10000), .init_std = 0.02, .norm_eps = 1e-5};
    const struct model_preset *p = &no_preset;
    if (deck->model.preset[0] != '\0') {
        p = find_preset(deck->model.preset);
        if (p == NULL)
            return unknown_preset(deck->model.preset);
    }
    enum model_family family = pick_family(deck->model.family, p->family);
    bool tied = p == &no_preset ? family_of(family)->tied : p->tied;
    *s = (struct model_settings){
        .family = family,
        .layers = pick_size(deck->model.layers, p->layers),
        .hidden = pick_size(deck->model.hidden, p->hidden),
        .ffn = pick_size(deck->model.ffn, p->ffn),
        .heads = pick_size(deck->model.heads, p->heads),
        .kv_heads = pick_size(deck->model.kv_heads, p->kv_heads),
        .vocabulary = pick_size(deck->model.vocabulary, pick_size(p->vocabulary, store_vocabulary)),
        .tied = deck->model.tied == DECK_TIED_PRESET ? tied : deck->model.tied == DECK_TIED_YES,
        .norm_zero_centered = deck->model.norm_zero_centered,
        .tanh_gelu = deck->model.gelu == DECK_GELU_TANH,
        .token_dropout = family_of(family)->token_dropout && deck->model.token_dropout,
        .rope = {.theta = pick_real(deck->model.rope_theta, p->rope.theta),
                 .factor = pick_real(deck->model.rope_scaling.factor, p->rope.factor),
                 .low = pick_real(deck->model.rope_scaling.low, p->rope.low),
                 .high = pick_real(deck->model.rope_scaling.high, p->rope.high),
                 .original = pick_size(deck->model.rope_scaling.original, p->rope.original),
                 .rounding = (enum deck_rounding)deck->model.rope_rounding},
        .norm_eps = pick_real(deck->model.norm_eps, p->norm_eps),
        .init_std = pick_real(deck->model.init_std, p->init_std),
        .decay_matrices = true,
        .decay_vectors = deck->optimizer.decay == DECK_DECAY_ALL,
        .decay_embedding = deck->optimizer.decay != DECK_DECAY_MATRICES_NOT_EMBEDDING,
        .decoupled = deck->optimizer.decoupled_lr > 0,
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
    int code = check_sizes(s);
    if (code == ERROR_NONE)
        code = precision_from_deck(&s->precision, deck, s->layers);
    return code == ERROR_NONE ? recompute_from_deck(&s->recompute, deck, s->layers) : code;
}

int layer_cut_alike(const struct model_settings *s)
{
    const int ranks = layer_ranks(&s->layer);
    return s->kv_heads < ranks ? ranks / (int)s->kv_heads : 1;
}

int layer_cut_check(const struct model_settings *s, const char *name)
{
    const int ranks = layer_ranks(&s->layer);
    if (s->heads % ranks != 0)
        return error_user("%s = %d: must divide model.heads, %lld", name, ranks, (long long)s->heads);
    if (s->kv_heads % ranks != 0 && ranks % s->kv_heads != 0)
        return error_user("%s = %d: must divide model.kv_heads, %lld, or be a multiple of it", name, ranks,
                          (long long)s->kv_heads);
    if (s->ffn % ranks != 0)
        return error_user("%s = %d: must divide model.ffn, %lld", name, ranks, (long long)s->ffn);
    if (s->vocabulary < ranks)
        return error_user("%s = %d: must be at most model.vocabulary, %lld", name, ranks, (long long)s->vocabulary);
    return ERROR_NONE;
}

int model_settings_check(const struct model_settings *s, const struct executor *executor)
{
    const int64_t widest = executor->class->widest_head;
    if (widest == 0 || s->head_dim <= widest)
        return ERROR_NONE;
    return error_user("key model.head_dim = %lld (model.hidden / model.heads where it is not set): at most %lld on a "
                      "GPU; with device.kind = \"cpu\" at most %d",
                      (long long)s->head_dim, (long long)widest, WIDEST_HEAD);
}

void model_settings_to_deck(const struct model_settings *s, struct deck *deck)
{
    deck->model.family = (int)s->family + DECK_FAMILY_LLAMA;
    deck->model.layers = s->layers;
    deck->model.hidden = s->hidden;
    deck->model.ffn = s->ffn;
    deck->model.heads = s->heads;
    deck->model.kv_heads = s->kv_heads;
    deck->model.head_dim = s->head_dim;
    deck->model.vocabulary = s->vocabulary;
    deck->model.tied = s->tied ? DECK_TIED_YES : DECK_TIED_NO;
    deck->model.norm_zero_centered = s->norm_zero_centered;
    deck->model.gelu = s->tanh_gelu ? DECK_GELU_TANH : DECK_GELU_ERF;
    deck->model.token_dropout = s->token_dropout;
    deck->model.rope_theta = s->rope.theta;
    deck->model.rope_rounding = (int)s->rope.rounding;
    deck->model.norm_eps = s->norm_eps;
    deck->model.init_std = s->init_std;
    deck->model.rope_scaling.factor = s->rope.factor > 1 ? s->rope.factor : 1; /* 0 would take a preset's */
    deck->model.rope_scaling.low = s->rope.low;
    deck->model.rope_scaling.high = s->rope.high;
    deck->model.rope_scaling.original = s->rope.original;
}

int64_t model_parameter_count(const struct model_settings *s)
{
    const struct family *family = family_of(s->family);
    int64_t q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    int64_t norm = family->layer_norm ? 2 * s->hidden : s->hidden;
    int64_t block = s->hidden * (q + 2 * kv) + q * s->hidden + (family->gelu ? 2 : 3) * s->hidden * s->ffn + 2 * norm;
    if (family->bias)
        block += q + 2 * kv + s->hidden + (family->gelu ? 1 : 2) * s->ffn + s->hidden;
    int64_t head = norm + (s->tied ? 0 : s->vocabulary * s->hidden) + (family->decoder_bias ? s->vocabulary : 0);
    if (family->transform)
        head += s->hidden * s->hidden + s->hidden + norm;
    return s->vocabulary * s->hidden + s->layers * block + head;
}

double model_matrix_elements(const struct model_settings *s)
{
    const struct family *family = family_of(s->family);
    double q = (double)s->heads * (double)s->head_dim, kv = (double)s->kv_heads * (double)s->head_dim;
    double hidden = (double)s->hidden, mlp = (family->gelu ? 2 : 3) * hidden * (double)s->ffn;
    double head = hidden * (double)s->vocabulary + (family->transform ? hidden * hidden : 0);
    return (double)s->layers * (hidden * (q + 2 * kv) + q * hidden + mlp) + head;
}
