#include "setup/model.h"
#include "deck/fields.h"
#include "base/error.h"
#include "setup/precision.h"
#include "setup/recompute.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Returns a preset and writes its family; NULL and the first family if no family has it. */
static const struct model_preset *find_preset(const char *name, const struct family **family)
{
    for (int f = 0; families[f] != NULL; f++)
        for (const struct model_preset *p = families[f]->presets; p->name != NULL; p++)
            if (strcmp(p->name, name) == 0) {
                *family = families[f];
                return p;
            }
    *family = families[0];
    return NULL;
}

static int unknown_preset(const char *name)
{
    char known[1024] = "";
    for (int f = 0; families[f] != NULL; f++)
        for (const struct model_preset *p = families[f]->presets; p->name != NULL; p++) {
            size_t used = strlen(known);
            snprintf(known + used, sizeof known - used, "%s%s", used > 0 ? ", " : "", p->name);
        }
    return error_user("key model.preset = \"%s\": unknown; the presets are %s", name, known);
}

static int64_t pick_size(int64_t own, int64_t preset)
{
    return own > 0 ? own : preset;
}

static double pick_real(double own, double preset)
{
    return own > 0 ? own : preset;
}

/* Returns the sliding window of the deck's model: its own, or the preset's. */
static int64_t pick_window(const struct deck *deck)
{
    if (deck->model.sliding_window >= 0)
        return deck->model.sliding_window;
    for (int f = 0; families[f] != NULL; f++)
        for (const struct preset_window *w = families[f]->windows; w != NULL && w->preset != NULL; w++)
            if (strcmp(w->preset, deck->model.preset) == 0)
                return w->tokens;
    return 0;
}

/* Returns the deck's preset or NULL, and writes the deck's family, or else the preset's. */
static const struct model_preset *preset_of(const struct deck *deck, const struct family **family)
{
    const struct model_preset *p = find_preset(deck->model.preset, family);
    if (deck->model.family != DECK_FAMILY_PRESET)
        *family = family_of_choice(deck->model.family);
    return p;
}

const struct family *model_family_from_deck(const struct deck *deck)
{
    const struct family *family;
    preset_of(deck, &family);
    return family;
}

bool model_causal_from_deck(const struct deck *deck)
{
    return model_causal(&(struct model_settings){.family = model_family_from_deck(deck),
                                                 .objective = (enum deck_objective)deck->model.objective});
}

bool model_drops_tokens(const struct deck *deck)
{
    return model_family_from_deck(deck)->token_dropout && deck->model.token_dropout && !model_causal_from_deck(deck);
}

int64_t model_vocabulary_from_deck(const struct deck *deck)
{
    const struct family *family;
    const struct model_preset *p = preset_of(deck, &family);
    return pick_size(deck->model.vocabulary, p != NULL ? p->vocabulary : 0);
}

int64_t model_kv_heads_from_deck(const struct deck *deck)
{
    const struct family *family;
    const struct model_preset *p = preset_of(deck, &family);
    const int64_t heads = pick_size(deck->model.heads, p != NULL ? p->heads : 0);
    return pick_size(pick_size(deck->model.kv_heads, p != NULL ? p->kv_heads : 0), heads);
}

int64_t model_positions_from_deck(const struct deck *deck)
{
    const struct family *family;
    const struct model_preset *p = preset_of(deck, &family);
    return pick_size(deck->model.positions, p != NULL ? p->positions : 0);
}

int64_t model_window_from_deck(const struct deck *deck)
{
    return deck->model.max_window_layers > 0 ? 0 : pick_window(deck);
}

int64_t model_trained_positions(const struct deck *deck)
{
    const int64_t window = deck->data.window > 0 ? deck->data.window : deck->data.row_tokens;
    return pick_size(deck->model.positions, window + model_family_from_deck(deck)->extra_positions);
}

/* Refuses biases that the family's class does not have as an option. */
static int check_biases(const struct model_settings *s)
{
    const struct {
        const char *key;
        size_t offset;
        bool set;
    } options[] = {{"attention_bias", offsetof(struct deck, model.attention_bias), s->attention_bias},
                   {"mlp_bias", offsetof(struct deck, model.mlp_bias), s->mlp_bias}};
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        if (options[i].set && family_key_of(s->family, options[i].offset) == NULL)
            return error_user(
                "key model.%s = true: not with model.family = \"%s\", whose biases are fixed; use \"llama\"",
                options[i].key, s->family->name);
    return ERROR_NONE;
}

