/* The fields of a deck. A file that includes this header reads or changes keys: src/deck, src/setup, and the files that
 * tests/t_deck_readers.sh lists with a reason. */
#ifndef DECK_FIELDS_H
#define DECK_FIELDS_H

#include "deck/deck.h"

enum { DECK_STRING = 4096, DECK_MAXIMUM_KEYS = 192 };

/* Plain data without pointers, so it can be copied by assignment and sent as bytes between ranks of the same build. */
struct deck {
    struct {
        char preset[DECK_STRING], initialise_from[DECK_STRING];
        bool initialise_optimizer;
        int family;    /* enum deck_family */
        int objective; /* enum deck_objective */
        int64_t layers, hidden, ffn, heads, kv_heads, head_dim, vocabulary, positions;
        int64_t sliding_window, max_window_layers;
        int tied; /* enum deck_tied */
        bool attention_bias, mlp_bias;
        int64_t num_local_experts, num_experts_per_tok;
        double router_aux_loss_coef;
        int head; /* enum deck_head */
        int64_t num_labels;
        int problem_type; /* enum deck_problem */
        int pooling;      /* enum deck_pooling */
        char id2label[DECK_STRING];
        bool norm_zero_centered;
        int gelu; /* enum deck_gelu */
        bool token_dropout;
        double rope_theta, norm_eps, init_std;
        int rope_rounding; /* enum deck_rounding */
        bool scaled_init, spike_no_more;
        struct {
            int type; /* enum deck_rope */
            double factor, low, high;
            int64_t original;
            double attention_factor;
        } rope_scaling;
    } model;
    struct {
        int64_t steps, global_batch, micro_batch, seed;
        double epochs;
        char resume[DECK_STRING], walltime[DECK_STRING];
        bool reproducible;
        int64_t recheck_every;
        int on_divergence; /* enum deck_divergence */
        int freeze;        /* enum deck_freeze */
        char class_weights[DECK_STRING];
        double z_loss;
    } train;
    struct {
        int64_t rank;
        double alpha, dropout;
        char targets[DECK_STRING];
    } lora;
    struct {
        int kind; /* enum deck_optimizer */
        double lr, decoupled_lr, beta1, beta2, eps, weight_decay, clip;
        int decay; /* enum deck_decay */
        struct {
            double lr, momentum;
            bool nesterov;
            int64_t ns_steps;
            int adjust_lr_fn; /* enum deck_adjust_lr */
        } muon;
    } optimizer;
    struct {
        int kind; /* enum deck_schedule */
        int rule; /* enum deck_rule */
        int unit; /* enum deck_count */
        int64_t warmup, hold, decay;
        double min_ratio, decoupled_min_ratio;
    } schedule;
    struct {
        int source; /* enum deck_data */
        char train[DECK_STRING], weights[DECK_STRING], valid[DECK_STRING];
        char split_ratios[DECK_STRING], tokenizer[DECK_STRING];
        int order; /* enum deck_order */
        int64_t random_median, random_mean;
        int64_t row_tokens, window, overlap, max_segments;
        int format;         /* enum deck_format */
        int special_tokens; /* enum deck_special */
        bool bos, eos, truncate, split, mask_degenerate, uppercase_labels, shuffle, balance;
        double mask_probability, reverse_complement;
    } data;
    struct {
        int64_t every, rows, patience;
        int metric; /* enum deck_metric */
    } validation;
    struct {
        int64_t every, keep, keep_every, stripes;
        double every_minutes;
        bool keep_best, at_end, export_final, asynchronous;
        int on_failure; /* enum deck_failure */
    } checkpoint;
    struct {
        char folder[DECK_STRING];
    } output;
    struct {
        int64_t every;
        bool tensorboard;
        char prometheus[DECK_STRING];
    } log;
    struct {
        int64_t start, stop;
        char ranks[DECK_STRING];
        bool collectives;
    } profile;
    struct {
        int kind; /* enum deck_device */
        int64_t threads;
        double memory, peak;
        bool deterministic, graphs, share;
        int check; /* enum deck_check */
        char tuning_file[DECK_STRING], rates_file[DECK_STRING];
    } device;
    struct {
        double timeout;
    } comm;
    struct {
        int shard; /* enum deck_shard */
        int64_t shard_size;
        int reduce;    /* enum deck_reduce */
        int reduce_as; /* enum deck_compute */
        int64_t context;
        int context_method; /* enum deck_context */
        int64_t tensor;
        bool sequence;
        int64_t pipeline, virtual_stages;
        int pipeline_balance; /* enum deck_stages */
    } parallel;
    struct {
        int compute;          /* enum deck_compute */
        int recipe;           /* enum deck_recipe */
        int format;           /* enum deck_fp8 */
        int accumulate;       /* enum deck_accumulate */
        int weight_gradients; /* enum deck_weight_gradients */
        int weight_copies;    /* enum deck_weight_copies */
        bool masters;
        int gradients; /* enum deck_compute */
        int64_t first_layers_bf16, last_layers_bf16;
        char fp8_layers[DECK_STRING], fp4_layers[DECK_STRING], linears[DECK_STRING];
        bool head;
        double margin;
        int64_t history;
        int amax; /* enum deck_amax */
        bool power_of_two, stochastic_rounding, hadamard;
    } precision;
    struct {
        int64_t every, start, stop;
        char layers[DECK_STRING];
    } statistics;
    struct {
        int recompute; /* enum deck_recompute */
        char recompute_layers[DECK_STRING], offload_layers[DECK_STRING];
        char fitted_layers[DECK_STRING], fitted_offload[DECK_STRING];
        int64_t head_tokens, fitted_head_tokens, mlp_tokens;
    } memory;
    bool given[DECK_MAXIMUM_KEYS]; /* by row of the table: set by the file or an override; read with deck_given */
};

#endif
