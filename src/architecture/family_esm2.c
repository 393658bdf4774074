/* ESM-2: Lin et al. 2022, as transformers' EsmForMaskedLM and BioNeMo's recipe esm2_native_te. */
#include "architecture/family.h"
#include "deck/fields.h"
#include "tokenizer/tokenizer.h"

/* Sources: model cards of ESM-2. */
static const struct model_preset presets[] = {
    /* name, layers, hidden, ffn, heads, kv, head_dim, vocabulary, tied, rope, init_std, eps, positions, parameters */
    {"esm2_8m", 6, 320, 1280, 20, 20, 16, 33, true, PLAIN_ROPE(10000), 0.02, 1e-5, 1026, 7512353},
    {"esm2_35m", 12, 480, 1920, 20, 20, 24, 33, true, PLAIN_ROPE(10000), 0.02, 1e-5, 1026, 33501153},
    {"esm2_150m", 30, 640, 2560, 20, 20, 32, 33, true, PLAIN_ROPE(10000), 0.02, 1e-5, 1026, 148139553},
    {"esm2_650m", 33, 1280, 5120, 20, 20, 64, 33, true, PLAIN_ROPE(10000), 0.02, 1e-5, 1026, 651042593},
    {"esm2_3b", 36, 2560, 10240, 40, 40, 64, 33, true, PLAIN_ROPE(10000), 0.02, 1e-5, 1026, 2839004193},
    {"esm2_15b", 48, 5120, 20480, 40, 40, 128, 33, true, PLAIN_ROPE(10000), 0.02, 1e-5, 1026, 15129098273},
    {0}};

static const struct config_key keys[] = {
    FIXED_KEY("position_embedding_type", "\"rotary\"", "\"absolute\""),
    FIXED_KEY("emb_layer_norm_before", "false", "false"),
    FIXED_KEY("is_folding_model", "false", "false"),
    {.key = "is_decoder", .kind = CONFIG_CAUSAL, .scope = CONFIG_HF}, /* transformers then masks causally */
    {.key = "is_decoder", .kind = CONFIG_FIXED, .scope = CONFIG_TE, .allowed = "false", .missing = "false"},
    FIXED_KEY("add_cross_attention", "false", "false"),
    SIZE_KEY("vocab_size", model.vocabulary, 0),
    OWN_TOKEN_KEY("pad_token_id", pad, "1", "null"),
    OWN_TOKEN_KEY("mask_token_id", mask, "32", "null"),
    {.key = "encoder_activation",
     .kind = CONFIG_FIXED,
     .scope = CONFIG_TE,
     .allowed = "\"gelu\"",
     .missing = "\"gelu\""},
    {.key = "attn_mask_type",
     .kind = CONFIG_FIXED,
     .scope = CONFIG_TE,
     .allowed = "\"padding\"",
     .missing = "\"padding\""},
    {.key = "fuse_qkv_params", .kind = CONFIG_FIXED, .scope = CONFIG_TE, .allowed = "true", .missing = "true"},
    {.key = "qkv_weight_interleaved", .kind = CONFIG_FIXED, .scope = CONFIG_TE, .allowed = "true", .missing = "true"},
    {.key = "is_causal", .kind = CONFIG_CHECKED, .allowed = "false", .missing = "false"},
    SIZE_KEY("hidden_size", model.hidden, 768),
    SIZE_KEY("intermediate_size", model.ffn, 3072),
    SIZE_KEY("num_hidden_layers", model.layers, 12),
    SIZE_KEY("num_attention_heads", model.heads, 12),
    SIZE_KEY("max_position_embeddings", model.positions, 1026),
    REAL_KEY("layer_norm_eps", model.norm_eps, 1e-12),
    REAL_KEY("rope_theta", model.rope_theta, 10000),
    REAL_KEY("initializer_range", model.init_std, 0.02),
    {.key = "cistron_gelu", .kind = CONFIG_GELU},
    DECK_KEY("token_dropout", CONFIG_FLAG, model.token_dropout, false),
    {.key = "tie_word_embeddings", .kind = CONFIG_TIED},
    CONSTANT_KEY("hidden_dropout_prob", "0.0"),
    CONSTANT_KEY("attention_probs_dropout_prob", "0.0"),
    {.key = "auto_map", .kind = CONFIG_CLASSES, .scope = CONFIG_TE},
    {.key = "padded_vocab_size", .kind = CONFIG_TOKEN_ROWS, .scope = CONFIG_TE},
    {.key = "add_pooling_layer", .kind = CONFIG_CONSTANT, .scope = CONFIG_TE, .allowed = "false"},
    {0}};

