/* The block's tensors, and those that each recompute policy drops. */
#include "model/block_private.h"

void block_declare_sum(struct unit *unit)
{
    if (block_norms_sum(unit) && model_has_bias(unit->settings, LINEAR_DOWN))
        unit_declare_tensor(unit, UNIT_INPUT_GRADIENT_SUM, "sum of d input", 1, unit->settings->hidden, ROLE_STATISTIC);
}

static void declare_mlp(struct unit *unit)
{
    const struct model_settings *s = unit->settings;
    const int64_t ffn = model_ffn(s), up = unit_family(unit)->gelu ? ffn : 2 * ffn;
    const int64_t tokens = block_is_sliced(unit) ? s->mlp_tokens : UNIT_TOKENS;
    unit_declare_tensor(unit, BLOCK_UP_OUT, "up", tokens, up, ROLE_VALUE);
    unit_declare_tensor(unit, BLOCK_ACTIVATED, "activated", tokens, ffn, ROLE_VALUE);
    unit_declare_tensor(unit, BLOCK_D_ACTIVATED, "d activated", tokens, ffn, ROLE_VALUE);
    unit_declare_tensor(unit, BLOCK_D_UP, "d up", tokens, up, ROLE_VALUE);
}

/* Declares the outputs of norms and their gradients, or of a post-norm block their inputs. */
static void declare_normed(struct unit *unit)
{
    const struct {
        int id;
        const char *name;
    } pre[] = {{BLOCK_NORMED1, "normed 1"},
               {BLOCK_NORMED2, "normed 2"},
               {BLOCK_D_NORMED2, "d normed 2"},
               {BLOCK_D_NORMED1, "d normed 1"}},
      post[] = {{BLOCK_O_OUT, "o output"},
                {BLOCK_DOWN_OUT, "down output"},
                {BLOCK_D_DOWN_OUT, "d down output"},
                {BLOCK_D_O_OUT, "d o output"}};
    for (size_t i = 0; i < sizeof pre / sizeof pre[0]; i++)
        unit_declare_tensor(unit, block_is_post_norm(unit) ? post[i].id : pre[i].id,
                            block_is_post_norm(unit) ? post[i].name : pre[i].name, UNIT_OWN_TOKENS,
                            unit->settings->hidden, ROLE_VALUE);
}

void block_declare(struct unit *unit, struct unit *adapters)
{
    const struct model_settings *s = unit->settings;
    const int64_t q = model_heads(s) * s->head_dim, fused = q + 2 * model_kv_heads(s) * s->head_dim;
    unit->class = &block_class;
    block_declare_weights(unit, adapters);
    const struct {
        int id;
        const char *name;
        int64_t rows, cols;
        enum tensor_role role;
    } tensors[] = {
        {UNIT_OUTPUT, "output", UNIT_OWN_TOKENS, s->hidden, ROLE_VALUE},
        {UNIT_INPUT_GRADIENT, "d input", UNIT_OWN_TOKENS, s->hidden, ROLE_VALUE},
        {BLOCK_QKV_OUT, "qkv", UNIT_TOKENS, fused, ROLE_VALUE},
        {BLOCK_ATTENTION, "attention", UNIT_TOKENS, q, ROLE_VALUE},
        {BLOCK_MIDDLE, "middle", UNIT_OWN_TOKENS, s->hidden, ROLE_VALUE},
        {BLOCK_D_MIDDLE, "d middle", UNIT_OWN_TOKENS, s->hidden, ROLE_VALUE},
        {BLOCK_D_ATTENTION, "d attention", UNIT_TOKENS, q, ROLE_VALUE},
        {BLOCK_D_QKV, "d qkv", UNIT_TOKENS, fused, ROLE_VALUE},
    };
    if (experts_present(unit))
        experts_declare_tensors(unit, &block_experts);
    else
        declare_mlp(unit);
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++)
        unit_declare_tensor(unit, tensors[i].id, tensors[i].name, tensors[i].rows, tensors[i].cols, tensors[i].role);
    declare_normed(unit);
    if (head_norm_present(unit)) {
        unit_declare_tensor(unit, BLOCK_PROJECTED, "projected qkv", UNIT_TOKENS, fused, ROLE_VALUE);
        unit_declare_tensor(unit, BLOCK_D_HEADS, "d heads", UNIT_TOKENS, fused, ROLE_VALUE);
    }
    if (unit->layer > 0)
        block_declare_sum(unit);
    attention_declare(unit, &block_attention);
    for (int weight = 0; weight < block_linear_count(unit); weight++) {
        struct linear linear = block_linear(unit, (enum block_weight)weight);
        linear_declare(unit, &linear);
    }
}

static void drop_quantized(struct id_set *set, enum block_weight reader)
{
    for (int copy = 0; copy < LINEAR_QUANTIZED; copy++)
        id_set_add(set, BLOCK_LINEARS + (int)reader * LINEAR_TENSORS + copy);
}

struct id_set block_dropped_by(const struct unit *unit, enum deck_recompute policy)
{
    const bool norms = policy >= DECK_RECOMPUTE_NORMS || policy == DECK_RECOMPUTE_ONLY_NORMS;
    struct id_set set = {{0}};
    if (policy >= DECK_RECOMPUTE_ACTIVATION) {
        id_set_add(&set, BLOCK_ACTIVATED);
        drop_quantized(&set, BLOCK_DOWN);
    }
    if (norms) {
        id_set_add(&set, BLOCK_NORMED1);
        id_set_add(&set, BLOCK_NORMED2);
        for (int reader = BLOCK_QKV; reader < BLOCK_DOWN; reader++)
            drop_quantized(&set, (enum block_weight)reader);
    }
    if (policy >= DECK_RECOMPUTE_GATE_UP)
        id_set_add(&set, BLOCK_UP_OUT);
    if (policy >= DECK_RECOMPUTE_QKV) {
        id_set_add(&set, BLOCK_QKV_OUT);
        id_set_add(&set, BLOCK_PROJECTED);
    }
    if (policy >= DECK_RECOMPUTE_ATTENTION) {
        id_set_add(&set, BLOCK_ATTENTION);
        id_set_add(&set, BLOCK_LSE);
    }
    experts_drop(&set, &block_experts, policy);
    attention_drop(&set, &block_attention, policy >= DECK_RECOMPUTE_QKV);
    /* gathered inputs: keeping the tokens of all ranks would undo sequence parallelism */
    id_set_add(&set, BLOCK_LINEARS + (int)BLOCK_QKV * LINEAR_TENSORS + LINEAR_GATHERED);
    id_set_add(&set, BLOCK_LINEARS + (int)BLOCK_UP * LINEAR_TENSORS + LINEAR_GATHERED);
    if (policy >= DECK_RECOMPUTE_FULL || (norms && block_is_post_norm(unit)))
        id_set_add(&set, BLOCK_MIDDLE);
    if (policy >= DECK_RECOMPUTE_FULL) {
        id_set_add(&set, BLOCK_O_OUT);
        id_set_add(&set, BLOCK_DOWN_OUT);
    }
    return set;
}