struct task_settings model_task_from_deck(const struct deck *deck)
{
    const enum deck_pooling own = model_causal_from_deck(deck) ? DECK_POOLING_LAST : DECK_POOLING_FIRST;
    const enum deck_head head = (enum deck_head)deck->model.head;
    if (head == DECK_HEAD_LM || head == DECK_HEAD_NONE)
        return (struct task_settings){.head = head};
    return (struct task_settings){
        .head = head,
        .problem = (enum deck_problem)deck->model.problem_type,
        .pooling = head == DECK_HEAD_SEQUENCE && deck->model.pooling == DECK_POOLING_AUTO
                       ? own
                       : (enum deck_pooling)deck->model.pooling,
        .labels = deck->model.num_labels,
    };
}

int model_settings_from_deck(struct model_settings *s, const struct deck *deck, int64_t store_vocabulary)
{
    static const struct model_preset no_preset = {.rope = PLAIN_ROPE(10000), .init_std = 0.02, .norm_eps = 1e-5};
    const struct family *family;
    const struct model_preset *p = preset_of(deck, &family);
    if (p == NULL && deck->model.preset[0] != '\0')
        return unknown_preset(deck->model.preset);
    bool tied = p == NULL ? family->tied : p->tied;
    if (p == NULL)
        p = &no_preset;
    *s = (struct model_settings){
        .family = family,
        .objective = (enum deck_objective)deck->model.objective,
        .layers = pick_size(deck->model.layers, p->layers),
        .hidden = pick_size(deck->model.hidden, p->hidden),
        .ffn = pick_size(deck->model.ffn, p->ffn),
        .heads = pick_size(deck->model.heads, p->heads),
        .kv_heads = pick_size(deck->model.kv_heads, p->kv_heads),
        .vocabulary = pick_size(deck->model.vocabulary, pick_size(p->vocabulary, store_vocabulary)),
        .sliding_window = pick_window(deck),
        .max_window_layers = deck->model.max_window_layers,
        .tied = deck->model.tied == DECK_TIED_PRESET ? tied : deck->model.tied == DECK_TIED_YES,
        .attention_bias = deck->model.attention_bias,
        .mlp_bias = deck->model.mlp_bias,
        .experts = pick_size(deck->model.num_local_experts, family->experts),
        .experts_per_token =
            family->experts > 0 ? pick_size(deck->model.num_experts_per_tok, family->experts_per_token) : 0,
        .router_aux_loss_coef = family->experts > 0 ? deck->model.router_aux_loss_coef : 0,
        .z_loss = deck->train.z_loss,
        .task = model_task_from_deck(deck),
        .norm_zero_centered = deck->model.norm_zero_centered,
        .tanh_gelu = deck->model.gelu == DECK_GELU_TANH,
        .mlp_tokens = deck->memory.mlp_tokens,
        .token_dropout = model_drops_tokens(deck),
        .rope = {.theta = pick_real(deck->model.rope_theta, p->rope.theta),
                 .factor = pick_real(deck->model.rope_scaling.factor, p->rope.factor),
                 .low = pick_real(deck->model.rope_scaling.low, p->rope.low),
                 .high = pick_real(deck->model.rope_scaling.high, p->rope.high),
                 .original = pick_size(deck->model.rope_scaling.original, p->rope.original),
                 .rounding = (enum deck_rounding)deck->model.rope_rounding,
                 .type = (enum deck_rope)deck->model.rope_scaling.type,
                 .attention_factor = deck->model.rope_scaling.attention_factor},
        .norm_eps = pick_real(deck->model.norm_eps, p->norm_eps),
        .init_std = pick_real(deck->model.init_std, p->init_std),
        .decay_matrices = true,
        .decay_vectors = deck->optimizer.decay == DECK_DECAY_ALL,
        .decay_embedding = deck->optimizer.decay != DECK_DECAY_MATRICES_NOT_EMBEDDING,
        .freeze = (enum deck_freeze)deck->train.freeze,
        .lora = {.rank = deck->lora.rank, .alpha = deck->lora.alpha, .dropout = deck->lora.dropout},
        .decoupled = deck->optimizer.decoupled_lr > 0,
        .muon = deck->optimizer.kind == DECK_OPTIMIZER_MUON,
    };
    if (s->kv_heads == 0)
        s->kv_heads = s->heads;
    if (s->rope.type == DECK_ROPE_YARN) { /* presets have Llama 3's bounds */
        s->rope.low = pick_real(deck->model.rope_scaling.low, 1);
        s->rope.high = pick_real(deck->model.rope_scaling.high, 32);
    }
    /* If the deck changes heads or hidden, the preset's head size does not apply. */
    bool own_heads = deck->model.heads > 0 || deck->model.hidden > 0;
    s->head_dim = pick_size(deck->model.head_dim, own_heads ? 0 : p->head_dim);
    if (s->head_dim == 0 && s->heads > 0 && s->hidden % s->heads == 0)
        s->head_dim = s->hidden / s->heads;
    s->embedding_std = s->init_std;
    s->output_std =
        deck->model.scaled_init && s->layers > 0 ? s->init_std / sqrt(2.0 * (double)s->layers) : s->init_std;
    if (deck->model.spike_no_more) { /* embeddings of unit variance (Takase et al. 2023) */
        s->embedding_std = 1.0;
        s->tied = false;
        s->decay_embedding = false;
    }
    if (s->task.head != DECK_HEAD_LM)
        s->tied = false; /* there is no decoder */
    const bool lacks = store_vocabulary > 0 && s->vocabulary > 0 && s->vocabulary < store_vocabulary;
    if (lacks && deck->model.vocabulary == 0)
        return error_user(
            "key model.preset = \"%s\": has a vocabulary of %lld, but the token store data.train has ids up "
            "to %lld; set model.vocabulary = %lld",
            deck->model.preset, (long long)s->vocabulary, (long long)store_vocabulary - 1, (long long)store_vocabulary);
    if (lacks)
        return error_user("key model.vocabulary = %lld: the token store data.train has ids up to %lld",
                          (long long)s->vocabulary, (long long)store_vocabulary - 1);
    if (s->freeze == DECK_FREEZE_TRUNK && s->tied)
        return error_user("key train.freeze = \"trunk\": not with a tied head, whose matrix is the embedding's; set "
                          "model.tied = \"no\" or train.freeze = \"none\"");
    int code = check_biases(s);
    if (code == ERROR_NONE)
        code = model_settings_check_sizes(s);
    if (code == ERROR_NONE && s->lora.rank > 0)
        code = lora_read_targets(&s->lora, family, deck->lora.targets);
    if (code == ERROR_NONE)
        code = precision_from_deck(&s->precision, deck, s->layers);
    return code == ERROR_NONE ? recompute_from_deck(&s->recompute, deck, s->layers) : code;
}

