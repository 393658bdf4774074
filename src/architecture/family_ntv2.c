/* Nucleotide Transformer v2: Dalla-Torre et al. 2025, as published with its checkpoints (huggingface.co/InstaDeepAI):
 * an ESM-2 with SwiGLU without biases and a decoder of its own. Its classes are not part of transformers: auto_map
 * names where they are published. Its tokens are 6-mers, which a text tokenizer makes. */
#include "architecture/family.h"
#include "deck/fields.h"
#include "tokenizer/tokenizer.h"

/* Sources: configurations of the published models. Parameters are counted without the table of positions, which rotary
 * models do not use. */
static const struct model_preset presets[] = {
    /* name, layers, hidden, ffn, heads, kv, head_dim, vocabulary, tied, rope, init_std, eps, positions, parameters */
    {"ntv2_50m", 12, 512, 2048, 16, 16, 32, 4107, false, PLAIN_ROPE(10000), 0.02, 1e-12, 2050, 54855179},
    {"ntv2_100m", 22, 512, 2048, 16, 16, 32, 4107, false, PLAIN_ROPE(10000), 0.02, 1e-12, 2050, 96839179},
    {"ntv2_250m", 24, 768, 3072, 16, 16, 48, 4107, false, PLAIN_ROPE(10000), 0.02, 1e-12, 2050, 233545995},
    {"ntv2_500m", 29, 1024, 4096, 16, 16, 64, 4107, false, PLAIN_ROPE(10000), 0.02, 1e-12, 2050, 496245771},
    {0}};

static const struct config_key keys[] = {
    FIXED_KEY("add_bias_fnn", "false", "true"),
    FIXED_KEY("position_embedding_type", "\"rotary\"", "\"absolute\""),
    FIXED_KEY("emb_layer_norm_before", "false", "false"),
    FIXED_KEY("is_folding_model", "false", "false"),
    FIXED_KEY("token_dropout", "false", "false"),
    SIZE_KEY("vocab_size", model.vocabulary, 0),
    SIZE_KEY("hidden_size", model.hidden, 768),
    SIZE_KEY("intermediate_size", model.ffn, 3072),
    SIZE_KEY("num_hidden_layers", model.layers, 12),
    SIZE_KEY("num_attention_heads", model.heads, 12),
    SIZE_KEY("max_position_embeddings", model.positions, 1026),
    REAL_KEY("layer_norm_eps", model.norm_eps, 1e-12),
    REAL_KEY("initializer_range", model.init_std, 0.02),
    {.key = "tie_word_embeddings", .kind = CONFIG_TIED},
    CONSTANT_KEY("hidden_dropout_prob", "0.0"),
    CONSTANT_KEY("attention_probs_dropout_prob", "0.0"),
    TOKEN_KEY("pad_token_id", pad),
    TOKEN_KEY("mask_token_id", mask),
    {.key = "auto_map",
     .kind = CONFIG_CONSTANT,
     .allowed =
         "{\"AutoConfig\": \"InstaDeepAI/nucleotide-transformer-v2-100m-multi-species--esm_config.EsmConfig\", "
         "\"AutoModelForMaskedLM\": "
         "\"InstaDeepAI/nucleotide-transformer-v2-100m-multi-species--modeling_esm.EsmForMaskedLM\", "
         "\"AutoModelForTokenClassification\": "
         "\"InstaDeepAI/nucleotide-transformer-v2-100m-multi-species--modeling_esm.EsmForTokenClassification\", "
         "\"AutoModelForSequenceClassification\": "
         "\"InstaDeepAI/nucleotide-transformer-v2-100m-multi-species--modeling_esm.EsmForSequenceClassification\"}"},
    {0}};

static const char *const carried[] = {"esm.contact_head.*",
                                      "esm.pooler.*",
                                      "esm.embeddings.position_ids",
                                      "esm.embeddings.position_embeddings.weight",
                                      "esm.encoder.layer.*.attention.self.rotary_embeddings.inv_freq",
                                      NULL};
static const struct family_extra extras[] = {
    {"esm.contact_head.regression.weight", DIALECT_HF, EXTRA_HEADS, "contact_head."},
    {"esm.contact_head.regression.bias", DIALECT_HF, EXTRA_ONE, "contact_head."},
    {"esm.encoder.layer.%lld.attention.self.rotary_embeddings.inv_freq", DIALECT_HF, EXTRA_FREQUENCIES, "inv_freq"},
    {0}};

const struct family family_ntv2 = {
    .name = "ntv2",
    .title = "Nucleotide Transformer v2",
    .layer_norm = true,
    .bias = {[LINEAR_QKV] = true, [LINEAR_O] = true},
    .transform = true,
    .decoder_bias = true,
    .zero_row = 1, /* <pad> */
    .padding = 1,
    .presets = presets,
    .learns_from = "nucleotide",
    .model_type = {[DIALECT_HF] = "esm"},
    .mark = "add_bias_fnn",
    .architecture = {[DIALECT_HF] = "EsmForMaskedLM"},
    .keys = keys,
    .extra_positions = 2, /* positions are numbered from 2 */
    .names = {.embedding = "esm.embeddings.word_embeddings",
              .layer = "esm.encoder.layer.%d",
              .q = "attention.self.query",
              .k = "attention.self.key",
              .v = "attention.self.value",
              .o = "attention.output.dense",
              .up = "intermediate.dense",
              .down = "output.dense",
              .norm1 = "attention.LayerNorm",
              .norm2 = "LayerNorm",
              .final_norm = "esm.encoder.emb_layer_norm_after",
              .dense = "lm_head.dense",
              .head_norm = "lm_head.layer_norm",
              .decoder = "lm_head.decoder",
              .decoder_bias = "lm_head.bias"},
    .task = {[DECK_HEAD_SEQUENCE] = {"EsmForSequenceClassification", "classifier.dense", "classifier.out_proj", true},
             [DECK_HEAD_TOKEN] = {"EsmForTokenClassification", NULL, "classifier", true}},
    .carried = carried,
    .extras = extras,
    .loads_frequencies = true,
};
