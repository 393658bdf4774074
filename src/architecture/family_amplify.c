/* AMPLIFY: Fournier et al. 2024, as published with its checkpoints (huggingface.co/chandar-lab), and BioNeMo's model
 * AMPLIFY. Its classes are not part of transformers: auto_map names where they are published. */
#include "architecture/family.h"
#include "deck/fields.h"
#include "tokenizer/tokenizer.h"

/* Sources: model cards of AMPLIFY. */
static const struct model_preset presets[] = {
    /* name, layers, hidden, ffn, heads, kv, head_dim, vocabulary, tied, rope, init_std, eps, positions, parameters */
    {"amplify_120m", 24, 640, 1712, 10, 10, 64, 27, false, PLAIN_ROPE(10000), 0.02, 1e-5, 2048, 118276507},
    {"amplify_350m", 32, 960, 2560, 15, 15, 64, 27, false, PLAIN_ROPE(10000), 0.02, 1e-5, 2048, 354008667},
    {0}};

static const struct config_key keys[] = {
    FIXED_KEY("hidden_act", "\"SwiGLU\"", "\"SwiGLU\""),
    FIXED_KEY("rms_norm", "true", "true"),
    FIXED_KEY("att_bias", "false", "false"),
    FIXED_KEY("ffn_bias", "false", "false"),
    FIXED_KEY("pre_activation_layer_norm", "true", "true"),
    FIXED_KEY("layer_norm_after_embedding", "false", "false"),
    FIXED_KEY("layer_norm_before_last_layer", "true", "true"),
    SIZE_KEY("vocab_size", model.vocabulary, 27),
    OWN_TOKEN_KEY("pad_token_id", pad, "0", "0"),
    SIZE_KEY("hidden_size", model.hidden, 960),
    {.key = "intermediate_size", .kind = CONFIG_GATED, .number = 3840, .multiple = 8},
    SIZE_KEY("num_hidden_layers", model.layers, 32),
    SIZE_KEY("num_attention_heads", model.heads, 15),
    SIZE_KEY("max_length", model.positions, 2048),
    REAL_KEY("norm_eps", model.norm_eps, 1e-5),
    REAL_KEY("decoder_init_range", model.init_std, 0.02),
    DECK_KEY("embedding_init_range", CONFIG_COPY, model.init_std, 0),
    CONSTANT_KEY("dropout_prob", "0"),
    TOKEN_KEY("bos_token_id", bos),
    TOKEN_KEY("eos_token_id", eos),
    TOKEN_KEY("mask_token_id", mask),
    TOKEN_KEY("unk_token_id", unk),
    {.key = "auto_map",
     .kind = CONFIG_CONSTANT,
     .scope = CONFIG_HF,
     .allowed = "{\"AutoConfig\": \"chandar-lab/AMPLIFY_120M--amplify.AMPLIFYConfig\", "
                "\"AutoModel\": \"chandar-lab/AMPLIFY_120M--amplify.AMPLIFY\"}"},
    {.key = "auto_map", .kind = CONFIG_CLASSES, .scope = CONFIG_TE},
    {.key = "padded_vocab_size", .kind = CONFIG_TOKEN_ROWS, .scope = CONFIG_TE},
    {0}};

static const char *const carried[] = {"freqs_cis", NULL};

#define OF(name) offsetof(struct family_names, name)
static const struct family_tensor te_tensors[] = {{OF(embedding), "amplify.encoder.", PART_TOKENS},
                                                  {OF(final_norm), "decoder.layer_norm_", PART_WHOLE},
                                                  {OF(decoder), "decoder.", PART_TOKENS},
                                                  {0}};

const struct family family_amplify = {
    .name = "amplify",
    .title = "AMPLIFY",
    .interleaved = true,
    .decoder_bias = true,
    .uniform = true,
    .zero_row = -1,
    .padding = 0, /* <pad> */
    .presets = presets,
    .tokenizer = "amplify",
    .learns_from = "amplify",
    .model_type = {[DIALECT_HF] = "AMPLIFY", [DIALECT_TE] = "AMPLIFY"},
    .architecture = {[DIALECT_HF] = "AMPLIFY", [DIALECT_TE] = "AMPLIFYForMaskedLM"},
    .keys = keys,
    .names = {.embedding = "encoder",
              .layer = "transformer_encoder.%d",
              .q = "q",
              .k = "k",
              .v = "v",
              .o = "wo",
              .up = "ffn.w12",
              .down = "ffn.w3",
              .norm1 = "attention_norm",
              .norm2 = "ffn_norm",
              .final_norm = "layer_norm_2",
              .decoder = "decoder",
              .decoder_bias = "decoder.bias"},
    .carried = carried,
    .te = {.file = "models/amplify/src/amplify/amplify_te.py",
           .module = "amplify_te",
           .config = "AMPLIFYConfig",
           .model = "AMPLIFY",
           .automatic = "AutoModelForMaskedLM",
           .layer = "amplify.transformer_encoder.",
           .tensors = te_tensors},
};