void model_name_labels(struct deck *deck, const char *names, int64_t bytes)
{
    char *to = deck->model.id2label;
    if (to[0] != '\0' || bytes >= DECK_STRING || memchr(names, ',', (size_t)bytes) != NULL)
        return;
    for (int64_t i = 0; i < bytes; i++)
        to[i] = names[i] == '\n' ? ',' : names[i];
    to[bytes - 1] = '\0';
}

const char *model_label_names(const struct deck *deck)
{
    return deck->model.id2label;
}

void model_settings_to_deck(const struct model_settings *s, struct deck *deck)
{
    deck->model.family = family_choice(s->family);
    deck->model.objective = (int)s->objective;
    deck->model.layers = s->layers;
    deck->model.hidden = s->hidden;
    deck->model.ffn = s->ffn;
    deck->model.heads = s->heads;
    deck->model.kv_heads = s->kv_heads;
    deck->model.head_dim = s->head_dim;
    deck->model.vocabulary = s->vocabulary;
    deck->model.sliding_window = s->sliding_window;
    deck->model.max_window_layers = s->max_window_layers;
    deck->model.tied = s->tied ? DECK_TIED_YES : DECK_TIED_NO;
    deck->model.attention_bias = s->attention_bias;
    deck->model.mlp_bias = s->mlp_bias;
    deck->model.num_local_experts = s->experts;
    deck->model.num_experts_per_tok = s->experts_per_token;
    deck->model.router_aux_loss_coef = s->router_aux_loss_coef;
    deck->model.head = (int)s->task.head;
    deck->model.num_labels = s->task.labels;
    deck->model.problem_type = (int)s->task.problem;
    deck->model.pooling = (int)s->task.pooling;
    deck->model.norm_zero_centered = s->norm_zero_centered;
    deck->model.gelu = s->tanh_gelu ? DECK_GELU_TANH : DECK_GELU_ERF;
    deck->model.token_dropout = s->token_dropout;
    deck->model.rope_theta = s->rope.theta;
    deck->model.rope_rounding = (int)s->rope.rounding;
    deck->model.norm_eps = s->norm_eps;
    deck->model.init_std = s->init_std;
    deck->model.rope_scaling.factor = s->rope.factor > 1 ? s->rope.factor : 1; /* 0 would select the preset's */
    deck->model.rope_scaling.type = (int)s->rope.type;
    deck->model.rope_scaling.attention_factor = s->rope.attention_factor;
    deck->model.rope_scaling.low = s->rope.low;
    deck->model.rope_scaling.high = s->rope.high;
    deck->model.rope_scaling.original = s->rope.original;
}
