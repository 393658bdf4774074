/* A family of models as data: its differences from other families. One file, family_NAME.c, defines a family: the form
 * of its blocks and head, published sizes, parameter names, config.json, and tensors in both dialects. All other code
 * interprets these rows and names no family. Settings that vary within a family are in architecture/settings.h. The
 * list of families is DECK_FAMILIES (deck/deck.h). */
#ifndef ARCHITECTURE_FAMILY_H
#define ARCHITECTURE_FAMILY_H

#include "architecture/config_key.h"
#include "architecture/precision.h"
#include "architecture/rope.h"

#include <stdbool.h>
#include <stdint.h>

/* Names of parameters in checkpoints and in DIALECT_HF, without layer number and without ".weight" or ".bias"; NULL:
 * the family does not have the parameter. */
struct family_names {
    const char *embedding;
    const char *layer; /* prefix of a block's parameters, q to norm2, with %d for the layer */
    const char *q, *k, *v, *o;
    const char *gate, *up; /* gate NULL: up has all rows, with SwiGLU the gate's first */
    const char *down;
    const char *router;          /* of a mixture of experts; gate, up and down then have %d for the expert */
    const char *norm1, *norm2;   /* norms of attention and of the MLP */
    const char *q_norm, *k_norm; /* norms of q and k (QK norm) */
    const char *final_norm;
    const char *dense, *head_norm; /* the head's transform */
    const char *decoder;           /* the head's matrix, unless tied */
    const char *decoder_bias;      /* the whole name */
};

/* The linear layers of a fine-tuning head, as transformers' class has them: [dense, tanh,] output. DECK_HEAD_NONE: the
 * class of the model without a head, which has neither. */
struct family_task {
    const char *architecture; /* class of DIALECT_HF; NULL: the family has no such head */
    const char *dense;        /* with a bias; NULL: none */
    const char *output;       /* NULL: none */
    bool bias;                /* of the output layer */
};

struct model_preset {
    const char *name;
    int64_t layers, hidden, ffn, heads, kv_heads, head_dim, vocabulary;
    bool tied;
    struct rope_settings rope;
    double init_std;
    double norm_eps;
    int64_t positions;  /* max_position_embeddings in its config.json */
    int64_t parameters; /* as published */
};

/* The sliding window of a preset. */
struct preset_window {
    const char *preset;
    int64_t tokens;
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

/* A tensor that is not a parameter. Exports add it unless import carried a tensor with `part` in its name. */
struct family_extra {
    const char *name; /* with %lld for the layer: one tensor per layer */
    enum checkpoint_dialect dialect;
    enum extra_kind kind;
    const char *part;
};

/* The part of a DIALECT_TE tensor that a parameter is. */
enum packed_part {
    PART_WHOLE,
    PART_TOKENS, /* whole; one row for each token, and perhaps more rows (CONFIG_TOKEN_ROWS) */
    PART_QUERY,
    PART_KEY,
    PART_VALUE,
    PART_GATE,
    PART_UP
};

/* The tensor of a parameter in DIALECT_TE. Both names are followed by ".weight" or ".bias". */
struct family_tensor {
    size_t plain; /* offset in struct family_names; a whole name in that struct is the name of a bias */
    const char *name;
    enum packed_part part;
};

/* DIALECT_TE: TransformerEngine has its own names for a block's tensors, and packs them (bridge/dialect.c). */
struct family_te {
    const char *file;                    /* BioNeMo's file with the classes, below bionemo-recipes */
    const char *module;                  /* the file's name in a model's folder */
    const char *config, *model;          /* class names */
    const char *automatic;               /* transformers' Auto class of the architecture */
    const char *layer;                   /* prefix of a block; its number and a point follow */
    const struct family_tensor *tensors; /* tensors outside of blocks whose names differ from DIALECT_HF */
    const char *older;                   /* prefix of names in older folders, instead of "model." */
    const char *const *ignored;          /* patterns of tensors on which no output depends */
    const char *lost;                    /* carried tensors that an export omits, for a warning */
};

/* A family. Lists end with NULL, or with a row whose first field is NULL. A NULL pointer means none. */
struct family {
    const char *name;  /* in decks */
    const char *title; /* in messages */