static const char *const carried[] = {"esm.contact_head.*",
                                      "esm.pooler.*",
                                      "esm.embeddings.position_ids",
                                      "esm.embeddings.position_embeddings.weight",
                                      "esm.rotary_embeddings.inv_freq",
                                      "esm.encoder.layer.*.attention.self.rotary_embeddings.inv_freq",
                                      NULL};
/* EsmForMaskedLM always has a contact head, a logistic regression on all heads of all layers, and a table of rotary
 * frequencies. The table's name changed between versions 4 and 5; both read that of version 4. */
static const struct family_extra extras[] = {
    {"esm.contact_head.regression.weight", DIALECT_HF, EXTRA_HEADS, "contact_head."},
    {"esm.contact_head.regression.bias", DIALECT_HF, EXTRA_ONE, "contact_head."},
    {"esm.encoder.layer.%lld.attention.self.rotary_embeddings.inv_freq", DIALECT_HF, EXTRA_FREQUENCIES, "inv_freq"},
    {0}};

#define OF(name) offsetof(struct family_names, name)
static const struct family_tensor te_tensors[] = {{OF(embedding), "model.embeddings.word_embeddings.", PART_TOKENS},
                                                  {OF(final_norm), "model.encoder.emb_layer_norm_after.", PART_WHOLE},
                                                  {OF(dense), "lm_head.dense.", PART_WHOLE},
                                                  {OF(head_norm), "lm_head.decoder.layer_norm_", PART_WHOLE},
                                                  {OF(decoder), "lm_head.decoder.", PART_TOKENS},
                                                  {OF(decoder_bias), "lm_head.decoder.", PART_TOKENS},
                                                  {0}};
static const char *const te_ignored[] = {"model.pooler.*", "esm.pooler.*", NULL};

const struct family family_esm2 = {
    .name = "esm2",
    .title = "ESM-2",
    .layer_norm = true,
    .bias = {true, true, true, true},
    .gelu = true,
    .transform = true,
    .decoder_bias = true,
    .token_dropout = true,
    .tied = true,
    .zero_row = 1, /* <pad> */
    .padding = 1,
    .presets = presets,
    .tokenizer = "esm2",
    .learns_from = "esm2",
    .tokenizer_class = "EsmTokenizer",
    .model_type = {[DIALECT_HF] = "esm", [DIALECT_TE] = "nv_esm"},
    .architecture = {[DIALECT_HF] = "EsmForMaskedLM", [DIALECT_TE] = "NVEsmForMaskedLM"},
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
             [DECK_HEAD_TOKEN] = {"EsmForTokenClassification", NULL, "classifier", true},
             [DECK_HEAD_NONE] = {"EsmModel", NULL, NULL, false}},
    .carried = carried,
    .extras = extras,
    .loads_frequencies = true,
    .te = {.file = "models/esm2/modeling_esm_te.py",
           .module = "esm_nv",
           .config = "NVEsmConfig",
           .model = "NVEsmModel",
           .automatic = "AutoModelForMaskedLM",
           .layer = "model.encoder.layers.",
           .tensors = te_tensors,
           .older = "esm.",
           .ignored = te_ignored,
           .lost = "for example ESM-2's contact head"},
};
