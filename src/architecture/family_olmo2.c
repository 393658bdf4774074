/* OLMo 2: Team OLMo 2024, as transformers' Olmo2ForCausalLM. A Llama whose norms follow attention and MLP, with norms
 * of whole queries and keys. */
#include "architecture/family.h"
#include "architecture/llama_form.h"
#include "deck/fields.h"
#include "tokenizer/tokenizer.h"

/* Sources: configurations of OLMo-2-0425-1B, 1124-7B, 1124-13B and 0325-32B. */
static const struct model_preset presets[] = {
    /* name, layers, hidden, ffn, heads, kv, head_dim, vocabulary, tied, rope, init_std, eps, positions, parameters */
    {"olmo2_1b", 16, 2048, 8192, 16, 16, 128, 100352, false, PLAIN_ROPE(5e5), 0.02, 1e-6, 4096, 1484916736},
    {"olmo2_7b", 32, 4096, 11008, 32, 32, 128, 100352, false, PLAIN_ROPE(5e5), 0.02, 1e-6, 4096, 7298617344},
    {"olmo2_13b", 40, 5120, 13824, 40, 40, 128, 100352, false, PLAIN_ROPE(5e5), 0.02, 1e-6, 4096, 13716198400},
    {"olmo2_32b", 64, 5120, 27648, 40, 8, 128, 100352, false, PLAIN_ROPE(5e5), 0.02, 1e-6, 4096, 32234279936},
    {0}};

static const struct config_key keys[] = {FIXED_KEY("hidden_act", "\"silu\"", "\"silu\""),
                                         DECK_KEY("attention_bias", CONFIG_FLAG, model.attention_bias, false),
                                         SIZE_KEY("hidden_size", model.hidden, 4096),
                                         SIZE_KEY("intermediate_size", model.ffn, 11008),
                                         SIZE_KEY("num_hidden_layers", model.layers, 32),
                                         SIZE_KEY("num_attention_heads", model.heads, 32),
                                         SIZE_KEY("num_key_value_heads", model.kv_heads, 0),
                                         SIZE_KEY("vocab_size", model.vocabulary, 50304),
                                         SIZE_KEY("max_position_embeddings", model.positions, 2048),
                                         REAL_KEY("rms_norm_eps", model.norm_eps, 1e-5),
                                         REAL_KEY("initializer_range", model.init_std, 0.02),
                                         {.key = "rope_theta", .kind = CONFIG_ROPE, .number = 10000},
                                         LLAMA_LAST_KEYS,
                                         {0}};

const struct family family_olmo2 = {
    .name = "olmo2",
    .title = "OLMo 2",
    .post_norm = true,
    .whole_qk_norm = true,
    .causal = true,
    .zero_row = -1,
    .padding = -1,
    .presets = presets,
    .learns_from = "nucleotide",
    .model_type = {[DIALECT_HF] = "olmo2"},
    .architecture = {[DIALECT_HF] = "Olmo2ForCausalLM"},
    .keys = keys,
    .names = {LLAMA_OTHER_NAMES, LLAMA_MLP_NAMES, .norm1 = "post_attention_layernorm",
              .norm2 = "post_feedforward_layernorm", .q_norm = "self_attn.q_norm", .k_norm = "self_attn.k_norm"},
    .task = {[DECK_HEAD_SEQUENCE] = {"Olmo2ForSequenceClassification", NULL, "score", false}},
    .carried = llama_carried,
};
