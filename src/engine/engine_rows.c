/* Context parallelism: the part of a batch that this rank has, and the segment tables of its attention. */
#include "base/error.h"
#include "base/memory.h"
#include "engine/engine_private.h"

#include <string.h>

static int entries_of(const struct engine *e)
{
    const struct context_parallel *context = &e->model->settings.context;
    return context->method == DECK_CONTEXT_GATHER ? 1 : context->method == DECK_CONTEXT_RING ? context->ranks : 0;
}

static bool is_causal(const struct engine *e)
{
    return model_causal(&e->model->settings);
}

/* Returns the number of segment slots of a whole micro-batch, as planned. */
static int64_t slots_of(const struct engine *e)
{
    const struct memory_settings *m = &e->settings.memory;
    return context_slots(&(struct batch){.rows = m->rows, .max_segments = m->max_segments}, is_causal(e));
}

static void check_group(const struct group *group, int ranks, const char *what)
{
    if (group_size(group) != ranks)
        error_fatal("bug: %s are split over %d ranks, but their group has %d", what, ranks, group_size(group));
}

static void check_settings(const struct engine *e)
{
    const struct memory_settings *m = &e->settings.memory;
    const int ranks = context_ranks(&e->model->settings.context);
    check_group(e->groups.tensor, tensor_ranks(&e->model->settings.tensor), "layers");
    check_group(e->groups.stages, stage_count(&e->model->settings.pipeline), "the model's units");
    check_group(e->groups.context, ranks, "rows");
    if (e->model->settings.context.cache != (ranks > 1 && engine_generates(e)))
        error_fatal("bug: ranks share the cache in generation alone, and rows otherwise");
    if (ranks == 1 || engine_generates(e))
        return;
    if (m->row_tokens % (2 * ranks) != 0 || e->model->tokens * ranks != m->rows * m->row_tokens)
        error_fatal("bug: %lld rows of %lld tokens are not %d times %lld tokens in chunks of one size",
                    (long long)m->rows, (long long)m->row_tokens, ranks, (long long)e->model->tokens);
}

void engine_create_rows(struct engine *e)
{
    struct engine_rows *rows = &e->rows;
    check_settings(e);
    if (context_ranks(&e->model->settings.context) == 1 || engine_generates(e))
        return;
    const struct memory_settings *m = &e->settings.memory;
    const int entries = entries_of(e), batches = memory_slots_before(m, MODEL_CHUNKS);
    rows->split = (struct context_split){e->groups.context->rank, e->groups.context->size};
    batch_create(&rows->batch, m->rows, m->row_tokens / rows->split.ranks, 0);
    if (e->settings.context != NULL)
        batch_create(&rows->padded, m->rows, m->row_tokens, m->max_segments);
    rows->tables = memory_allocate(CONTEXT_TABLES * slots_of(e) * (int64_t)sizeof *rows->tables);
    rows->parts = memory_allocate((batches * entries + 1) * (int64_t)sizeof *rows->parts);
    for (int i = 0; i < batches * entries; i++) {
        const int64_t slots = slots_of(e), bytes = CONTEXT_TABLES * slots * (int64_t)sizeof(int32_t);
        struct tensor table =
            tensor_matrix(budget_allocate(&e->budget, bytes, BUDGET_BATCH), DTYPE_I32, CONTEXT_TABLES, slots);
        rows->parts[i] = (struct attention_segments){.q_start = tensor_rows(&table, 0, 1),
                                                     .q_length = tensor_rows(&table, 1, 1),
                                                     .kv_start = tensor_rows(&table, 2, 1),
                                                     .kv_length = tensor_rows(&table, 3, 1),
                                                     .q_offset = tensor_rows(&table, 4, 1),
                                                     .longest = e->batches[i / entries].segments.longest};
    }
    for (int s = 0; s < batches; s++) {
        e->batches[s].parts = rows->parts + s * entries;
        e->batches[s].row_tokens = rows->batch.row_tokens;
    }
}

void engine_destroy_rows(struct engine *e)
{
    if (e->rows.parts == NULL)
        return;
    batch_destroy(&e->rows.batch);
    batch_destroy(&e->rows.padded);
    memory_free(e->rows.tables);
    memory_free(e->rows.parts);
}

int64_t engine_table_bytes(const struct engine *e)
{
    return e->rows.parts == NULL ? 0 : entries_of(e) * CONTEXT_TABLES * slots_of(e) * (int64_t)sizeof(int32_t);
}

const struct batch *engine_whole(struct engine *e, const struct batch *batch)
{
    struct batch *padded = &e->rows.padded;
    const int64_t multiple = 2 * e->rows.split.ranks;
    if (e->rows.parts == NULL || batch->row_tokens % multiple == 0)
        return batch;
    if (e->settings.context == NULL || batch->rows > 1)
        error_fatal("bug: rows of %lld tokens cannot be split over %d ranks", (long long)batch->row_tokens,
                    e->rows.split.ranks);
    padded->max_segments = batch->max_segments;
    memcpy(padded->tokens, batch->tokens, (size_t)batch->row_tokens * sizeof *batch->tokens);
    memcpy(padded->labels, batch->labels, (size_t)batch->row_tokens * sizeof *batch->labels);
    memcpy(padded->positions, batch->positions, (size_t)batch->row_tokens * sizeof *batch->positions);
    memcpy(padded->scale, batch->scale, (size_t)batch->row_tokens * sizeof *batch->scale);
    memcpy(padded->segment_start, batch->segment_start, (size_t)batch->max_segments * sizeof *batch->segment_start);
    memcpy(padded->segment_length, batch->segment_length, (size_t)batch->max_segments * sizeof *batch->segment_length);
    padded->row_tokens = batch->row_tokens;
    batch_pad(padded, batch->tokens[0], (batch->row_tokens + multiple - 1) / multiple * multiple);
    return padded;
}

const struct batch *engine_part(struct engine *e, const struct batch *whole)
{
    struct batch *part = &e->rows.batch;
    if (e->rows.parts == NULL)
        return whole;
    part->rows = whole->rows;
    part->row_tokens = whole->row_tokens / e->rows.split.ranks;
    if (!e->executor->class->dry)
        context_split_batch(&e->rows.split, whole, part);
    return part;
}

void engine_stage_tables(struct engine *e, const struct batch *whole, struct batch_tensors *to)
{
    if (e->rows.parts == NULL)
        return;
    const struct context_split *split = &e->rows.split;
    const bool gathers = e->model->settings.context.method == DECK_CONTEXT_GATHER;
    const int64_t slots = context_slots(whole, is_causal(e)), all = slots_of(e);
    for (int i = 0; i < entries_of(e); i++) {
        struct attention_segments *part = &to->parts[i];
        const int owner = gathers ? -1 : (split->rank - i + split->ranks) % split->ranks;
        if (!e->executor->class->dry)
            context_split_segments(split, whole, is_causal(e), owner, e->rows.tables);
        staging_copy(&e->staging, &e->streams[STREAM_COMPUTE],
                     tensor_matrix(e->rows.tables, DTYPE_I32, CONTEXT_TABLES, slots),
                     (struct tensor){part->q_start.data, DTYPE_I32, CONTEXT_TABLES, slots, all});
        part->q_start.cols = part->q_length.cols = part->kv_start.cols = part->kv_length.cols = part->q_offset.cols =
            slots;
        part->longest = to->segments.longest;
    }
}
