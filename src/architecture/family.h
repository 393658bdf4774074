/* A family of models: what distinguishes Llama, ESM-2 and AMPLIFY from each other, as data. One file, family_NAME.c,
 * has all of a family: the form of its blocks and head, its published sizes, its names of parameters, its config.json
 * and its tensors in both dialects. Everything else interprets these rows and names no family. What varies within a
 * family is a setting (architecture/settings.h). The list of families is DECK_FAMILIES (deck/deck.h). */
#ifndef ARCHITECTURE_FAMILY_H
#define ARCHITECTURE_FAMILY_H

#include "architecture/config_key.h"
#include "architecture/rope.h"

#include <stdbool.h>
#include <stdint.h>

/* Names of parameters in checkpoints and in DIALECT_HF, without "%d." and without ".weight" or ".bias", which follow by
 * kind; NULL: there is no such parameter. */
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

/* A published model. */
struct model_preset {
    const char *name;
    int64_t layers, hidden, ffn, heads, kv_heads, head_dim, vocabulary;
    bool tied;
    struct rope_settings rope;
    double init_std;
    double norm_eps;
    int64_t positions;  /* max_position_embeddings of its config.json */
    int64_t parameters; /* as published */
};

#define PLAIN_ROPE(base)                                                                                               \
    {                                                                                                                  \
        .theta = base                                                                                                  \
    }

enum extra_kind {
    EXTRA_FREQUENCIES, /* f32 [head_dim / 2]: the rotary frequencies */
    EXTRA_HEADS,       /* f32 [1, layers * heads]: zeros */
    EXTRA_ONE,         /* f32 [1]: zero */
};

/* A tensor that is not a parameter, which exports add unless import carried a tensor with `part` in its name. */
struct family_extra {
    const char *name; /* with %lld for the layer: one tensor for each */
    enum checkpoint_dialect dialect;
    enum extra_kind kind;
    const char *part;
};

/* What a parameter is of its tensor in DIALECT_TE. */
enum packed_part {
    PART_WHOLE,
    PART_TOKENS, /* whole: a row for each token, and perhaps more rows (CONFIG_TOKEN_ROWS) */
    PART_QUERY,
    PART_KEY,
    PART_VALUE,
    PART_GATE,
    PART_UP
};

/* The tensor of a parameter in DIALECT_TE. "weight" or "bias" follows both names. */
struct family_tensor {
    size_t plain; /* offset in struct family_names; a whole name there is that of a bias */
    const char *name;
    enum packed_part part;
};

/* DIALECT_TE. TransformerEngine names the tensors of a block and packs them (bridge/dialect.c). */
struct family_te {
    const char *file;                    /* of BioNeMo, below bionemo-recipes: the classes */
    const char *module;                  /* its name beside a model */
    const char *config, *model;          /* classes */
    const char *automatic;               /* transformers' class that stands for the architecture */
    const char *layer;                   /* of a block; its number and a point follow */
    const struct family_tensor *tensors; /* outside of blocks, where names differ */
    const char *older;                   /* beginning of names in older folders, where others have "model." */
    const char *const *ignored;          /* patterns of tensors that no output depends on */
    const char *lost;                    /* carried tensors that an export leaves out, for a warning */
};

/* Lists end with a NULL or with a row whose first field is NULL. A pointer that is NULL means none. */
struct family {
    const char *name;  /* in decks */
    const char *title; /* in messages */

    /* -- Blocks and head -- */
    bool layer_norm;    /* LayerNorm with bias, else RMSNorm */
    bool bias;          /* of the linear layers of a block */
    bool gelu;          /* the MLP is down(gelu(up)), else SwiGLU: down(silu(gate) * up) */
    bool causal;        /* a token sees those before it, and the next one is predicted; else all, and masked ones */
    bool interleaved;   /* rotary pairs are neighbours, else half a head apart */
    bool transform;     /* the head has dense, GELU (erf) and norm between the final norm and the decoder */
    bool decoder_bias;  /* the decoder has a bias */
    bool token_dropout; /* embeddings are scaled by the share of mask tokens (settings may turn it off) */
    bool uniform;       /* initial matrices are uniform in +-init_std, else normal */
    bool tied;          /* the decoder is the embedding unless settings say otherwise */
    int64_t zero_row;   /* of the embedding: starts as zeros; -1 = none */
    int64_t padding;    /* token that adds nothing to the embedding's gradient; -1 = none */
    const struct model_preset *presets;

    /* -- Tokens -- */
    const char *tokenizer;       /* of its published models, where this program has it */
    const char *learns_from;     /* the tokenizer of what it is trained on here */
    const char *tokenizer_class; /* of transformers, for vocab.txt and cls_token as BOS; NULL: tokenizer.json */

    /* -- config.json; NULL: the dialect has no classes for the family -- */
    const char *model_type[DIALECT_COUNT], *architecture[DIALECT_COUNT];
    const struct config_key *keys;
    int64_t extra_positions; /* positions that the class counts beside those of the longest sequence */

    /* -- Tensors -- */
    struct family_names names;
    const char *const *carried; /* patterns of tensors of DIALECT_HF that are not trained */
    const struct family_extra *extras;
    bool loads_frequencies; /* transformers computes with the rotary frequencies of the file, not with rope_theta */
    struct family_te te;
};

#define FAMILY_DECLARATION(name) extern const struct family family_##name;
DECK_FAMILIES(FAMILY_DECLARATION)

/* All families in the order of DECK_FAMILIES; NULL after the last. Decks without family and preset have the first. */
extern const struct family *const families[];

/* The family for a value of a deck's model.family other than DECK_FAMILY_PRESET, and the reverse. */
const struct family *family_of_choice(int choice);
int family_choice(const struct family *family);

/* The row of a key that is of a kind; NULL: config.json of this family has none. */
const struct config_key *family_key(const struct family *family, enum config_kind kind);
/* The row of a key that sets a field of struct deck, by its offset; likewise. */
const struct config_key *family_key_of(const struct family *family, size_t offset);

#endif
