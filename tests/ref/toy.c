#include "ref/toy.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/random.h"
#include "state/initialise.h"
#include "setup/precision.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

double toy_embedding_std(enum toy_kind kind, double std)
{
    if (kind == TOY_OLMO2)
        return 1;
    return kind == TOY_ESMC ? std / sqrt(3.0 / 36) : std;
}

struct model_settings toy_settings(enum toy_kind kind)
{
    static const struct family *const of[] = {
        [TOY_LLAMA] = &family_llama,     [TOY_LLAMA_TIED] = &family_llama, [TOY_ESM2] = &family_esm2,
        [TOY_AMPLIFY] = &family_amplify, [TOY_QWEN] = &family_qwen3,       [TOY_MISTRAL] = &family_mistral,
        [TOY_ESMC] = &family_esmc,       [TOY_NTV2] = &family_ntv2,        [TOY_MIXTRAL] = &family_mixtral,
        [TOY_OLMO2] = &family_olmo2,
    };
    return (struct model_settings){.family = of[kind],
                                   .layers = 3,
                                   .hidden = 32,
                                   .ffn = 48,
                                   .heads = 4,
                                   .kv_heads = of[kind]->causal ? 2 : 4,
                                   .head_dim = 8,
                                   .vocabulary = 40,
                                   .sliding_window = kind == TOY_MISTRAL ? 7 : 0,
                                   .max_window_layers = kind == TOY_MISTRAL ? 1 : 0,
                                   .experts = kind == TOY_MIXTRAL ? 4 : 0,
                                   .experts_per_token = kind == TOY_MIXTRAL ? 2 : 0,
                                   .router_aux_loss_coef = kind == TOY_MIXTRAL ? 0.5 : 0,
                                   .z_loss = kind == TOY_LLAMA_TIED ? 0.05 : 0,
                                   .attention_bias = kind == TOY_QWEN,
                                   .mlp_bias = kind == TOY_QWEN,
                                   .tied = kind == TOY_LLAMA_TIED || kind == TOY_ESM2,
                                   .token_dropout = kind == TOY_ESM2,
                                   .rope = {.theta = 10000},
                                   .norm_eps = 1e-5,
                                   .init_std = 0.2,
                                   .embedding_std = toy_embedding_std(kind, 0.2),
                                   .output_std = 0.2,
                                   .decay_matrices = true,
                                   .decay_embedding = true};
}

struct precision toy_precision(int recipe)
{
    struct precision precision;
    struct deck deck;
    deck_defaults(&deck);
    deck.precision.recipe = recipe;
    deck.precision.history = 4;
    if (precision_from_deck(&precision, &deck, toy_settings(TOY_LLAMA).layers) != ERROR_NONE)
        error_fatal("toy_precision: %s", error_message());
    return precision;
}

void toy_batch(struct batch *batch, int64_t rows, int64_t row_tokens, uint64_t key)
{
    struct random_key random = {key, RANDOM_TEST, 0}, factors = {key, RANDOM_TEST, 1};
    uint64_t draw = 0;
    batch_create(batch, rows, row_tokens, 4);
    batch_clear(batch, 1);
    for (int64_t t = 0; t < rows * row_tokens; t++) {
        double u = random_uniform(&factors, (uint64_t)t);
        batch->scale[t] = u < 0.2 ? 0 : (float)(0.25 + 1.25 * u);
        batch->dropout_keys[t] = (int32_t)(uint32_t)random_bits(&factors, (uint64_t)t);
    }
    for (int64_t r = 0; r < rows; r++) {
        int64_t segments = 1 + r % 3, at = r * row_tokens, room = row_tokens / segments;
        for (int64_t s = 0; s < segments; s++) {
            int64_t length = 2 + (int64_t)(random_bits(&random, draw++) % (uint64_t)(room - 2));
            batch->segment_start[r * 4 + s] = (int32_t)at;
            batch->segment_length[r * 4 + s] = (int32_t)length;
            for (int64_t t = 0; t < length; t++, at++) {
                batch->tokens[at] = (int32_t)(random_bits(&random, draw++) % 40);
                batch->positions[at] = (int32_t)t;
                bool ignored = t + 1 == length || random_bits(&random, draw++) % 5 == 0;
                batch->labels[at] = ignored ? -100 : (int32_t)(random_bits(&random, draw++) % 40);
                batch->valid += !ignored;
                batch->real++;
            }
        }
    }
}

struct deck toy_deck(void)
{
    struct deck deck;
    deck_defaults(&deck);
    deck.model.layers = 3;
    deck.model.hidden = 64;
    deck.model.ffn = 160;
    deck.model.heads = 4;
    deck.model.kv_heads = 2;
    deck.model.vocabulary = 300;
    deck.data.row_tokens = 128;
    deck.data.max_segments = 1;
    deck.train.micro_batch = 4;
    deck.train.global_batch = 22;
    deck.memory.head_tokens = 100;
    return deck;
}

