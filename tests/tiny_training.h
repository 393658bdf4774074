/* A tiny Llama in training on the oracle, for tests of what surrounds a training: made, stepped, compared. */
#ifndef TESTS_TINY_TRAINING_H
#define TESTS_TINY_TRAINING_H

#include "ref/reference.h"

#include "base/random.h"
#include "comm/comm.h"
#include "step/engine.h"

#include <string.h>

enum { ROWS = 1, ROW_TOKENS = 32, SEGMENTS = 2, VOCABULARY = 48 };

struct training {
    struct executor *executor;
    struct model model;
    struct group *group;
    struct engine engine;
};

static inline struct model_settings tiny(bool tied)
{
    return (struct model_settings){.layers = 2,
                                   .hidden = 24,
                                   .ffn = 40,
                                   .heads = 4,
                                   .kv_heads = 2,
                                   .head_dim = 6,
                                   .vocabulary = VOCABULARY,
                                   .tied = tied,
                                   .rope = {.theta = 10000.0},
                                   .norm_eps = 1e-5,
                                   .init_std = 0.02,
                                   .embedding_std = 0.02,
                                   .output_std = 0.02,
                                   .decay_matrices = true};
}

static inline void training_create(struct training *t, struct comm *comm, const struct model_settings *settings,
                                   enum dtype compute)
{
    t->executor = reference_executor_create();
    t->group = comm_group_create(comm, "data");
    model_create(&t->model, settings, ROWS * ROW_TOKENS, ROW_TOKENS);
    struct engine_settings s = {
        .memory = {.compute = compute,
                   .statistic = DTYPE_F32,
                   .slots = 1,
                   .recompute = DECK_RECOMPUTE_NORMS,
                   .rows = ROWS,
                   .row_tokens = ROW_TOKENS,
                   .max_segments = SEGMENTS},
        .optimizer = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1, .clip = 1.0}};
    engine_create(&t->engine, t->executor, &t->model, t->group, &s);
}

static inline void training_destroy(struct training *t)
{
    engine_destroy(&t->engine);
    model_destroy(&t->model);
    comm_group_destroy(t->group);
    t->executor->class->destroy(t->executor);
}

/* Steps on random tokens, other ones on each rank; returns the last loss. */
static inline double train(struct training *t, int steps)
{
    struct batch batch;
    struct schedule schedule = schedule_create(1, 1, false);
    double loss = 0;
    batch_create(&batch, ROWS, ROW_TOKENS, SEGMENTS);
    for (int s = 0; s < steps; s++) {
        struct random_key key = {11, RANDOM_TEST, (uint64_t)t->engine.updates * 64 + (uint64_t)t->group->rank};
        batch_clear(&batch, 0);
        batch.segment_start[1] = batch.segment_length[0] = 13;
        batch.segment_length[1] = ROW_TOKENS - 13;
        for (int i = 0; i < ROW_TOKENS; i++) {
            batch.tokens[i] = (int32_t)(random_bits(&key, (uint64_t)i) % VOCABULARY);
            batch.positions[i] = i < 13 ? i : i - 13;
            batch.labels[i] = i % 5 == 0 ? BATCH_IGNORED : (batch.tokens[i] * 3 + 1) % VOCABULARY;
            batch.valid += i % 5 != 0;
        }
        batch.real = ROW_TOKENS;
        struct engine_result result = engine_step(&t->engine, &schedule, &batch, 1e-2);
        loss = result.loss_sum / result.labels;
    }
    schedule_destroy(&schedule);
    batch_destroy(&batch);
    return loss;
}

/* Bits of weights, moments and compute copies, compared parameter by parameter; padding is nobody's. */
static inline bool same_bits(struct engine *a, struct engine *b)
{
    bool same = true;
    for (int u = 0; u < a->model->unit_count; u++) {
        struct unit *unit = &a->model->units[u];
        for (int i = 0; i < unit->parameter_count; i++) {
            const struct parameter *p = &unit->parameters[i];
            struct shard x = a->store->class->shard(a->store, unit, p->storage);
            struct shard y = b->store->class->shard(b->store, &b->model->units[u], p->storage);
            const struct tensor *const pairs[][2] = {
                {&x.weight, &y.weight}, {&x.m, &y.m}, {&x.v, &y.v}, {&x.copy, &y.copy}};
            for (int k = 0; k < 4; k++)
                if (tensor_present(pairs[k][0]))
                    same &= memcmp(tensor_at(pairs[k][0], 0, p->offset), tensor_at(pairs[k][1], 0, p->offset),
                                   (size_t)(p->rows * p->cols * dtype_size(pairs[k][0]->dtype))) == 0;
        }
    }
    return same;
}

#endif
