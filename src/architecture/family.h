/* What the families of models differ in: the form of a block and of the head, and how Hugging Face spells the names of
 * their parameters. Sizes and everything that varies within a family are settings (architecture/settings.h). */
#ifndef ARCHITECTURE_FAMILY_H
#define ARCHITECTURE_FAMILY_H

#include <stdbool.h>
#include <stdint.h>

enum model_family { FAMILY_LLAMA, FAMILY_ESM2, FAMILY_AMPLIFY, FAMILY_COUNT };

/* Without "%d." and without ".weight" or ".bias", which follow by kind; NULL: there is no such parameter. */
struct family_names {
    const char *embedding;
    const char *layer; /* of a block, with %d for its number; those up to norm2 follow it */
    const char *q, *k, *v, *o;
    const char *gate, *up; /* gate NULL: up has all rows, of SwiGLU the gate's first */
    const char *down;
    const char *norm1, *norm2; /* before attention, before the MLP */
    const char *final_norm;
    const char *dense, *head_norm; /* of the head's transform */
    const char *decoder;           /* the head's matrix, where it is not tied */
    const char *decoder_bias;      /* whole name */
};

struct family {
    const char *name;      /* in decks */
    bool layer_norm;       /* LayerNorm with bias, else RMSNorm */
    bool bias;             /* of the linear layers of a block */
    bool gelu;             /* the MLP is down(gelu(up)), else SwiGLU: down(silu(gate) * up) */
    bool causal;           /* a token sees those before it, and the next one is predicted; else all, and masked ones */
    bool interleaved;      /* rotary pairs are neighbours, else half a head apart */
    bool transform;        /* the head has dense, GELU (erf) and norm between the final norm and the decoder */
    bool decoder_bias;     /* the decoder has a bias */
    bool token_dropout;    /* embeddings are scaled by the share of mask tokens (settings may turn it off) */
    bool uniform;          /* initial matrices are uniform in +-init_std, else normal */
    bool tied;             /* the decoder is the embedding unless settings say otherwise */
    int64_t zero_row;      /* of the embedding: starts as zeros; -1 = none */
    int64_t padding;       /* token that adds nothing to the embedding's gradient; -1 = none */
    const char *tokenizer; /* of its published models, where this program has it; else NULL */
    const char *learns_from; /* the tokenizer of what it is trained on here */
    struct family_names names;
};

/* Never NULL; family must be one of the enum. */
const struct family *family_of(enum model_family family);

#endif
