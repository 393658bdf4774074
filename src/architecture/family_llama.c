/* Llama: Touvron et al. 2023, as transformers' LlamaForCausalLM and BioNeMo's recipe llama3_native_te. */
#include "architecture/family.h"
#include "architecture/llama_form.h"
#include "deck/fields.h"
#include "tokenizer/tokenizer.h"

#define LLAMA3_ROPE(by)                                                                                                \
    {                                                                                                                  \
        .theta = 500000, .factor = by, .low = 1, .high = 4, .original = 8192                                           \
    }

/* Sources: model cards of Llama 3, 3.1 and 3.2, configurations of SmolLM2 and TinyLlama, configurations of BioNeMo's
 * recipes (llama3, opengenome2), and the 405B with fewer layers of the NeMo benchmark recipes. */
static const struct model_preset presets[] = {
    /* name, layers, hidden, ffn, heads, kv, head_dim, vocabulary, tied, rope, init_std, eps, positions, parameters */
    {"llama32_1b", 16, 2048, 8192, 32, 8, 64, 128256, true, LLAMA3_ROPE(32), 0.02, 1e-5, 131072, 1235814400},
    {"llama32_3b", 28, 3072, 8192, 24, 8, 128, 128256, true, LLAMA3_ROPE(32), 0.02, 1e-5, 131072, 3212749824},
    {"llama3_sanity", 2, 384, 1536, 6, 6, 64, 128256, true, LLAMA3_ROPE(32), 0.02, 1e-5, 131072, 53970816},
    {"llama3_convergence", 16, 2048, 8192, 32, 8, 64, 256, false, LLAMA3_ROPE(32), 0.02, 1e-5, 131072, 974194688},
    {"lingua_1b", 25, 2048, 6144, 16, 8, 128, 128256, false, PLAIN_ROPE(10000), 0.023, 1e-5, 4096, 1783732224},
    {"llama3_8b", 32, 4096, 14336, 32, 8, 128, 128256, false, PLAIN_ROPE(500000), 0.02, 1e-5, 8192, 8030261248},
    {"llama31_8b", 32, 4096, 14336, 32, 8, 128, 128256, false, LLAMA3_ROPE(8), 0.02, 1e-5, 131072, 8030261248},
    {"llama3_70b", 80, 8192, 28672, 64, 8, 128, 128256, false, PLAIN_ROPE(500000), 0.02, 1e-5, 8192, 70553706496},
    {"llama31_70b", 80, 8192, 28672, 64, 8, 128, 128256, false, LLAMA3_ROPE(8), 0.02, 1e-5, 131072, 70553706496},
    {"llama31_405b", 126, 16384, 53248, 128, 8, 128, 128256, false, LLAMA3_ROPE(8), 0.02, 1e-5, 131072, 405853388800},
    {"llama31_405b_8", 8, 16384, 53248, 128, 8, 128, 128256, false, LLAMA3_ROPE(8), 0.02, 1e-5, 131072, 29704339456},
    {"llama31_405b_30", 30, 16384, 53248, 128, 8, 128, 128256, false, LLAMA3_ROPE(8), 0.02, 1e-5, 131072, 99833823232},
    {"llama31_405b_62", 62, 16384, 53248, 128, 8, 128, 128256, false, LLAMA3_ROPE(8), 0.02, 1e-5, 131072, 201840345088},
    {"og2_7b", 32, 4096, 14336, 32, 8, 128, 256, false, LLAMA3_ROPE(1), 0.02, 1e-5, 8192, 6981685248},
    {"og2_sanity", 2, 384, 1536, 6, 6, 64, 256, true, LLAMA3_ROPE(32), 0.02, 1e-5, 131072, 4818816},
    {"smollm2_135m", 30, 576, 1536, 9, 3, 64, 49152, true, PLAIN_ROPE(1e5), 1.0 / 24, 1e-5, 8192, 134515008},
    {"smollm2_360m", 32, 960, 2560, 15, 5, 64, 49152, true, PLAIN_ROPE(1e5), 0.02, 1e-5, 8192, 361821120},
    {"smollm2_1_7b", 24, 2048, 8192, 32, 32, 64, 49152, true, PLAIN_ROPE(1.3e5), 0.02, 1e-5, 8192, 1711376384},
    {"tinyllama_1_1b", 22, 2048, 5632, 32, 4, 64, 32000, false, PLAIN_ROPE(10000), 0.02, 1e-5, 2048, 1100048384},
    {0}};

