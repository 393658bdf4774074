#include "bridge/config_table.h"

#define IN(field) offsetof(struct deck, field)

const char config_gelu[] = "cistron_gelu";

/* Defaults: the configuration classes of these names in transformers and BioNeMo. The first fixed rows are those that
 * users meet. */
static const struct config_fixed none[] = {{0}};
static const struct config_fixed llama_fixed[] = {
    {"hidden_act", "\"silu\"", "\"silu\""}, {"attention_bias", "false", "false"}, {"mlp_bias", "false", "false"}, {0}};
static const struct config_fixed llama_unwritten[] = {{"is_causal", "true", "true"}, {0}};
static const struct config_number llama_sizes[] = {{"hidden_size", IN(model.hidden), 4096},
                                                   {"intermediate_size", IN(model.ffn), 11008},
                                                   {"num_hidden_layers", IN(model.layers), 32},
                                                   {"num_attention_heads", IN(model.heads), 32},
                                                   {"num_key_value_heads", IN(model.kv_heads), 0},
                                                   {"head_dim", IN(model.head_dim), 0},
                                                   {"vocab_size", IN(model.vocabulary), 32000},
                                                   {"max_position_embeddings", IN(model.positions), 2048},
                                                   {0}};
static const struct config_number llama_reals[] = {
    {"rms_norm_eps", IN(model.norm_eps), 1e-6}, {"initializer_range", IN(model.init_std), 0.02}, {0}};

static const struct config_fixed esm2_fixed[] = {{"position_embedding_type", "\"rotary\"", "\"absolute\""},
                                                 {"emb_layer_norm_before", "false", "false"},
                                                 {"is_folding_model", "false", "false"},
                                                 {"is_decoder", "false", "false"},
                                                 {"add_cross_attention", "false", "false"},
                                                 {"vocab_size", "33", "null"},
                                                 {"pad_token_id", "1", "null"},
                                                 {"mask_token_id", "32", "null"},
                                                 {0}};
static const struct config_fixed esm2_te[] = {{"encoder_activation", "\"gelu\"", "\"gelu\""},
                                              {"attn_mask_type", "\"padding\"", "\"padding\""},
                                              {"fuse_qkv_params", "true", "true"},
                                              {"qkv_weight_interleaved", "true", "true"},
                                              {0}};
static const struct config_fixed esm2_unwritten[] = {{"is_causal", "false", "false"}, {0}};
static const struct config_number esm2_sizes[] = {{"hidden_size", IN(model.hidden), 768},
                                                  {"intermediate_size", IN(model.ffn), 3072},
                                                  {"num_hidden_layers", IN(model.layers), 12},
                                                  {"num_attention_heads", IN(model.heads), 12},
                                                  {"vocab_size", IN(model.vocabulary), 0},
                                                  {"max_position_embeddings", IN(model.positions), 1026},
                                                  {0}};
static const struct config_number esm2_reals[] = {{"layer_norm_eps", IN(model.norm_eps), 1e-12},
                                                  {"rope_theta", IN(model.rope_theta), 10000},
                                                  {"initializer_range", IN(model.init_std), 0.02},
                                                  {0}};

/* intermediate_size is what ffn is made of by a rule; initial embeddings have the decoder's range here. */
static const struct config_fixed amplify_fixed[] = {{"hidden_act", "\"SwiGLU\"", "\"SwiGLU\""},
                                                    {"rms_norm", "true", "true"},
                                                    {"att_bias", "false", "false"},
                                                    {"ffn_bias", "false", "false"},
                                                    {"pre_activation_layer_norm", "true", "true"},
                                                    {"layer_norm_after_embedding", "false", "false"},
                                                    {"layer_norm_before_last_layer", "true", "true"},
                                                    {"vocab_size", "27", "27"},
                                                    {"pad_token_id", "0", "0"},
                                                    {0}};
static const struct config_number amplify_sizes[] = {{"hidden_size", IN(model.hidden), 960},
                                                     {"intermediate_size", IN(model.ffn), 3840},
                                                     {"num_hidden_layers", IN(model.layers), 32},
                                                     {"num_attention_heads", IN(model.heads), 15},
                                                     {"vocab_size", IN(model.vocabulary), 27},
                                                     {"max_length", IN(model.positions), 2048},
                                                     {0}};
static const struct config_number amplify_reals[] = {
    {"norm_eps", IN(model.norm_eps), 1e-5}, {"decoder_init_range", IN(model.init_std), 0.02}, {0}};

const struct config_family config_families[DIALECT_COUNT][FAMILY_COUNT] = {
    {
        [FAMILY_LLAMA] = {"llama", "LlamaForCausalLM", llama_fixed, none, llama_unwritten, llama_sizes, llama_reals, 0},
        [FAMILY_ESM2] = {"esm", "EsmForMaskedLM", esm2_fixed, none, esm2_unwritten, esm2_sizes, esm2_reals, 2},
        [FAMILY_AMPLIFY] = {"AMPLIFY", "AMPLIFY", amplify_fixed, none, none, amplify_sizes, amplify_reals, 0},
    },
    {
        [FAMILY_LLAMA] = {"llama", "NVLlamaForCausalLM", llama_fixed, none, llama_unwritten, llama_sizes, llama_reals,
                          0},
        [FAMILY_ESM2] = {"nv_esm", "NVEsmForMaskedLM", esm2_fixed, esm2_te, esm2_unwritten, esm2_sizes, esm2_reals, 2},
        [FAMILY_AMPLIFY] = {"AMPLIFY", "AMPLIFYForMaskedLM", amplify_fixed, none, none, amplify_sizes, amplify_reals,
                            0},
    },
};

const struct config_classes config_te_classes[FAMILY_COUNT] = {
    [FAMILY_LLAMA] = {"models/llama3/modeling_llama_te.py", "modeling_llama_te", "NVLlamaConfig", "NVLlamaModel",
                      "AutoModelForCausalLM"},
    [FAMILY_ESM2] = {"models/esm2/modeling_esm_te.py", "esm_nv", "NVEsmConfig", "NVEsmModel", "AutoModelForMaskedLM"},
    [FAMILY_AMPLIFY] = {"models/amplify/src/amplify/amplify_te.py", "amplify_te", "AMPLIFYConfig", "AMPLIFY",
                        "AutoModelForMaskedLM"},
};
