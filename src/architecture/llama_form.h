/* Families of Llama's form share names of transformers' tensors, and keys of config.json. */
#ifndef ARCHITECTURE_LLAMA_FORM_H
#define ARCHITECTURE_LLAMA_FORM_H

#include "architecture/config_key.h"

/* Initialisers of struct family_names; the second has all but the norms of blocks. */
#define LLAMA_NAMES LLAMA_OTHER_NAMES, .norm1 = "input_layernorm", .norm2 = "post_attention_layernorm"
#define LLAMA_OTHER_NAMES                                                                                              \
    .embedding = "model.embed_tokens", .layer = "model.layers.%d", .q = "self_attn.q_proj", .k = "self_attn.k_proj",   \
    .v = "self_attn.v_proj", .o = "self_attn.o_proj", .final_norm = "model.norm", .decoder = "lm_head"
#define LLAMA_MLP_NAMES .gate = "mlp.gate_proj", .up = "mlp.up_proj", .down = "mlp.down_proj"

/* The keys of config.json after the sizes and rope_theta, in the order in which exports write them. */
#define LLAMA_LAST_KEYS                                                                                                \
    {.key = "tie_word_embeddings", .kind = CONFIG_TIED}, CONSTANT_KEY("attention_dropout", "0.0"),                     \
        CONSTANT_KEY("use_cache", "true"), TOKEN_KEY("bos_token_id", bos),                                             \
        {.key = "eos_token_id", .kind = CONFIG_ENDS}, TOKEN_KEY("pad_token_id", pad)

/* Tables of frequencies, which older files have. */
static const char *const llama_carried[] = {"model.rotary_emb.inv_freq", "model.layers.*.self_attn.rotary_emb.inv_freq",
                                            NULL};

#endif