    /* -- Blocks and head -- */
    bool layer_norm;          /* LayerNorm with bias, else RMSNorm */
    bool final_norm_unbiased; /* the LayerNorm before the head has no bias */
    bool post_norm; /* norms are of the outputs of attention and MLP, before these are added; else of their inputs */
    bool whole_qk_norm;   /* norms of q and k are over all heads, LayerNorms without bias or RMSNorms; else RMSNorms of
                             each   head */
    bool scaled_residual; /* outputs of attention and MLP are divided by sqrt(layers / 36) before they are added */
    bool bias[LINEAR_COUNT]; /* linear layers of a block that always have biases; settings may add to them */
    bool gelu;               /* the MLP is down(gelu(up)), else SwiGLU: down(silu(gate) * up) */
    bool causal; /* the objective unless settings say otherwise (model_causal, settings.h): true causal, false masked */
    bool interleaved;   /* rotary pairs are adjacent elements, else half a head apart */
    bool transform;     /* the head has dense, GELU (erf) and norm between the final norm and the decoder */
    bool decoder_bias;  /* the decoder has a bias */
    bool token_dropout; /* embeddings are scaled by the share of mask tokens (settings may turn it off) */
    bool uniform;       /* initial matrices are uniform in +-init_std, else normal */
    bool tied;          /* the decoder is the embedding's matrix, unless settings say otherwise */
    int64_t zero_row;   /* row of the embedding that is initially zero; -1 = none */
    int64_t padding;    /* token that adds nothing to the embedding's gradient; -1 = none */
    int64_t experts, experts_per_token; /* of a mixture of experts, unless settings say otherwise; 0: an MLP */
    const struct model_preset *presets;
    const struct preset_window *windows; /* of the presets that have one */

    /* -- Tokens -- */
    const char *tokenizer;       /* tokenizer of its published models, if this program has it */
    const char *learns_from;     /* tokenizer whose special ids random data has, and that messages propose */
    const char *tokenizer_class; /* transformers' class, for vocab.txt and cls_token as BOS; NULL: tokenizer.json */

    /* -- config.json; NULL: the dialect has no classes for the family -- */
    const char *model_type[DIALECT_COUNT], *architecture[DIALECT_COUNT];
    const char *mark; /* a key that tells its config.json from that of another family with this model_type; NULL: none.
                         A file with the key needs no model_type */
    const struct config_key *keys;
    int64_t extra_positions; /* positions that the class counts in addition to those of the longest sequence */

    /* -- Tensors -- */
    struct family_names names;
    struct family_task task[DECK_HEADS];
    const char *const *carried; /* patterns of DIALECT_HF tensors that are not trained */
    const struct family_extra *extras;
    bool loads_frequencies; /* transformers uses the rotary frequencies of the file, not rope_theta */
    struct family_te te;
};

#define FAMILY_DECLARATION(name) extern const struct family family_##name;
DECK_FAMILIES(FAMILY_DECLARATION)

/* All families in the order of DECK_FAMILIES, NULL after the last. Decks without family and preset use the first. */
extern const struct family *const families[];

/* Return the family of a value of model.family other than DECK_FAMILY_PRESET, and the reverse. */
const struct family *family_of_choice(int choice);
int family_choice(const struct family *family);

/* Returns the config.json row of a kind; NULL: there is none. */
const struct config_key *family_key(const struct family *family, enum config_kind kind);
/* Returns the config.json row of a field of struct deck, by its offset; NULL: there is none. */
const struct config_key *family_key_of(const struct family *family, size_t offset);

#endif
