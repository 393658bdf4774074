/* Settings of a model, with checks and derived counts. */
#ifndef ARCHITECTURE_SETTINGS_H
#define ARCHITECTURE_SETTINGS_H

#include "core/launch.h"
#include "base/range.h"
#include "deck/deck.h"
#include "architecture/family.h"
#include "architecture/lora.h"
#include "architecture/precision.h"
#include "architecture/recompute.h"
#include "architecture/rope.h"

#include <stdbool.h>
#include <stdint.h>

/* Context parallelism: the number of ranks that share a row, and the method of their attention. */
struct context_parallel {
    int ranks;                /* 0 and 1: no context parallelism */
    enum deck_context method; /* not DECK_CONTEXT_AUTO, with more than one rank; unused with `cache` */
    bool cache;               /* generation: the ranks share the key-value cache instead, and have the same rows */
};

/* Returns the number of ranks that share a row. */
static inline int context_ranks(const struct context_parallel *context)
{
    return MAX(context->ranks, 1);
}

/* Tensor parallelism: the ranks that have a part of each layer. sequence: sequence parallelism, each rank has a part of
 * the tokens between linear layers (norms, residual stream). */
struct tensor_parallel {
    int ranks; /* 0 and 1: no tensor parallelism */
    int rank;  /* number of this rank */
    bool sequence;
};

static inline int tensor_ranks(const struct tensor_parallel *tensor)
{
    return MAX(tensor->ranks, 1);
}

/* Pipeline parallelism: the units are divided into stages * chunks consecutive slices. A stage has the slices whose
 * number modulo `stages` is its own: its model chunks. */
struct pipeline_parallel {
    int stages;  /* 0 and 1: no pipeline */
    int stage;   /* stage of this rank */
    int chunks;  /* number of chunks of a stage */
    int balance; /* enum deck_stages: how layers are balanced over slices (architecture/stages.h) */
};

static inline int stage_count(const struct pipeline_parallel *pipeline)
{
    return MAX(pipeline->stages, 1);
}

/* A fine-tuning head (model/task_head.h), which replaces the language-model head. */
struct task_settings {
    enum deck_head head;       /* DECK_HEAD_LM: a language model; DECK_HEAD_NONE: the final norm alone. Then the other
                                  fields are zero */
    enum deck_problem problem; /* DECK_HEAD_TOKEN: classification */
    enum deck_pooling pooling; /* DECK_HEAD_SEQUENCE: not DECK_POOLING_AUTO */
    int64_t labels;            /* classes, or numbers of a sequence */
};

struct model_settings {
    const struct family *family;
    enum deck_objective objective; /* see model_causal */
    struct {
        bool given;
        int64_t id; /* -1: none */
    } pad;          /* the padding token of the data's tokenizer; not given: the family's tokenizer is used */
    int64_t layers, hidden, ffn, heads, kv_heads, head_dim, vocabulary;
    int64_t sliding_window;      /* of attention (see model_window); 0: none; causal models only */
    int64_t max_window_layers;   /* the first layers, which have no window */
    int64_t experts;             /* of each block, each an MLP of width ffn (model/experts.h); 0: an MLP */
    int64_t experts_per_token;   /* that the router chooses; 0 without experts */
    double router_aux_loss_coef; /* weight of the auxiliary loss that balances the experts' load; 0: none */
    double z_loss;               /* weight of log^2 Z in the language-model head's gradient; 0: none */
    struct task_settings task;
    bool tied;                /* the head's matrix is the embedding's; not with a task head */
    bool attention_bias;      /* biases of q, k, v and o, in addition to the family's */
    bool mlp_bias;            /* biases of the MLP's linear layers, in addition to the family's */
    bool norm_zero_centered;  /* norm weights are stored as their difference from 1 */
    bool tanh_gelu;           /* blocks of a family with GELU use its tanh form */
    bool token_dropout;       /* only in a family with token dropout */
    double label_probability; /* masked training: the share of tokens with labels, and the head computes only their rows
                                 (data/labelled_rows.h); 0: all rows */
    int64_t mlp_tokens;       /* tokens of a slice of the MLP; 0: it computes all at once (model/block.h) */
    struct rope_settings rope;
    double norm_eps;
    double init_std;      /* standard deviation (bound, if uniform) of matrices */
    double embedding_std; /* standard deviation of the embedding */
    double output_std;    /* standard deviation of attention and MLP output projections */
    bool decay_matrices, decay_vectors, decay_embedding; /* parameters with weight decay */
    /* Parameters that are not trained; with LoRA the trunk is frozen in any case (model_trains_head). */
    enum deck_freeze freeze;
    struct lora_settings lora;
    bool decoupled; /* matrices of embedding and head have a learning rate of their own */
    bool muon;      /* the optimizer of the blocks' matrices is Muon; all else has AdamW */
    struct context_parallel context;
    struct tensor_parallel tensor;
    struct pipeline_parallel pipeline;
    /* Ops write and add to bf16 gradients. Possible if gradients are stored as bf16, and not sharded. */
    bool rounds_gradients;
    int embedding_ranks; /* ranks that each compute the whole embedding gradient (model/embedding.h); 0 and 1: it is
                            summed over ranks */
    struct precision precision; /* zeros: all compute in the compute type */
    struct recompute recompute; /* recompute policy of the blocks */
};

/* Returns whether a token sees earlier tokens only, and the next one is predicted; else a token sees all, and masked
 * tokens are predicted. */
