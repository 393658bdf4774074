/* ESM C (ESM Cambrian): ESM Team 2024, as transformers' EsmcForMaskedLM. Its ids are ESM-2's, but for the token 31,
 * which separates chains. */
#include "architecture/family.h"
#include "deck/fields.h"
#include "tokenizer/tokenizer.h"

/* Sources: the published models of 300M, 600M and 6B parameters. */
static const struct model_preset presets[] = {
    /* name, layers, hidden, ffn, heads, kv, head_dim, vocabulary, tied, rope, init_std, eps, positions, parameters */
    {"esmc_300m", 30, 960, 2560, 15, 15, 64, 64, false, PLAIN_ROPE(10000), 0.02, 1e-5, 2048, 332997184},
    {"esmc_600m", 36, 1152, 3072, 18, 18, 64, 64, false, PLAIN_ROPE(10000), 0.02, 1e-5, 2048, 575036992},
    {"esmc_6b", 80, 2560, 6912, 40, 40, 64, 64, false, PLAIN_ROPE(10000), 0.02, 1e-5, 2048, 6352005184},
    {0}};

static const struct config_key keys[] = {FIXED_KEY("hidden_act", "\"silu\"", "\"silu\""),
                                         FIXED_KEY("attention_bias", "false", "false"),
                                         FIXED_KEY("mlp_bias", "false", "false"),
                                         FIXED_KEY("tie_word_embeddings", "false", "false"),
                                         SIZE_KEY("hidden_size", model.hidden, 2560),
                                         SIZE_KEY("intermediate_size", model.ffn, 6912),
                                         SIZE_KEY("num_hidden_layers", model.layers, 80),
                                         SIZE_KEY("num_attention_heads", model.heads, 40),
                                         SIZE_KEY("vocab_size", model.vocabulary, 64),
                                         SIZE_KEY("max_position_embeddings", model.positions, 2048),
                                         REAL_KEY("initializer_range", model.init_std, 0.02),
                                         {.key = "rope_theta", .kind = CONFIG_ROPE, .number = 10000},
                                         CONSTANT_KEY("attention_dropout", "0.0"),
                                         TOKEN_KEY("bos_token_id", bos),
                                         TOKEN_KEY("eos_token_id", eos),
                                         OWN_TOKEN_KEY("pad_token_id", pad, "1", "1"),
                                         OWN_TOKEN_KEY("mask_token_id", mask, "32", "32"),
                                         {0}};

static const char *const carried[] = {"esmc.rotary_emb.inv_freq", NULL};

const struct family family_esmc = {
    .name = "esmc",
    .title = "ESM C",
    .layer_norm = true,
    .final_norm_unbiased = true,
    .whole_qk_norm = true,
    .scaled_residual = true,
    .transform = true,
    .decoder_bias = true,
    .zero_row = -1,
    .padding = -1,
    .presets = presets,
    .tokenizer = "esm2",
    .learns_from = "esm2",
    .model_type = {[DIALECT_HF] = "esmc"},
    .architecture = {[DIALECT_HF] = "EsmcForMaskedLM"},
    .keys = keys,
    .names = {.embedding = "esmc.embed_tokens",
              .layer = "esmc.layers.%d",
              .q = "self_attn.q_proj",
              .k = "self_attn.k_proj",
              .v = "self_attn.v_proj",
              .o = "self_attn.o_proj",
              .gate = "mlp.gate_proj",
              .up = "mlp.up_proj",
              .down = "mlp.down_proj",
              .norm1 = "input_layernorm",
              .norm2 = "post_attention_layernorm",
              .q_norm = "self_attn.q_norm",
              .k_norm = "self_attn.k_norm",
              .final_norm = "esmc.norm",
              .dense = "lm_head.dense",
              .head_norm = "lm_head.layer_norm",
              .decoder = "lm_head.decoder",
              .decoder_bias = "lm_head.decoder.bias"},
    .task = {[DECK_HEAD_SEQUENCE] = {"EsmcForSequenceClassification", "classifier.dense", "classifier.out_proj", true},
             [DECK_HEAD_TOKEN] = {"EsmcForTokenClassification", NULL, "score", true}},
    .carried = carried,
};