static const struct config_key keys[] = {
    FIXED_KEY("hidden_act", "\"silu\"", "\"silu\""),
    {.key = "attention_bias",
     .kind = CONFIG_FLAG,
     .scope = CONFIG_HF,
     .offset = offsetof(struct deck, model.attention_bias)},
    {.key = "mlp_bias", .kind = CONFIG_FLAG, .scope = CONFIG_HF, .offset = offsetof(struct deck, model.mlp_bias)},
    {.key = "attention_bias", .kind = CONFIG_FIXED, .scope = CONFIG_TE, .allowed = "false", .missing = "false"},
    {.key = "mlp_bias", .kind = CONFIG_FIXED, .scope = CONFIG_TE, .allowed = "false", .missing = "false"},
    {.key = "is_causal", .kind = CONFIG_CHECKED, .allowed = "true", .missing = "true"},
    SIZE_KEY("hidden_size", model.hidden, 4096),
    SIZE_KEY("intermediate_size", model.ffn, 11008),
    SIZE_KEY("num_hidden_layers", model.layers, 32),
    SIZE_KEY("num_attention_heads", model.heads, 32),
    SIZE_KEY("num_key_value_heads", model.kv_heads, 0),
    SIZE_KEY("head_dim", model.head_dim, 0),
    SIZE_KEY("vocab_size", model.vocabulary, 32000),
    SIZE_KEY("max_position_embeddings", model.positions, 2048),
    REAL_KEY("rms_norm_eps", model.norm_eps, 1e-6),
    REAL_KEY("initializer_range", model.init_std, 0.02),
    {.key = "rope_theta", .kind = CONFIG_ROPE, .number = 10000},
    LLAMA_LAST_KEYS,
    {.key = "auto_map", .kind = CONFIG_CLASSES, .scope = CONFIG_TE},
    /* both values are causal: packed rows or padded ones */
    {.key = "self_attn_mask_type",
     .kind = CONFIG_CHECKED,
     .scope = CONFIG_TE,
     .allowed = "\"causal\"",
     .also = "\"padding_causal\"",
     .missing = "\"causal\""},
    {0}};

/* DIALECT_TE's class stores its table of frequencies. */
static const struct family_extra extras[] = {{"model.rotary_emb.inv_freq", DIALECT_TE, EXTRA_FREQUENCIES, "inv_freq"},
                                             {0}};

const struct family family_llama = {
    .name = "llama",
    .title = "Llama",
    .causal = true,
    .zero_row = -1,
    .padding = -1,
    .presets = presets,
    .learns_from = "nucleotide",
    .model_type = {[DIALECT_HF] = "llama", [DIALECT_TE] = "llama"},
    .architecture = {[DIALECT_HF] = "LlamaForCausalLM", [DIALECT_TE] = "NVLlamaForCausalLM"},
    .keys = keys,
    .names = {LLAMA_NAMES, LLAMA_MLP_NAMES},
    .task = {[DECK_HEAD_SEQUENCE] = {"LlamaForSequenceClassification", NULL, "score", false},
             [DECK_HEAD_TOKEN] = {"LlamaForTokenClassification", NULL, "score", true}},
    .carried = llama_carried,
    .extras = extras,
    .te = {.file = "models/llama3/modeling_llama_te.py",
           .module = "modeling_llama_te",
           .config = "NVLlamaConfig",
           .model = "NVLlamaModel",
           .automatic = "AutoModelForCausalLM",
           .layer = "model.layers."},
};
