/* Qwen 2 and 2.5: Yang et al. 2024, as transformers' Qwen2ForCausalLM. A Llama with biases of q, k and v. */
#include "architecture/family.h"
#include "architecture/llama_form.h"
#include "deck/fields.h"
#include "tokenizer/tokenizer.h"

/* Sources: configurations of Qwen2.5's base models. Their widths are those of Qwen 2 where both have the size. */
static const struct model_preset presets[] = {
    /* name, layers, hidden, ffn, heads, kv, head_dim, vocabulary, tied, rope, init_std, eps, positions, parameters */
    {"qwen25_0_5b", 24, 896, 4864, 14, 2, 64, 151936, true, PLAIN_ROPE(1e6), 0.02, 1e-6, 32768, 494032768},
    {"qwen25_1_5b", 28, 1536, 8960, 12, 2, 128, 151936, true, PLAIN_ROPE(1e6), 0.02, 1e-6, 131072, 1543714304},
    {"qwen25_3b", 36, 2048, 11008, 16, 2, 128, 151936, true, PLAIN_ROPE(1e6), 0.02, 1e-6, 32768, 3085938688},
    {"qwen25_7b", 28, 3584, 18944, 28, 4, 128, 152064, false, PLAIN_ROPE(1e6), 0.02, 1e-6, 131072, 7615616512},
    {"qwen25_14b", 48, 5120, 13824, 40, 8, 128, 152064, false, PLAIN_ROPE(1e6), 0.02, 1e-5, 131072, 14770033664},
    {"qwen25_32b", 64, 5120, 27648, 40, 8, 128, 152064, false, PLAIN_ROPE(1e6), 0.02, 1e-5, 131072, 32763876352},
    {"qwen25_72b", 80, 8192, 29568, 64, 8, 128, 152064, false, PLAIN_ROPE(1e6), 0.02, 1e-5, 131072, 72706203648},
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
    SIZE_KEY("vocab_size", model.vocabulary, 151936),
    SIZE_KEY("max_position_embeddings", model.positions, 32768),
    REAL_KEY("rms_norm_eps", model.norm_eps, 1e-6),
    REAL_KEY("initializer_range", model.init_std, 0.02),
    {.key = "rope_theta", .kind = CONFIG_ROPE, .number = 10000},
    LLAMA_LAST_KEYS,
    {0}};

const struct family family_qwen2 = {
    .name = "qwen2",
    .title = "Qwen 2",
    .bias = {[LINEAR_QKV] = true},
    .causal = true,
    .zero_row = -1,
    .padding = -1,
    .presets = presets,
    .learns_from = "nucleotide",
    .model_type = {[DIALECT_HF] = "qwen2"},
    .architecture = {[DIALECT_HF] = "Qwen2ForCausalLM"},
    .keys = keys,
    .names = {LLAMA_NAMES, LLAMA_MLP_NAMES},
    .task = {[DECK_HEAD_SEQUENCE] = {"Qwen2ForSequenceClassification", NULL, "score", false},
             [DECK_HEAD_TOKEN] = {"Qwen2ForTokenClassification", NULL, "score", true}},
    .carried = llama_carried,
};
