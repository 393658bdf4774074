/* Names that families of Llama's form share: those of transformers' tensors. */
#ifndef ARCHITECTURE_LLAMA_FORM_H
#define ARCHITECTURE_LLAMA_FORM_H

/* Initialisers of struct family_names; the second has all but the norms of blocks. */
#define LLAMA_NAMES LLAMA_OTHER_NAMES, .norm1 = "input_layernorm", .norm2 = "post_attention_layernorm"
#define LLAMA_OTHER_NAMES                                                                                              \
    .embedding = "model.embed_tokens", .layer = "model.layers.%d", .q = "self_attn.q_proj", .k = "self_attn.k_proj",   \
    .v = "self_attn.v_proj", .o = "self_attn.o_proj", .final_norm = "model.norm", .decoder = "lm_head"
#define LLAMA_MLP_NAMES .gate = "mlp.gate_proj", .up = "mlp.up_proj", .down = "mlp.down_proj"

/* Tables of frequencies, which older files have. */
static const char *const llama_carried[] = {"model.rotary_emb.inv_freq", "model.layers.*.self_attn.rotary_emb.inv_freq",
                                            NULL};

#endif
