/* Rows of a family's config.json. A row is a key, its meaning, and its treatment by import and export
 * (bridge/config_read.c, bridge/config_write.c). Exports write keys in the order of the rows. A missing key means the
 * default of the configuration class in transformers or BioNeMo, as does null unless the row accepts null. */
#ifndef ARCHITECTURE_CONFIG_KEY_H
#define ARCHITECTURE_CONFIG_KEY_H

#include "deck/deck.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The library whose classes read a Hugging Face folder: transformers, or BioNeMo with TransformerEngine's layers. */
enum checkpoint_dialect { DIALECT_HF, DIALECT_TE, DIALECT_COUNT };

enum config_kind {
    CONFIG_FIXED,       /* import accepts one value, exports write it */
    CONFIG_CHECKED,     /* import accepts one value, or two; exports leave the key out */
    CONFIG_CONSTANT,    /* import ignores the key, exports write one value */
    CONFIG_SIZE,        /* a positive whole number: an int64_t of the deck */
    CONFIG_REAL,        /* a positive number: a double of the deck */
    CONFIG_COPY,        /* as CONFIG_REAL, but import ignores the key, because another row reads this number */
    CONFIG_WEIGHT,      /* a number of 0 or more: a double of the deck */
    CONFIG_FLAG,        /* a bool of the deck */
    CONFIG_GATED,       /* model.ffn is two thirds of this number, rounded up to a multiple of `multiple` */
    CONFIG_TIED,        /* model.tied; a missing key means the family's default */
    CONFIG_ROPE,        /* rope_theta, rope_scaling and rope_parameters as transformers 4 and 5 write them */
    CONFIG_GELU,        /* this program's own key for model.gelu: transformers' class only has erf GELU; TE's is tanh */
    CONFIG_TOKEN,       /* an id of the model's tokenizer, null if unknown; import checks it if the row has `allowed` */
    CONFIG_CAUSAL,      /* bool: model.objective is causal */
    CONFIG_WINDOW,      /* model.sliding_window; null: none. With CONFIG_USES_WINDOW's row it counts if that is true */
    CONFIG_USES_WINDOW, /* bool, missing: false */
    CONFIG_WINDOW_LAYERS, /* model.max_window_layers, with a window; import also compares layer_types */
    CONFIG_ENDS,          /* end tokens: carried from import to export, in this file and in generation_config.json */
    CONFIG_CLASSES,       /* export: auto_map with the classes of DIALECT_TE */
    CONFIG_TOKEN_ROWS,    /* number of rows of DIALECT_TE's tensors with a row for each token: the vocabulary or more */
};

enum config_scope { CONFIG_BOTH, CONFIG_HF, CONFIG_TE };

struct config_key {
    const char *key;
    enum config_kind kind;
    enum config_scope scope; /* dialects that have the key */
    size_t offset;           /* in struct deck; CONFIG_TOKEN: in struct tokenizer */
    double number;           /* default of a number or bool; 0: the deck's rule for a missing key */
    int64_t multiple;
    const char *allowed, *also; /* accepted values, in JSON; also NULL: one value only */
    const char *missing;        /* the default, in JSON */
};

#define FIXED_KEY(name, value, otherwise)                                                                              \
    {                                                                                                                  \
        .key = name, .kind = CONFIG_FIXED, .allowed = value, .missing = otherwise                                      \
    }
#define CONSTANT_KEY(name, value)                                                                                      \
    {                                                                                                                  \
        .key = name, .kind = CONFIG_CONSTANT, .allowed = value                                                         \
    }
#define TOKEN_KEY(name, role)                                                                                          \
    {                                                                                                                  \
        .key = name, .kind = CONFIG_TOKEN, .offset = offsetof(struct tokenizer, role)                                  \
    }
/* allowed: the id in the family's tokenizer, checked where the vocabulary has that tokenizer's size. */
#define OWN_TOKEN_KEY(name, role, id, otherwise)                                                                       \
    {                                                                                                                  \
        .key = name, .kind = CONFIG_TOKEN, .offset = offsetof(struct tokenizer, role), .allowed = id,                  \
        .missing = otherwise                                                                                           \
    }
#define DECK_KEY(name, is, field, otherwise)                                                                           \
    {                                                                                                                  \
        .key = name, .kind = is, .offset = offsetof(struct deck, field), .number = otherwise                           \
    }
#define SIZE_KEY(name, field, otherwise) DECK_KEY(name, CONFIG_SIZE, field, otherwise)
#define REAL_KEY(name, field, otherwise) DECK_KEY(name, CONFIG_REAL, field, otherwise)

/* Returns whether the row applies in the dialect. */
bool config_key_in(const struct config_key *row, enum checkpoint_dialect dialect);

/* Returns the ffn that CONFIG_GATED computes from its number. */
int64_t config_gated_ffn(int64_t size, int64_t multiple);

#endif
