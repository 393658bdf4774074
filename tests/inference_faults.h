/* Executors for tests of inference: the oracle, and the CPU executor with one injected fault in its launches. */
#ifndef TESTS_INFERENCE_FAULTS_H
#define TESTS_INFERENCE_FAULTS_H

#include "check.h"

#include "base/error.h"
#include "core/device.h"
#include "cpu/cpu.h"
#include "ref/reference.h"
#include "ref/wrapper.h"

/* BY_TOKENS: the results depend on the number of tokens of a batch, as GEMMs do of a library that chooses an algorithm
 * by the shape. */
enum inference_fault { NO_FAULT, NO_DROPOUT, ROPE_FORM, CAUSAL, POSITIONS, WRONG_ROWS, BY_TOKENS, INFERENCE_FAULTS };
static const char *const inference_fault_names[INFERENCE_FAULTS] = {"none",
                                                                    "token dropout's factor left out",
                                                                    "RoPE's other form",
                                                                    "causal attention",
                                                                    "positions run on",
                                                                    "logits of the next token",
                                                                    "results by the number of tokens"};

/* The executor that make_planted makes, and its fault. Destroy `cpu` after the run. */
static struct {
    enum inference_fault fault;
    struct wrapper wrapper;
    struct executor *cpu;
} planted;

static inline void plant_in_embedding(struct wrapper *wrapper, struct stream *stream, const void *args)
{
    static int32_t rows[1 << 16];
    struct embedding_forward_args a = *(const struct embedding_forward_args *)args;
    const int32_t *of = a.tokens.data;
    const bool head = !tensor_present(&a.scale); /* the head's rows */
    if (planted.fault == NO_DROPOUT)
        a.scale = (struct tensor){0};
    for (int64_t i = 0; i < a.tokens.cols && head && planted.fault == WRONG_ROWS; i++)
        rows[i] = (int32_t)((of[i] + 1) % a.weight.rows);
    if (head && planted.fault == WRONG_ROWS)
        a.tokens.data = rows;
    wrapper_pass(wrapper, stream, OP_EMBEDDING_FORWARD, &a);
}

static inline void plant_in_rope(struct wrapper *wrapper, struct stream *stream, const void *args)
{
    static int32_t positions[1 << 16];
    struct rope_args a = *(const struct rope_args *)args;
    a.interleaved ^= planted.fault == ROPE_FORM;
    for (int64_t t = 0; t < a.positions.cols; t++)
        positions[t] = (int32_t)(t % 256);
    if (planted.fault == POSITIONS)
        a.positions.data = positions;
    wrapper_pass(wrapper, stream, OP_ROPE, &a);
}

static inline void plant_fault(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args)
{
    if (op == OP_EMBEDDING_FORWARD) {
        plant_in_embedding(wrapper, stream, args);
    } else if (op == OP_ROPE) {
        plant_in_rope(wrapper, stream, args);
    } else if (op == OP_ATTENTION_FORWARD) {
        struct attention_forward_args a = *(const struct attention_forward_args *)args;
        a.causal |= planted.fault == CAUSAL;
        a.scale *= planted.fault == BY_TOKENS ? 1 + 1e-4F * (float)a.q.rows : 1;
        wrapper_pass(wrapper, stream, op, &a);
    } else {
        wrapper_pass(wrapper, stream, op, args);
    }
}

static inline int make_planted(struct executor **executor, const struct device_request *request)
{
    planted.cpu = cpu_executor_create(request->threads);
    wrapper_create(&planted.wrapper, planted.cpu, plant_fault, NULL);
    *executor = &planted.wrapper.executor;
    return ERROR_NONE;
}

static inline int make_oracle(struct executor **executor, const struct device_request *request)
{
    (void)request;
    *executor = reference_executor_create();
    return ERROR_NONE;
}

#endif
