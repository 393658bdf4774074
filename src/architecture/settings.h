/* What a model is: sizes, rotary settings, init rule; and the published sizes by name. */
#ifndef ARCHITECTURE_SETTINGS_H
#define ARCHITECTURE_SETTINGS_H

#include "core/launch.h"
#include "base/range.h"
#include "deck/deck.h"
#include "architecture/family.h"
#include "architecture/precision.h"
#include "architecture/recompute.h"
#include "architecture/rope.h"

#include <stdbool.h>
#include <stdint.h>

/* Context parallelism: how many ranks share a row, and how their attention sees all of it. */
struct row_cut {
    int ranks;                /* 0 and 1: none share one */
    enum deck_context method; /* where there are more: not DECK_CONTEXT_AUTO */
};

/* How many ranks have a part of each row. */
static inline int row_ranks(const struct row_cut *rows)
{
    return MAX(rows->ranks, 1);
}

/* Tensor parallelism: the ranks that have a part of each layer. With `sequence` each of them also has a part of the
 * tokens of what lies between linear layers: norms and the residual stream. */
struct layer_cut {
    int ranks; /* 0 and 1: no others */
    int rank;  /* this one's number */
    bool sequence;
};

static inline int layer_ranks(const struct layer_cut *layer)
{
    return MAX(layer->ranks, 1);
}

/* Pipeline parallelism: the model's units in stages * chunks slices that follow one another, of which stage s has those
 * of the numbers s, s + stages, s + 2 * stages, ...: its chunks. */
struct stage_cut {
    int stages; /* 0 and 1: every rank has all units */
    int stage;  /* this rank's */
    int chunks; /* of a stage */
    int deal;   /* enum deck_stages: what layers are dealt out by (architecture/stages.h) */
};

/* How many stages there are. */
static inline int stage_count(const struct stage_cut *cut)
{
    return MAX(cut->stages, 1);
}

struct model_settings {
    const struct family *family;
    int64_t layers, hidden, ffn, heads, kv_heads, head_dim, vocabulary;
    bool tied;               /* the head's matrix is the embedding's */
    bool norm_zero_centered; /* gains of norms are kept, as parameters, as their distance from 1 */
    bool tanh_gelu;          /* blocks of a family with GELU use its tanh form */
    bool token_dropout;      /* of a family that has it */
    struct rope_settings rope;
    double norm_eps;
    double init_std;                                     /* matrices; the bound of a family with uniform ones */
    double embedding_std;                                /* the embedding */
    double output_std;                                   /* attention and MLP output projections */
    bool decay_matrices, decay_vectors, decay_embedding; /* which parameters weight decay reaches */
    bool decoupled; /* matrices of embedding and head have a learning rate of their own */
    struct row_cut rows;
    struct layer_cut layer;
    struct stage_cut cut;
    /* A step has one micro-batch, on this rank alone, and gradients are kept as bf16: so ops make them. */
    bool rounds_gradients;
    int embedding_ranks; /* that make the embedding's gradient of what they gather; 0 and 1: it is summed over ranks */
    struct precision precision; /* of the blocks' linear layers; zeros: all compute in the compute type */
    struct recompute recompute; /* of the blocks' backward */
};

/* What this rank has of a layer's query heads, key and value heads, and hidden width of the MLP. */
static inline int64_t model_heads(const struct model_settings *settings)
{
    return settings->heads / layer_ranks(&settings->layer);
}

static inline int64_t model_kv_heads(const struct model_settings *settings)
{
    const int ranks = layer_ranks(&settings->layer);
    return settings->kv_heads > ranks ? settings->kv_heads / ranks : 1;
}

static inline int64_t model_ffn(const struct model_settings *settings)
{
    return settings->ffn / layer_ranks(&settings->layer);
}

/* What this rank has of the vocabulary: the tokens first .. first + rows - 1. Where it does not divide, the first ranks
 * have one row more; `most` is what any rank has at most. */
struct vocabulary_part {
    int64_t first, rows, most;
};

static inline struct vocabulary_part model_vocabulary(const struct model_settings *settings)
{
    const int64_t ranks = layer_ranks(&settings->layer), rank = settings->layer.rank;
    const int64_t rows = settings->vocabulary / ranks, more = settings->vocabulary % ranks;
    return (struct vocabulary_part){rank * rows + MIN(rank, more), rows + (rank < more), rows + (more > 0)};
}

/* Can the ranks of the cut divide the layers and the vocabulary? ERROR_USER; name: of what has set the ranks. */
int layer_cut_check(const struct model_settings *settings, const char *name);
/* How many of the ranks have the same key and value heads. */
int layer_cut_alike(const struct model_settings *settings);

/* Are all sizes given, possible, and do they fit each other? ERROR_USER, naming the key. */
int model_settings_check_sizes(const struct model_settings *settings);

/* Can the executor compute it? ERROR_USER, naming the key. */
int model_settings_check(const struct model_settings *settings, const struct executor *executor);

/* Elements of all parameters, a tied head counted once. */
int64_t model_parameter_count(const struct model_settings *settings);

/* Elements of the matrices that each token is multiplied with: all but the embedding as a table. */
double model_matrix_elements(const struct model_settings *settings);

#endif