static inline bool model_causal(const struct model_settings *settings)
{
    return settings->objective == DECK_OBJECTIVE_FAMILY ? settings->family->causal
                                                        : settings->objective == DECK_OBJECTIVE_CAUSAL;
}

/* Returns the number of keys that a query of a layer sees at most; 0: no limit. */
static inline int64_t model_window(const struct model_settings *settings, int64_t layer)
{
    return layer >= settings->max_window_layers ? settings->sliding_window : 0;
}

/* Returns whether any layer has a sliding window. */
static inline bool model_has_window(const struct model_settings *settings)
{
    return settings->layers > 0 && model_window(settings, settings->layers - 1) > 0;
}

/* Returns whether the head is trained: with LoRA only a fine-tuning head, unless train.freeze asks for it. */
static inline bool model_trains_head(const struct model_settings *settings)
{
    return settings->lora.rank == 0 || settings->freeze == DECK_FREEZE_TRUNK || settings->task.head != DECK_HEAD_LM;
}

/* Returns the factor by which the residual stream is larger than the published model's, whose blocks compute x + f(x) /
 * factor; 1 unless the family scales residuals. The embedding is multiplied by it, and since a norm of the stream
 * divides it out again, but for its epsilon, the blocks need not divide: norm_eps * factor^2 is the epsilon of these
 * norms. */
double model_stream_factor(const struct model_settings *settings);

/* Return the token that adds nothing to the embedding's gradient, and the row of the embedding that is initially zero;
 * -1: none. In a family that has one, it is the padding token. */
static inline int64_t model_padding(const struct model_settings *settings)
{
    return settings->family->padding >= 0 && settings->pad.given ? settings->pad.id : settings->family->padding;
}

static inline int64_t model_zero_row(const struct model_settings *settings)
{
    return settings->family->zero_row >= 0 && settings->pad.given ? settings->pad.id : settings->family->zero_row;
}

/* Return this rank's number of query heads, key and value heads, and MLP columns of a layer. */
static inline int64_t model_heads(const struct model_settings *settings)
{
    return settings->heads / tensor_ranks(&settings->tensor);
}

static inline int64_t model_kv_heads(const struct model_settings *settings)
{
    const int ranks = tensor_ranks(&settings->tensor);
    return settings->kv_heads > ranks ? settings->kv_heads / ranks : 1;
}

static inline int64_t model_ffn(const struct model_settings *settings)
{
    return settings->ffn / tensor_ranks(&settings->tensor);
}

/* Returns the number of experts that this rank stores of each layer; each tensor rank has the same number. */
static inline int64_t model_experts(const struct model_settings *settings)
{
    return settings->experts / tensor_ranks(&settings->tensor);
}

/* This rank's part of the vocabulary: tokens first .. first + rows - 1. If it does not divide evenly, the first ranks
 * have one row more; `most` is the maximum over ranks. */
struct vocabulary_part {
    int64_t first, rows, most;
};

static inline struct vocabulary_part model_vocabulary(const struct model_settings *settings)
{
    const int64_t ranks = tensor_ranks(&settings->tensor), rank = settings->tensor.rank;
    const int64_t rows = settings->vocabulary / ranks, more = settings->vocabulary % ranks;
    return (struct vocabulary_part){rank * rows + MIN(rank, more), rows + (rank < more), rows + (more > 0)};
}

/* Checks that layers and vocabulary can be split over the tensor ranks. ERROR_USER; name: the key that set their
 * number. */
int tensor_parallel_check(const struct model_settings *settings, const char *name);
/* Returns the number of kv replicas: tensor ranks with the same key and value heads. */
int model_kv_replicas(const struct model_settings *settings);

/* Checks that all sizes are given, valid and consistent. ERROR_USER names the key. */
int model_settings_check_sizes(const struct model_settings *settings);

/* Checks that the executor can compute the model. ERROR_USER names the key. */
int model_settings_check(const struct model_settings *settings, const struct executor *executor);

/* Returns whether a linear layer of the blocks (LINEAR_QKV, ...) has a bias. */
bool model_has_bias(const struct model_settings *settings, int linear);

/* Returns the numbers that a regression predicts for each sequence; 0: the model learns classes or tokens. */
static inline int64_t model_numbers(const struct model_settings *settings)
{
    return settings->task.problem == DECK_PROBLEM_REGRESSION ? settings->task.labels : 0;
}

/* Returns whether the head computes a compact matrix of rows (data/labelled_rows.h), not one of all tokens. */
static inline bool model_selects_rows(const struct model_settings *settings)
{
    return settings->label_probability > 0 || settings->task.head == DECK_HEAD_SEQUENCE;
}

/* Returns the elements of all parameters but adapters, a tied head counted once. */
int64_t model_parameter_count(const struct model_settings *settings);
/* Returns the elements of all adapters; 0 without LoRA. */
int64_t model_adapter_count(const struct model_settings *settings);
/* Returns the elements of the parameters whose optimizer is Muon. */
int64_t model_muon_count(const struct model_settings *settings);
/* Returns the elements of all parameters that are not frozen, adapters included. */
int64_t model_trained_count(const struct model_settings *settings);

/* Returns the elements of the matrices that each token is multiplied with: all but the embedding as a table, the head
 * of sequences, and experts that are not the token's. */
double model_matrix_elements(const struct model_settings *settings);
/* As model_matrix_elements, of the head only. */
double model_head_elements(const struct model_settings *settings);

#endif
