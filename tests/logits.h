/* Computes the logits of a checkpoint's model on the CPU. */
#ifndef TESTS_LOGITS_H
#define TESTS_LOGITS_H

#include "base/memory.h"
#include "cpu/cpu.h"
#include "loader/masking.h"
#include "infer/inference.h"
#include "model/lm_head.h"
#include "tests/ref/reference.h"

static inline double *logits_read(const struct engine *engine, int64_t tokens)
{
    const struct unit *head = model_head(engine->model);
    const int64_t vocabulary = engine->model->settings.vocabulary;
    struct tensor logits = unit_tensor(&engine->execution, head, LM_HEAD_LOGITS);
    double *out = memory_grow(NULL, tokens * vocabulary * (int64_t)sizeof *out);
    for (int64_t t = 0; t < tokens; t++)
        for (int64_t v = 0; v < vocabulary; v++)
            out[t * vocabulary + v] = reference_load(&logits, t, v);
    return out;
}

/* Computes the logits of a batch of one row: *out, [row_tokens, *vocabulary], freed with free(). Errors of
 * inference_open and inference_start. */
static inline int logits_compute(const char *checkpoint, struct batch *batch, double **out, int64_t *vocabulary)
{
    struct comm *self = comm_self();
    struct inference inference;
    double *losses = memory_allocate(batch->row_tokens * (int64_t)sizeof *losses);
    int code = inference_open(&inference, self, checkpoint, cpu_executor_make);
    *out = NULL;
    if (code == ERROR_NONE && inference.setup.model.token_dropout)
        for (int64_t s = 0; s < batch->max_segments; s++)
            masking_scale(inference.tokenizer, batch->tokens + batch->segment_start[s], batch->segment_length[s],
                          batch->scale + batch->segment_start[s]);
    if (code == ERROR_NONE) {
        inference_lay_out(&inference, &(struct inference_shape){.use = MEMORY_EVALUATE,
                                                                .tokens = batch->row_tokens,
                                                                .segments = batch->max_segments});
        code = inference_start(&inference);
    }
    if (code == ERROR_NONE) {
        engine_score(&inference.engine, batch, losses);
        *vocabulary = inference.setup.model.vocabulary;
        *out = logits_read(&inference.engine, batch->row_tokens);
    }
    inference_close(&inference);
    comm_destroy(self);
    memory_free(losses);
    return code;
}

#endif
