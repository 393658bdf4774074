/* The block's weights: the parameters that are their rows, each tensor rank's share of them, and initial values. */
#include "model/block_private.h"

#include <math.h>
#include <stdio.h>

/* A parameter of a linear layer's weight. */
struct linear_part {
    enum lora_target target;
    const char *name; /* NULL: not in this family */
    int64_t rows;     /* number of rows in the global tensor */
    double init_std;
    int64_t grains; /* number of heads or rows, which are not split; with more ranks than grains, ranks share grains */
    int pieces;     /* equal pieces, one below the other; a rank has a part of each */
};

/* The share of a tensor rank in a parameter. */
struct share {
    int64_t first, rows; /* first row in the first piece; number of rows in each piece */
    int replicas;        /* number of ranks with the same share */
};

static struct share share_of(const struct unit *unit, const struct linear_part *part, enum linear_split split)
{
    const struct tensor_parallel *tensor = &unit->settings->tensor;
    const int64_t ranks = tensor_ranks(tensor), piece = part->rows / part->pieces;
    const int64_t replicas = part->grains < ranks ? ranks / part->grains : 1, rows = piece * replicas / ranks;
    return split == LINEAR_COLUMN_PARALLEL ? (struct share){tensor->rank / replicas * rows, rows, (int)replicas}
                                           : (struct share){0, piece, 1};
}

static struct parameter *declare_rows(struct unit *unit, int id, const struct linear_part *part,
                                      const struct share *share, struct initial_value initial, const char *what)
{
    char layer[64];
    snprintf(layer, sizeof layer, unit_family(unit)->names.layer, unit->layer);
    struct parameter *p =
        unit_declare_parameter(unit, id, part->pieces * share->rows, initial, "%s.%s.%s", layer, part->name, what);
    p->owner = unit->settings->tensor.rank % share->replicas;
    p->owners = share->replicas;
    p->partial = share->replicas > 1;
    return p;
}

/* Declares a matrix that has the outputs of `part` as rows. first: first column. */
static struct parameter *declare_matrix(struct unit *unit, int id, int64_t inputs, int64_t first,
                                        const struct linear_part *part, const struct share *share,
                                        struct initial_value initial, const char *what)
{
    struct parameter *p = declare_rows(unit, id, part, share, initial, what);
    if (share->rows < part->rows / part->pieces) {
        p->height = share->rows;
        p->apart = part->rows / part->pieces;
    }
    parameter_place(p, part->rows, inputs, share->first, first);
    return p;
}

static void declare_bias(struct unit *unit, int id, const struct linear_part *part, const struct share *share,
                         enum linear_split split)
{
    struct parameter *p = declare_rows(unit, id, part, share, unit_constant(0), "bias");
    parameter_place(p, 1, part->rows, 0, share->first);
    if (part->pieces > 1)
        error_fatal("bug: %s is a vector of several pieces", p->name);
    if (split == LINEAR_ROW_PARALLEL)
        parameter_share(p, &unit->settings->tensor, false);
}

static bool is_target(const struct unit *unit, const struct linear_part *part)
{
    return part->name != NULL && unit->settings->lora.targets[part->target];
}

/* Declares A [r, inputs] of a target; initial values are peft's: uniform with bound 1 / sqrt(inputs). */
static void declare_a(struct unit *adapters, int id, int64_t inputs, const struct linear_part *part,
                      enum linear_split split)
{
    const struct tensor_parallel *tensor = &adapters->settings->tensor;
    const struct linear_part a = {.name = part->name, .pieces = 1};
    const struct share whole = {0, adapters->settings->lora.rank, 1};
    const struct initial_value initial = {INIT_UNIFORM, 1 / sqrt((double)inputs), -1};
    struct parameter *p = declare_rows(adapters, id, &a, &whole, initial, "lora_A.weight");
    parameter_place(p, whole.rows, inputs, 0, split == LINEAR_ROW_PARALLEL ? tensor->rank * p->part.cols : 0);
    if (split != LINEAR_ROW_PARALLEL)
        parameter_share(p, tensor, true);
}

/* Declares B [outputs, r] of a target; its initial values are 0. */
static void declare_b(struct unit *adapters, int id, const struct linear_part *part, enum linear_split split)
{
    const struct share share = share_of(adapters, part, split);
    struct parameter *p =
        declare_matrix(adapters, id, adapters->settings->lora.rank, 0, part, &share, unit_constant(0), "lora_B.weight");
    if (split == LINEAR_ROW_PARALLEL)
        parameter_share(p, &adapters->settings->tensor, true);
}

