/* A toy training on the oracle, for tests of checkpoints and the like: makes, trains and compares it. */
#ifndef TESTS_TINY_TRAINING_H
#define TESTS_TINY_TRAINING_H

#include "ref/reference.h"
#include "ref/toy.h"

#include <string.h>

struct training {
    struct executor *executor;
    struct group *group;
    struct toy toy;
};

static inline void training_create(struct training *t, struct comm *comm, const struct model_settings *settings,
                                   enum dtype compute)
{
    t->executor = reference_executor_create();
    t->group = comm_group_create(comm, NULL, "data");
    struct toy_options options = toy_options(t->executor);
    options.settings = *settings;
    options.group = t->group;
    options.compute = compute;
    options.recompute = DECK_RECOMPUTE_NORMS;
    options.rows = 1;
    toy_create(&t->toy, &options);
}

static inline void training_destroy(struct training *t)
{
    toy_destroy(&t->toy);
    comm_group_destroy(t->group);
    t->executor->class->destroy(t->executor);
}

/* Trains on random tokens, which differ between ranks; returns the last loss. */
static inline double train(struct training *t, int steps)
{
    struct schedule schedule = schedule_create(1, 1, false);
    double loss = 0;
    for (int s = 0; s < steps; s++) {
        struct batch batch;
        toy_batch(&batch, 1, 48, (uint64_t)engine_updates(&t->toy.engine) * 64 + (uint64_t)t->group->rank);
        struct engine_result result = engine_step(&t->toy.engine, &schedule, &batch, 1e-2);
        loss = result.loss_sum / result.labels;
        batch_destroy(&batch);
    }
    schedule_destroy(&schedule);
    return loss;
}

/* Compares the bits of weights and moments parameter by parameter, without padding. */
static inline bool same_bits(struct engine *a, struct engine *b)
{
    bool same = true;
    for (int u = 0; u < a->model->unit_count; u++) {
        struct unit *unit = &a->model->units[u];
        for (int i = 0; i < unit->parameter_count; i++) {
            const struct parameter *p = &unit->parameters[i];
            struct store_shard x = a->store->class->shard(a->store, unit, p->storage);
            struct store_shard y = b->store->class->shard(b->store, &b->model->units[u], p->storage);
            const struct tensor *const pairs[][2] = {
                {&x.weight.value, &y.weight.value}, {&x.weight.low, &y.weight.low}, {&x.m, &y.m}, {&x.v, &y.v}};
            for (int k = 0; k < 4; k++)
                if (tensor_present(pairs[k][0]))
                    same &= memcmp(tensor_at(pairs[k][0], 0, p->offset), tensor_at(pairs[k][1], 0, p->offset),
                                   (size_t)(p->part.rows * p->part.cols * dtype_size(pairs[k][0]->dtype))) == 0;
        }
    }
    return same;
}

#endif