struct toy_options toy_options(struct executor *executor)
{
    return (struct toy_options){.settings = toy_settings(TOY_LLAMA),
                                .executor = executor,
                                .compute = DTYPE_F32,
                                .muon = {1, 0.95, true, 5, DECK_ADJUST_MATCH_RMS_ADAMW},
                                .slots = 1,
                                .recompute = DECK_RECOMPUTE_NONE,
                                .rows = 2,
                                .row_tokens = 48,
                                .max_segments = 4};
}

void toy_create(struct toy *toy, const struct toy_options *o)
{
    int64_t tokens = o->rows * o->row_tokens;
    *toy = (struct toy){0};
    tokens /= context_ranks(&o->settings.context);
    struct model_settings model = o->settings;
    model.recompute.others = o->recompute;
    model_create(&toy->model, &model, tokens, o->head_tokens > 0 ? o->head_tokens : tokens);
    if (o->place != NULL)
        o->place(&toy->model, o->self);
    struct group *group = o->group;
    if (group == NULL && o->groups == NULL) {
        toy->self = comm_self();
        group = toy->own_group = comm_group_create(toy->self, NULL, "data");
    }
    struct engine_settings settings = {.memory = {.compute = o->compute,
                                                  .statistic = DTYPE_F32,
                                                  .slots = {o->slots},
                                                  .split_backward = o->split_backward,
                                                  .rows = o->rows,
                                                  .row_tokens = o->row_tokens,
                                                  .max_segments = o->max_segments},
                                       .optimizer = {0.9, 0.95, 1e-8, 0.1, 1.0, o->settings.decoupled, o->muon},
                                       .sharding = o->sharding,
                                       .replays = o->replays,
                                       .class_weights = o->class_weights,
                                       .tensor = o->tensor};
    if (o->lends)
        settings.memory.gradient_bytes = dtype_size(sharding_rounds(&o->sharding) ? DTYPE_BF16 : DTYPE_F32);
    if (o->schedule != NULL)
        memcpy(settings.memory.slots, o->schedule->slots, sizeof o->schedule->slots);
    const struct parallel_groups replicated = groups_replicated(group);
    engine_create(&toy->engine, o->executor, &toy->model, o->groups != NULL ? o->groups : &replicated, &settings);
    if (!o->executor->class->dry)
        engine_initialise(&toy->engine, 7);
}

void toy_destroy(struct toy *toy)
{
    engine_destroy(&toy->engine);
    model_destroy(&toy->model);
    if (toy->own_group != NULL) {
        comm_group_destroy(toy->own_group);
        comm_destroy(toy->self);
    }
}

enum { PARTS = 5 };

static struct tensor part_of(const struct store_shard *shard, int part)
{
    const struct tensor *parts[PARTS] = {&shard->gradient, &shard->weight.value, &shard->weight.low, &shard->m,
                                         &shard->v};
    return *parts[part];
}

/* Copies a tensor, if present, to or from the state at `bytes`; returns the offset of the next one. */
static int64_t move(const struct tensor *t, char *state, int64_t bytes, bool restore)
{
    const int64_t size = tensor_extent(t);
    if (state != NULL)
        memcpy(restore ? t->data : state + bytes, restore ? state + bytes : t->data, (size_t)size);
    return bytes + size;
}

/* Copies the first `parts` tensors of each shard to or from `state`; if it is NULL, only counts bytes. With all parts,
 * also copies the count of updates and the state of delayed scaling. */
static int64_t walk(const struct toy *toy, char *state, int parts, bool restore)
{
    int64_t bytes = 0;
    struct weight_store *store = toy->engine.store;
    for (int u = 0; u < toy->model.unit_count; u++) {
        for (int s = 0; s < STORAGE_COUNT; s++) {
            struct store_shard shard = store->class->shard(store, &toy->model.units[u], (enum storage_class)s);
            for (int p = 0; p < parts; p++) {
                struct tensor t = part_of(&shard, p);
                if (tensor_present(&t))
                    bytes = move(&t, state, bytes, restore);
            }
        }
    }
    if (parts < PARTS)
        return bytes;
    const struct delayed_scaling *scaling = &toy->engine.scaling;
    const struct tensor *const more[] = {&scaling->amax, &scaling->history, &scaling->scale,
                                         &toy->engine.optimizer.updates};
    for (int i = delayed_scaling_present(scaling) ? 0 : 3; i < 4; i++)
        bytes = move(more[i], state, bytes, restore);
    return bytes;
}

static char *collect(const struct toy *toy, int parts, int64_t *bytes)
{
    *bytes = walk(toy, NULL, parts, false);
    char *state = memory_grow(NULL, *bytes);
    walk(toy, state, parts, false);
    return state;
}

char *toy_state(const struct toy *toy, int64_t *bytes)
{
    return collect(toy, PARTS, bytes);
}

char *toy_gradients(const struct toy *toy, int64_t *bytes)
{
    return collect(toy, 1, bytes);
}

void toy_restore(struct toy *toy, const char *state)
{
    walk(toy, (char *)state, PARTS, true);
}
