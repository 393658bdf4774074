/* Qwen 3: Yang et al. 2025, as transformers' Qwen3ForCausalLM. A Llama with norms of q and k, and heads of a width of
 * their own. */
#include "architecture/family.h"
#include "architecture/llama_form.h"
#include "deck/fields.h"
#include "tokenizer/tokenizer.h"

/* Sources: configurations of the dense models. */
static const struct model_preset presets[] = {
    /* name, layers, hidden, ffn, heads, kv, head_dim, vocabulary, tied, rope, init_std, eps, positions, parameters */
    {"qwen3_0_6b", 28, 1024, 3072, 16, 8, 128, 151936, true, PLAIN_ROPE(1e6), 0.02, 1e-6, 40960, 596049920},
    {"qwen3_1_7b", 28, 2048, 6144, 16, 8, 128, 151936, true, PLAIN_ROPE(1e6), 0.02, 1e-6, 40960, 1720574976},
    {"qwen3_4b", 36, 2560, 9728, 32, 8, 128, 151936, true, PLAIN_ROPE(1e6), 0.02, 1e-6, 40960, 4022468096},
    {"qwen3_8b", 36, 4096, 12288, 32, 8, 128, 151936, false, PLAIN_ROPE(1e6), 0.02, 1e-6, 40960, 8190735360},
    {"qwen3_14b", 40, 5120, 17408, 40, 8, 128, 151936, false, PLAIN_ROPE(1e6), 0.02, 1e-6, 40960, 14768307200},
    {"qwen3_32b", 64, 5120, 25600, 64, 8, 128, 151936, false, PLAIN_ROPE(1e6), 0.02, 1e-6, 40960, 32762123264},
    {0}};

static const struct config_key keys[] = {
    FIXED_KEY("hidden_act", "\"silu\"", "\"silu\""),
    {.key = "is_causal", .kind = CONFIG_CHECKED, .allowed = "true", .missing = "true"},
    SIZE_KEY("hidden_size", model.hidden, 4096),
    SIZE_KEY("intermediate_size", model.ffn, 22016),
    SIZE_KEY("num_hidden_layers", model.layers, 32),
    {.key = "use_sliding_window", .kind = CONFIG_USES_WINDOW},
    {.key = "sliding_window", .kind = CONFIG_WINDOW, .number = 4096},
    {.key = "max_window_layers", .kind = CONFIG_WINDOW_LAYERS, .number = 28},
    SIZE_KEY("num_attention_heads", model.heads, 32),
    SIZE_KEY("num_key_value_heads", model.kv_heads, 32),
    SIZE_KEY("head_dim", model.head_dim, 128),
    DECK_KEY("attention_bias", CONFIG_FLAG, model.attention_bias, false),
    SIZE_KEY("vocab_size", model.vocabulary, 151936),
    SIZE_KEY("max_position_embeddings", model.positions, 32768),
    REAL_KEY("rms_norm_eps", model.norm_eps, 1e-6),
    REAL_KEY("initializer_range", model.init_std, 0.02),
    {.key = "rope_theta", .kind = CONFIG_ROPE, .number = 10000},
    LLAMA_LAST_KEYS,
    {0}};

const struct family family_qwen3 = {
    .name = "qwen3",
    .title = "Qwen 3",
    .causal = true,
    .zero_row = -1,
    .padding = -1,
    .presets = presets,
    .learns_from = "nucleotide",
    .model_type = {[DIALECT_HF] = "qwen3"},
    .architecture = {[DIALECT_HF] = "Qwen3ForCausalLM"},
    .keys = keys,
    .names = {LLAMA_NAMES, LLAMA_MLP_NAMES, .q_norm = "self_attn.q_norm", .k_norm = "self_attn.k_norm"},
    .task = {[DECK_HEAD_SEQUENCE] = {"Qwen3ForSequenceClassification", NULL, "score", false},
             [DECK_HEAD_TOKEN] = {"Qwen3ForTokenClassification", NULL, "score", true}},
    .carried = llama_carried,
};
