/* The parts of a block: the ids of its norms and of attention, and its linear layers with their adapters. */
#include "model/block_private.h"
#include "model/sequence.h"

const struct norm block_norm1 = {BLOCK_NORM1, BLOCK_NORM1_BIAS, BLOCK_RSTD1, BLOCK_MEAN1, true, NORM_BLOCK};
const struct norm block_norm2 = {BLOCK_NORM2, BLOCK_NORM2_BIAS, BLOCK_RSTD2, BLOCK_MEAN2, true, NORM_BLOCK};

const struct expert_ids block_experts = {BLOCK_ROUTER, BLOCK_UP, BLOCK_DOWN, BLOCK_EXPERTS};

const struct head_norm block_head_norm = {BLOCK_Q_NORM, BLOCK_K_NORM, BLOCK_Q_RSTD,   BLOCK_K_RSTD,
                                          BLOCK_Q_MEAN, BLOCK_K_MEAN, BLOCK_GATHERING};

bool block_is_post_norm(const struct unit *unit)
{
    return unit_family(unit)->post_norm;
}

bool block_norms_sum(const struct unit *unit)
{
    return unit_family(unit)->bias[LINEAR_O] && unit_family(unit)->layer_norm && !block_is_post_norm(unit) &&
           !sequence_parallel(unit);
}

/* Returns this rank's outputs of a target; 0: the family does not have it. */
static int64_t target_outputs(const struct unit *unit, enum lora_target target)
{
    const struct model_settings *s = unit->settings;
    const struct family *family = unit_family(unit);
    const int64_t up = !family->gelu && family->names.gate == NULL ? 2 * model_ffn(s) : model_ffn(s);
    const int64_t outputs[LORA_TARGETS] = {[LORA_Q] = model_heads(s) * s->head_dim,
                                           [LORA_K] = model_kv_heads(s) * s->head_dim,
                                           [LORA_V] = model_kv_heads(s) * s->head_dim,
                                           [LORA_O] = s->hidden,
                                           [LORA_GATE] = up,
                                           [LORA_UP] = up,
                                           [LORA_DOWN] = s->hidden};
    return lora_module(family, target) != NULL ? outputs[target] : 0;
}

/* Returns the ids of the weights A, and B (+ 1), of a linear's adapters. */
static int adapters_of(enum block_weight weight)
{
    return BLOCK_ADAPTERS + 2 * (int)weight;
}

/* Returns the adapters of a linear. Its outputs are those of its targets, one after the other. */
static struct linear_adapter adapter_of(const struct unit *unit, enum block_weight weight, enum linear_split split)
{
    static const enum lora_target first[] = {LORA_Q, LORA_O, LORA_GATE, LORA_DOWN, LORA_TARGETS};
    const struct model_settings *s = unit->settings;
    const int first_tensor = BLOCK_LINEARS + (int)weight * LINEAR_TENSORS;
    struct linear_adapter adapter = {.a = adapters_of(weight),
                                     .b = adapters_of(weight) + 1,
                                     .adapted = first_tensor + LINEAR_ADAPTED,
                                     .gradient = first_tensor + LINEAR_ADAPTED_GRADIENT,
                                     .dropped = first_tensor + LINEAR_DROPPED,
                                     .salt = (uint32_t)operand_number(unit->layer, (int)weight, OPERAND_INPUT),
                                     .splits_inputs = split == LINEAR_ROW_PARALLEL};
    int64_t outputs = 0;
    for (int t = (int)first[weight]; t < (int)first[weight + 1] && s->lora.rank > 0; t++) {
        const int64_t rows = target_outputs(unit, (enum lora_target)t);
        if (s->lora.targets[t]) {
            adapter.parts[adapter.count].first = outputs;
            adapter.parts[adapter.count++].rows = rows;
        }
        outputs += rows;
    }
    return adapter;
}

struct linear block_linear(const struct unit *unit, enum block_weight weight)
{
    const bool post = block_is_post_norm(unit);
    const int sections[] = {head_norm_present(unit) ? BLOCK_PROJECTED : BLOCK_QKV_OUT,
                            post ? BLOCK_O_OUT : BLOCK_MIDDLE, BLOCK_UP_OUT, post ? BLOCK_DOWN_OUT : UNIT_OUTPUT};
    static const enum linear_split splits[] = {LINEAR_COLUMN_PARALLEL, LINEAR_ROW_PARALLEL, LINEAR_COLUMN_PARALLEL,
                                               LINEAR_ROW_PARALLEL};
    const bool bias = model_has_bias(unit->settings, (int)weight), gelu = unit_family(unit)->gelu;
    const bool unsummed = bias && !gelu; /* SwiGLU's backward does not sum its result: a separate quantization does */
    return (struct linear){
        .weight = (int)weight,
        .bias = bias ? BLOCK_BIASES + (int)weight : -1,
        .first = BLOCK_LINEARS + (int)weight * LINEAR_TENSORS,
        .first_quantized = (int)weight * LINEAR_QUANTIZED,
        .split = splits[weight],
        .section = sections[weight],
        .tokens = UNIT_TOKENS,
        .quantizes_per_gemm = unit->settings->precision.quantizes_per_gemm,
        .number = operand_number(unit->layer, (int)weight, OPERAND_INPUT),
        .precision = precision_of(&unit->settings->precision, unit->layer, (int)weight),
        .summed = (weight == BLOCK_UP && gelu) || (weight == BLOCK_O && block_norms_sum(unit)),
        .fused = {[OPERAND_INPUT] = weight == BLOCK_DOWN, [OPERAND_GRADIENT] = weight == BLOCK_UP && !unsummed},
        .adapter = adapter_of(unit, weight, splits[weight]),
        .frozen = unit->frozen,
        .remade = weight == BLOCK_DOWN};
}

const struct attention block_attention = {BLOCK_QKV_OUT, BLOCK_ATTENTION, BLOCK_LSE, BLOCK_EXCHANGE};

int block_linear_count(const struct unit *unit)
{
    return experts_present(unit) ? LINEAR_UP : LINEAR_COUNT;
}
