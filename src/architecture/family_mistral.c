/* Mistral: Jiang et al. 2023, as transformers' MistralForCausalLM. A Llama with sliding window attention, heads of a
 * width of their own, and no biases. */
#include "architecture/family.h"
#include "architecture/llama_form.h"
#include "deck/fields.h"
#include "tokenizer/tokenizer.h"

/* Sources: configurations of Mistral-7B-v0.1 and v0.3, and of Mistral-Nemo-Base-2407 and Mistral-Small-24B-Base-2501.
 */
static const struct model_preset presets[] = {
    /* name, layers, hidden, ffn, heads, kv, head_dim, vocabulary, tied, rope, init_std, eps, positions, parameters */
    {"mistral_7b_v01", 32, 4096, 14336, 32, 8, 128, 32000, false, PLAIN_ROPE(1e4), 0.02, 1e-5, 32768, 7241732096},
    {"mistral_7b_v03", 32, 4096, 14336, 32, 8, 128, 32768, false, PLAIN_ROPE(1e6), 0.02, 1e-5, 32768, 7248023552},
    {"mistral_nemo_12b", 40, 5120, 14336, 32, 8, 128, 131072, false, PLAIN_ROPE(1e6), 0.02, 1e-5, 131072, 12247782400},
    {"mistral_small_24b", 40, 5120, 32768, 32, 8, 128, 131072, false, PLAIN_ROPE(1e8), 0.02, 1e-5, 32768, 23572403200},
    {0}};

static const struct preset_window windows[] = {{"mistral_7b_v01", 4096}, {0}};

static const struct config_key keys[] = {
    FIXED_KEY("hidden_act", "\"silu\"", "\"silu\""),
    {.key = "is_causal", .kind = CONFIG_CHECKED, .allowed = "true", .missing = "true"},
    SIZE_KEY("hidden_size", model.hidden, 4096),
    SIZE_KEY("intermediate_size", model.ffn, 14336),
    SIZE_KEY("num_hidden_layers", model.layers, 32),
    SIZE_KEY("num_attention_heads", model.heads, 32),
    SIZE_KEY("num_key_value_heads", model.kv_heads, 8),
    SIZE_KEY("head_dim", model.head_dim, 0),
    SIZE_KEY("vocab_size", model.vocabulary, 32000),
    SIZE_KEY("max_position_embeddings", model.positions, 131072),
    {.key = "sliding_window", .kind = CONFIG_WINDOW, .number = 4096},
    REAL_KEY("rms_norm_eps", model.norm_eps, 1e-6),
    REAL_KEY("initializer_range", model.init_std, 0.02),
    {.key = "rope_theta", .kind = CONFIG_ROPE, .number = 10000},
    LLAMA_LAST_KEYS,
    {0}};

const struct family family_mistral = {
    .name = "mistral",
    .title = "Mistral",
    .causal = true,
    .zero_row = -1,
    .padding = -1,
    .presets = presets,
    .windows = windows,
    .learns_from = "nucleotide",
    .model_type = {[DIALECT_HF] = "mistral"},
    .architecture = {[DIALECT_HF] = "MistralForCausalLM"},
    .keys = keys,
    .names = {LLAMA_NAMES, LLAMA_MLP_NAMES},
    .task = {[DECK_HEAD_SEQUENCE] = {"MistralForSequenceClassification", NULL, "score", false},
             [DECK_HEAD_TOKEN] = {"MistralForTokenClassification", NULL, "score", true}},
    .carried = llama_carried,
};
