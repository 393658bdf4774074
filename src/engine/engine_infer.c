/* Forward passes of inference whose results are copied to the host: losses of tokens, vectors. */
#include "base/error.h"
#include "base/memory.h"
#include "model/lm_head.h"
#include "model/task_head.h"
#include "engine/engine_private.h"

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
    engine_read_values(e, unit_tensor(&e->execution, head_of(e), LM_HEAD_LOSS), losses);
}

void engine_logits(struct engine *e, const struct batch *batch, int32_t *ends, int64_t count, float *logits)
{
    struct batch_tensors *to = &e->batches[0];
    staging_next(&e->staging);
    engine_stage_batch(e, batch, to);
    engine_load_numbers(e, ends, count, &to->ends);
    staging_end(&e->staging, &e->streams[STREAM_COMPUTE]);
    engine_run_forward(e, PASS_LOGITS, 0, 0);
    if (count == 0)
        return;
    struct tensor host = engine_fetch(e, lm_head_end_logits(&e->execution, head_of(e)));
    for (int64_t i = 0; i < host.rows; i++)
        for (int64_t v = 0; v < host.cols; v++)
            logits[i * host.cols + v] = (float)tensor_get(&host, i, v);
    memory_free(host.data);
}

void engine_show_predictions(struct engine *e, const struct batch *batch)
{
    const struct unit *head = head_of(e);
    if (e->predicted == NULL || !unit_is_computed(head))
        return;
    struct tensor outputs = engine_fetch(e, task_head_outputs(&e->execution, head));
    struct tensor labels = engine_fetch(e, task_head_labels(&e->execution, head));
    e->predicted(e->predicted_self, &outputs, &labels, batch);
    memory_free(outputs.data);
    memory_free(labels.data);
}

void engine_keep_states(struct engine *e, const struct unit *unit)
{
    const struct engine_states *states = e->states;
    const struct unit *head = head_of(e);
    const int64_t layer = unit == head ? unit->index - 1 : unit->index;
    if (states == NULL || unit->index == head->index - 1) /* the last layer's output is not normalised yet */
        return;
    for (int64_t s = 0; s < states->count; s++) {
        if (states->layers[s] != layer)
            continue;
        struct tensor host =
            engine_fetch(e, unit_tensor(&e->execution, unit, unit == head ? LM_HEAD_NORMED : UNIT_OUTPUT));
        for (int64_t t = 0; t < host.rows; t++)
            for (int64_t i = 0; i < host.cols; i++)
                states->vectors[(t * states->count + s) * host.cols + i] = (float)tensor_get(&host, t, i);
        memory_free(host.data);
    }
}

void engine_keep_attention(const struct execution *execution, const struct unit *unit, struct tensor queries,
                           struct tensor keys)
{
    struct engine *e = execution->owner->engine;
    if (e == NULL || e->states == NULL || e->states->attended == NULL)
        return;
    struct tensor q = engine_fetch(e, queries), k = engine_fetch(e, keys);
    e->states->attended(e->states->self, unit->layer, &q, &k);
    memory_free(q.data);
    memory_free(k.data);
}

void engine_embed(struct engine *e, const struct batch *batch, const struct engine_states *states)
{
    engine_load_batch(e, batch, &e->batches[0]);
    e->states = states;
    engine_run_forward(e, PASS_EMBED, 0, 0);
    e->states = NULL;
}
