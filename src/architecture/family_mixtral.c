/* Mixtral: Jiang et al. 2024, as transformers' MixtralForCausalLM. A Llama with a mixture of experts in place of each
 * MLP. */
#include "architecture/family.h"
#include "architecture/llama_form.h"
#include "deck/fields.h"
#include "tokenizer/tokenizer.h"

/* Sources: configurations of the published base models. */
static const struct model_preset presets[] = {
    /* name, layers, hidden, ffn, heads, kv, head_dim, vocabulary, tied, rope, init_std, eps, positions, parameters */
    {"mixtral_8x7b", 32, 4096, 14336, 32, 8, 128, 32000, false, PLAIN_ROPE(1e6), 0.02, 1e-5, 32768, 46702792704},
    {"mixtral_8x22b", 56, 6144, 16384, 48, 8, 128, 32000, false, PLAIN_ROPE(1e6), 0.02, 1e-5, 65536, 140620634112},
    {0}};

static const struct config_key keys[] = {
    FIXED_KEY("hidden_act", "\"silu\"", "\"silu\""),
    FIXED_KEY("sliding_window", "null", "null"),
    {.key = "router_jitter_noise", .kind = CONFIG_FIXED, .allowed = "0.0", .also = "0", .missing = "0.0"},
    {.key = "is_causal", .kind = CONFIG_CHECKED, .allowed = "true", .missing = "true"},
    SIZE_KEY("hidden_size", model.hidden, 4096),
    SIZE_KEY("intermediate_size", model.ffn, 14336),
    SIZE_KEY("num_hidden_layers", model.layers, 32),
    SIZE_KEY("num_attention_heads", model.heads, 32),
    SIZE_KEY("num_key_value_heads", model.kv_heads, 8),
    SIZE_KEY("head_dim", model.head_dim, 0),
    SIZE_KEY("num_local_experts", model.num_local_experts, 8),
    SIZE_KEY("num_experts_per_tok", model.num_experts_per_tok, 2),
    DECK_KEY("router_aux_loss_coef", CONFIG_WEIGHT, model.router_aux_loss_coef, 0.001),
    SIZE_KEY("vocab_size", model.vocabulary, 32000),
    SIZE_KEY("max_position_embeddings", model.positions, 131072),
    REAL_KEY("rms_norm_eps", model.norm_eps, 1e-5),
    REAL_KEY("initializer_range", model.init_std, 0.02),
    {.key = "rope_theta", .kind = CONFIG_ROPE, .number = 1e6},
    {.key = "tie_word_embeddings", .kind = CONFIG_TIED},
    CONSTANT_KEY("attention_dropout", "0.0"),
    CONSTANT_KEY("output_router_logits", "false"),
    CONSTANT_KEY("use_cache", "true"),
    TOKEN_KEY("bos_token_id", bos),
    {.key = "eos_token_id", .kind = CONFIG_ENDS},
    TOKEN_KEY("pad_token_id", pad),
    {0}};

const struct family family_mixtral = {
    .name = "mixtral",
    .title = "Mixtral",
    .causal = true,
    .zero_row = -1,
    .padding = -1,
    .experts = 8,
    .experts_per_token = 2,
    .presets = presets,
    .learns_from = "nucleotide",
    .model_type = {[DIALECT_HF] = "mixtral"},
    .architecture = {[DIALECT_HF] = "MixtralForCausalLM"},
    .keys = keys,
    .names = {LLAMA_NAMES, .gate = "block_sparse_moe.experts.%d.w1", .up = "block_sparse_moe.experts.%d.w3",
              .down = "block_sparse_moe.experts.%d.w2", .router = "block_sparse_moe.gate"},
    .carried = llama_carried,
};
