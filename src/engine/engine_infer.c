/* Forward passes of inference whose results are copied to the host: losses of tokens, vectors. */
#include "base/memory.h"
#include "base/range.h"
#include "comm/comm.h"
#include "model/lm_head.h"
#include "model/task_head.h"
#include "engine/engine_private.h"

#include <string.h>

enum { FETCHED_BYTES = 16 << 20 };

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
    return model_head(e->model);
}

/* -- Context parallelism: results on the first rank ---------------------------------------------------------------- */

/* Gathers an item of `bytes` for each token of a batch of one row of `tokens` tokens. own: the items of this rank's
 * part, padding included. Item t is copied to to + t * stride, on the first rank only. */
static void gather_tokens(const struct engine *e, const void *own, int64_t bytes, int64_t tokens, void *to,
                          int64_t stride)
{
    const int ranks = e->rows.split.ranks;
    const int64_t part = e->rows.batch.row_tokens, slice = part / 2;
    char *all = e->rows.split.rank == 0 ? memory_allocate(ranks * part * bytes) : NULL;
    comm_gather(e->settings.context, own, all, part * bytes);
    for (int half = 0; half < 2 * ranks && all != NULL; half++) {
        const int64_t first = context_slice(half / 2, ranks, half % 2) * slice, end = MIN(first + slice, tokens);
        for (int64_t t = first; t < end; t++)
            memcpy((char *)to + t * stride, all + (half * slice + t - first) * bytes, (size_t)bytes);
    }
    memory_free(all);
}

/* Returns the rank that has a token of the row, and the token's index in its part. */
static int owner_of(const struct engine *e, int64_t token, int32_t *index)
{
    const int ranks = e->rows.split.ranks;
    const int64_t slice = e->rows.batch.row_tokens / 2, number = token / slice;
    const bool first = number < ranks;
    *index = (int32_t)(token % slice + (first ? 0 : slice));
    return (int)(first ? number : 2 * ranks - 1 - number);
}

/* Writes the indices in this rank's part of its tokens among ends[count], and returns their number. */
static int64_t own_ends(const struct engine *e, const int32_t *ends, int64_t count, int32_t *own)
{
    int64_t used = 0;
    int32_t index;
    for (int64_t i = 0; i < count; i++)
        if (owner_of(e, ends[i], &index) == e->rows.split.rank)
            own[used++] = index;
    return used;
}

/* Gathers rows of `bytes`: each rank has those of its tokens among ends[count], in their order. Row i is copied to
 * to + i * bytes, on the first rank only. */
static void gather_ends(const struct engine *e, const void *own, int64_t bytes, const int32_t *ends, int64_t count,
                        void *to)
{
    const int ranks = e->rows.split.ranks, rank = e->rows.split.rank;
    int64_t *counts = memory_allocate(ranks * (int64_t)sizeof *counts), most = 0;
    int32_t index;
    for (int64_t i = 0; i < count; i++) {
        const int64_t rows = ++counts[owner_of(e, ends[i], &index)];
        most = MAX(most, rows);
    }
    char *all = rank == 0 ? memory_allocate(ranks * most * bytes) : NULL;
    void *sent = memory_allocate(most * bytes);
    memcpy(sent, own, (size_t)(counts[rank] * bytes));
    comm_gather(e->settings.context, sent, all, most * bytes);
    memset(counts, 0, (size_t)ranks * sizeof *counts);
    for (int64_t i = 0; i < count && all != NULL; i++) {
        const int of = owner_of(e, ends[i], &index);
        memcpy((char *)to + i * bytes, all + (of * most + counts[of]++) * bytes, (size_t)bytes);
    }
    memory_free(sent);
    memory_free(all);
    memory_free(counts);
}

/* -- Passes -------------------------------------------------------------------------------------------------------- */

void engine_score(struct engine *e, const struct batch *batch, double *losses)
{
    engine_start_totals(e);
    engine_load_batch(e, batch, &e->batches[0]);
    engine_run_forward(e, PASS_EVALUATE, 0, 0);
    const struct tensor loss = unit_tensor(&e->execution, head_of(e), LM_HEAD_LOSS);
    if (e->rows.parts == NULL) {
        engine_read_values(e, loss, losses);
        return;
    }
    double *own = memory_allocate(loss.cols * (int64_t)sizeof *own);
    engine_read_values(e, loss, own);
    gather_tokens(e, own, sizeof *own, batch->row_tokens, losses, sizeof *losses);
    memory_free(own);
}