/* Declares the adapters of a linear's parameters that are targets, and lends them to the block. */
static void declare_adapters(struct unit *unit, struct unit *adapters, enum block_weight id, int64_t inputs,
                             const struct linear_part *parts, int count)
{
    const struct linear linear = block_linear(unit, id);
    const int64_t rank = unit->settings->lora.rank, own_inputs = unit->weights[id].cols;
    const int a = 2 * (int)id, b = a + 1;
    int64_t outputs = 0;
    if (linear.adapter.count == 0)
        return;
    for (int p = 0; p < linear.adapter.count; p++)
        outputs += linear.adapter.parts[p].rows;
    unit_declare_weight(adapters, a, linear.adapter.count * rank, own_inputs, STORAGE_MATRIX);
    for (int i = 0; i < count; i++)
        if (is_target(unit, &parts[i]))
            declare_a(adapters, a, inputs, &parts[i], linear.split);
    unit_declare_weight(adapters, b, outputs, rank, STORAGE_MATRIX);
    for (int i = 0; i < count; i++)
        if (is_target(unit, &parts[i]))
            declare_b(adapters, b, &parts[i], linear.split);
    unit_share_weight(unit, linear.adapter.a, adapters, a);
    unit_share_weight(unit, linear.adapter.b, adapters, b);
}

/* inputs: columns of the global tensor. */
static void declare_linear(struct unit *unit, enum block_weight id, int64_t inputs, const struct linear_part *parts,
                           int count)
{
    const bool bias = model_has_bias(unit->settings, (int)id);
    const enum linear_split split = block_linear(unit, id).split;
    const int64_t own_inputs = split == LINEAR_ROW_PARALLEL ? inputs / tensor_ranks(&unit->settings->tensor) : inputs;
    int64_t rows = 0;
    for (int i = 0; i < count; i++)
        rows += parts[i].name != NULL ? parts[i].pieces * share_of(unit, &parts[i], split).rows : 0;
    unit_declare_weight(unit, (int)id, rows, own_inputs, STORAGE_MATRIX);
    if (bias)
        unit_declare_weight(unit, BLOCK_BIASES + (int)id, 1, rows, STORAGE_VECTOR);
    for (int i = 0; i < count; i++) {
        if (parts[i].name == NULL)
            continue;
        const struct share share = share_of(unit, &parts[i], split);
        declare_matrix(unit, (int)id, inputs,
                       split == LINEAR_ROW_PARALLEL ? unit->settings->tensor.rank * own_inputs : 0, &parts[i], &share,
                       unit_random(unit, parts[i].init_std), "weight");
        if (bias)
            declare_bias(unit, BLOCK_BIASES + (int)id, &parts[i], &share, split);
    }
}

static void declare_norm(struct unit *unit, const struct norm *norm, const char *name)
{
    char layer[64], whole[96];
    snprintf(layer, sizeof layer, unit_family(unit)->names.layer, unit->layer);
    snprintf(whole, sizeof whole, "%s.%s", layer, name);
    norm_declare(unit, norm, whole);
}

static void declare_head_norm(struct unit *unit)
{
    char layer[64];
    snprintf(layer, sizeof layer, unit_family(unit)->names.layer, unit->layer);
    head_norm_declare(unit, &block_head_norm, layer);
}

static void declare_experts(struct unit *unit)
{
    char layer[64];
    snprintf(layer, sizeof layer, unit_family(unit)->names.layer, unit->layer);
    experts_declare_weights(unit, &block_experts, layer);
}

void block_declare_weights(struct unit *unit, struct unit *adapters)
{
    const struct model_settings *s = unit->settings;
    const struct family *family = unit_family(unit);
    const struct family_names *names = &family->names;
    const int64_t q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    const int both = !family->gelu && names->gate == NULL ? 2 : 1; /* 2: gate and up are one parameter */
    const struct linear_part qkv[] = {{LORA_Q, names->q, q, s->init_std, s->heads, 1},
                                      {LORA_K, names->k, kv, s->init_std, s->kv_heads, 1},
                                      {LORA_V, names->v, kv, s->init_std, s->kv_heads, 1}};
    const struct linear_part o[] = {{LORA_O, names->o, s->hidden, s->output_std, s->hidden, 1}};
    const struct linear_part gate_up[] = {{LORA_GATE, names->gate, s->ffn, s->init_std, s->ffn, 1},
                                          {LORA_UP, names->up, both * s->ffn, s->init_std, s->ffn, both}};
    const struct linear_part down[] = {{LORA_DOWN, names->down, s->hidden, s->output_std, s->hidden, 1}};
    const struct {
        enum block_weight id;
        int64_t inputs;
        const struct linear_part *parts;
        int count;
    } linears[] = {{BLOCK_QKV, s->hidden, qkv, 3},
                   {BLOCK_O, q, o, 1},
                   {BLOCK_UP, s->hidden, gate_up, 2},
                   {BLOCK_DOWN, s->ffn, down, 1}};
    for (int i = 0; i < block_linear_count(unit); i++)
        declare_linear(unit, linears[i].id, linears[i].inputs, linears[i].parts, linears[i].count);
    if (experts_present(unit))
        declare_experts(unit);
    declare_norm(unit, &block_norm1, names->norm1);
    declare_norm(unit, &block_norm2, names->norm2);
    declare_head_norm(unit);
    for (int i = 0; i < block_linear_count(unit) && adapters != NULL; i++)
        declare_adapters(unit, adapters, linears[i].id, linears[i].inputs, linears[i].parts, linears[i].count);
    unit->decay[STORAGE_MATRIX] = s->decay_matrices;
    unit->decay[STORAGE_VECTOR] = s->decay_vectors;
    unit->muon = s->muon;
}
