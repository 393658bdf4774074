/* Forward passes whose results go to the host: losses of tokens, vectors, logits of a sequence that grows. */
#include "base/error.h"
#include "base/memory.h"
#include "model/lm_head.h"
#include "step/engine_private.h"

struct tensor engine_fetch(struct engine *e, struct tensor from)
{
    void *data = memory_allocate(tensor_count(&from) * dtype_size(from.dtype));
    struct tensor host = tensor_matrix(data, from.dtype, from.rows, from.cols);
    LAUNCH(&e->streams[STREAM_COMPUTE], COPY, copy, .from = from, .to = host);
    engine_synchronize(e);
    return host;
}

void engine_read_values(struct engine *e, struct tensor from, double *values)
{
    struct tensor host = engine_fetch(e, from);
    for (int64_t i = 0; i < host.cols; i++)
        values[i] = tensor_get(&host, 0, i);
    memory_free(host.data);
}

static const struct unit *head_of(const struct engine *e)
{
    return &e->model->units[e->model->unit_count - 1];
}

void engine_score(struct engine *e, const struct batch *batch, double *losses)
{
    if (e->rows.parts != NULL)
        error_fatal("bug: a rank has no losses of tokens that others have");
    engine_start_totals(e);
    engine_load_batch(e, batch, &e->batches[0]);
    engine_run_forward(e, PASS_EVALUATE, 0, 0);
    engine_read_values(e, unit_tensor(&e->context, head_of(e), LM_HEAD_LOSS), losses);
}

void engine_embed(struct engine *e, const struct batch *batch, float *vectors)
{
    engine_load_batch(e, batch, &e->batches[0]);
    engine_run_forward(e, PASS_EMBED, 0, 0);
    struct tensor host = engine_fetch(e, unit_tensor(&e->context, head_of(e), LM_HEAD_NORMED));
    for (int64_t t = 0; t < host.rows; t++)
        for (int64_t i = 0; i < host.cols; i++)
            vectors[t * host.cols + i] = (float)tensor_get(&host, t, i);
    memory_free(host.data);
}

void engine_extend(struct engine *e, const int32_t *tokens, int64_t count, double *logits)
{
    struct kv_cache *cache = &e->context.cache;
    struct batch_tensors *device = &e->batches[0];
    int32_t before = (int32_t)cache->filled, all = (int32_t)(cache->filled + count);
    if (!engine_generates(e) || all > cache->positions)
        error_fatal("a sequence of %d tokens has no room in this engine's cache of %lld", (int)all,
                    (long long)cache->positions);
    struct batch batch;
    batch_create(&batch, 1, count, 1);
    for (int64_t t = 0; t < count; t++) {
        batch.tokens[t] = tokens[t];
        batch.positions[t] = before + (int32_t)t;
    }
    batch.segment_length[0] = (int32_t)count;
    staging_next(&e->staging);
    engine_stage_batch(e, &batch, device);
    engine_load_numbers(e, &before, 1, &device->segments.q_offset);
    engine_load_numbers(e, &all, 1, &device->segments.kv_length);
    staging_end(&e->staging, &e->streams[STREAM_COMPUTE]);
    engine_run_forward(e, PASS_GENERATE, 0, 0);
    engine_read_values(e, lm_head_last_logits(&e->context, head_of(e)), logits);
    cache->filled = all;
    batch_destroy(&batch);
}

int64_t engine_length(const struct engine *e)
{
    return e->context.cache.filled;
}

void engine_truncate(struct engine *e, int64_t length)
{
    if (length < e->context.cache.filled)
        e->context.cache.filled = length;
}