/* Copies a matrix in host memory to rows of `stride` floats. */
static void copy_floats(const struct tensor *from, float *to, int64_t stride)
{
    for (int64_t i = 0; i < from->rows; i++, to += stride) {
        const void *row = tensor_at(from, i, 0);
        if (from->dtype == DTYPE_F32)
            memcpy(to, row, (size_t)from->cols * sizeof *to);
        else if (from->dtype == DTYPE_BF16)
            for (int64_t c = 0; c < from->cols; c++)
                to[c] = bf16_to_f32(((const uint16_t *)row)[c]);
        else
            for (int64_t c = 0; c < from->cols; c++)
                to[c] = (float)tensor_get(from, i, c);
    }
}

void engine_logits(struct engine *e, const struct batch *batch, int32_t *ends, int64_t count, float *logits)
{
    const bool shares = e->rows.parts != NULL;
    const int64_t width = e->model->settings.vocabulary, row_bytes = width * (int64_t)sizeof *logits;
    struct batch_tensors *to = &e->batches[0];
    staging_next(&e->staging);
    engine_stage_batch(e, batch, to);
    int32_t *own = shares ? memory_allocate((count + 1) * (int64_t)sizeof *own) : ends;
    const int64_t own_count = shares ? own_ends(e, ends, count, own) : count;
    engine_load_numbers(e, own, own_count, &to->ends);
    staging_end(&e->staging, &e->streams[STREAM_COMPUTE]);
    engine_run_forward(e, PASS_LOGITS, 0, 0);
    float *own_logits = shares ? memory_allocate((own_count + 1) * row_bytes) : logits;
    if (own_count > 0) {
        struct tensor host = engine_fetch(e, lm_head_end_logits(&e->execution, head_of(e)));
        copy_floats(&host, own_logits, width);
        memory_free(host.data);
    }
    if (!shares)
        return;
    if (count > 0)
        gather_ends(e, own_logits, row_bytes, ends, count, logits);
    memory_free(own);
    memory_free(own_logits);
}

void engine_create_fetched(struct engine *e)
{
    const struct memory_settings *m = &e->settings.memory;
    const int64_t hidden = e->model->settings.hidden, row_bytes = hidden * dtype_size(m->compute);
    if (m->use != MEMORY_EMBED)
        return;
    const int64_t rows = MIN(MAX(FETCHED_BYTES / row_bytes, 1), e->model->tokens);
    void *data = e->executor->class->allocate(e->executor, rows * row_bytes, MEMORY_HOST);
    e->fetched = tensor_matrix(data, m->compute, rows, hidden);
}

void engine_destroy_fetched(struct engine *e)
{
    if (tensor_present(&e->fetched))
        e->executor->class->release(e->executor, e->fetched.data, MEMORY_HOST);
}

/* Copies rows of a tensor on the device to rows of `stride` floats, through e->fetched. */
static void fetch_floats(struct engine *e, const struct tensor *from, float *to, int64_t stride)
{
    for (int64_t first = 0; first < from->rows; first += e->fetched.rows) {
        const int64_t count = MIN(from->rows - first, e->fetched.rows);
        const struct tensor host = tensor_rows(&e->fetched, 0, count);
        LAUNCH(&e->streams[STREAM_COMPUTE], COPY, copy, .from = tensor_rows(from, first, count), .to = host);
        engine_synchronize(e);
        copy_floats(&host, to + first * stride, stride);
    }
}

/* Writes rows of states, one a token of this rank's part, to columns of the vectors. */
static void put_states(struct engine *e, const struct tensor *rows, float *to, int64_t stride)
{
    if (e->rows.parts == NULL) {
        fetch_floats(e, rows, to, stride);
        return;
    }
    float *own = memory_allocate(tensor_count(rows) * (int64_t)sizeof *own);
    fetch_floats(e, rows, own, rows->cols);
    gather_tokens(e, own, rows->cols * (int64_t)sizeof *own, e->state_tokens, to, stride * (int64_t)sizeof *to);
    memory_free(own);
}

void engine_show_predictions(struct engine *e, const struct batch *batch)
{
    const struct unit *head = head_of(e);
    if (e->predicted == NULL || !unit_is_computed(head) || group_rank(e->groups.tensor) > 0)
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
        const struct tensor made = unit_tensor(&e->execution, unit, unit == head ? LM_HEAD_NORMED : UNIT_OUTPUT);
        put_states(e, &made, states->vectors != NULL ? states->vectors + s * made.cols : NULL,
                   states->count * made.cols);
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
    e->state_tokens = batch->rows * batch->row_tokens;
    engine_run_forward(e, PASS_EMBED, 0, 0);
    e->states = NULL;
}
