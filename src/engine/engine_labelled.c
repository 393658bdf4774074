/* Masked training and fine-tuning: tables of the rows that the head computes. */
#include "base/memory.h"
#include "engine/engine_private.h"

static bool selects_rows(const struct engine *e)
{
    return model_selects_rows(&e->model->settings);
}

/* Returns whether compact rows are means over the labelled tokens of a segment. */
static bool averages_rows(const struct engine *e)
{
    const struct task_settings *task = &e->model->settings.task;
    return task->head == DECK_HEAD_SEQUENCE && task->pooling == DECK_POOLING_MEAN;
}

/* Returns the compact rows of `own` tokens. */
static int64_t capacity_of(const struct engine *e, int64_t own)
{
    const struct memory_settings *m = &e->settings.memory;
    return e->model->settings.task.head == DECK_HEAD_SEQUENCE
               ? labelled_rows_most(own, m->rows * m->max_segments)
               : labelled_rows_capacity(own, e->model->settings.label_probability);
}

/* Returns the number of equal parts of a rank's tokens of which it selects rows of one: those that it has between
 * linear layers. Means are of all tokens. */
static int token_parts(const struct engine *e)
{
    const struct tensor_parallel *tensor = &e->model->settings.tensor;
    return tensor->sequence && !averages_rows(e) ? tensor_ranks(tensor) : 1;
}

static struct tensor table_of(struct engine *e, int64_t count, enum dtype dtype)
{
    return tensor_vector(budget_allocate(&e->budget, count * dtype_size(dtype), BUDGET_BATCH), dtype, count);
}

/* As created, the tables have as many compact rows as tokens: for that number memory is planned. */
void engine_create_labelled(struct engine *e, int64_t tokens, int slots)
{
    const int64_t own = tokens / token_parts(e);
    if (!selects_rows(e))
        return;
    int32_t *tables = memory_allocate((3 * own + tokens) * (int64_t)sizeof *tables);
    e->labelled = (struct labelled_rows){.rows = tables, .places = tables + own, .labels = tables + 2 * own};
    e->labelled.factors = (float *)(tables + 2 * own + tokens);
    for (int s = 0; s < slots; s++) {
        struct batch_tensors *b = &e->batches[s];
        if (averages_rows(e))
            b->labelled.factors = table_of(e, own, DTYPE_F32);
        else
            b->labelled.rows = table_of(e, own, DTYPE_I32);
        b->labelled.places = table_of(e, own, DTYPE_I32);
        b->labelled.labels = table_of(e, tokens, DTYPE_I32);
    }
}

int64_t engine_labelled_bytes(const struct engine *e)
{
    const struct batch_tensors *b = &e->batches[0];
    return selects_rows(e) ? tensor_extent(&b->labelled.rows) + tensor_extent(&b->labelled.factors) +
                                 tensor_extent(&b->labelled.places) + tensor_extent(&b->labelled.labels)
                           : 0;
}

static void stage_means(struct engine *e, const struct batch *part, struct batch_tensors *to)
{
    const int64_t tokens = part->rows * part->row_tokens, count = capacity_of(e, tokens);
    if (!e->executor->class->dry)
        labelled_rows_average(&e->labelled, part->labels, tokens, part->segment_start, part->segment_length,
                              part->rows * part->max_segments, count);
    engine_load_numbers(e, e->labelled.places, tokens, &to->labelled.places);
    engine_load_numbers(e, e->labelled.factors, tokens, &to->labelled.factors);
    engine_load_numbers(e, e->labelled.labels, count, &to->labelled.labels);
}

/* The planning executor has no memory to read. */
void engine_stage_labelled(struct engine *e, const struct batch *part, struct batch_tensors *to)
{
    const int parts = token_parts(e);
    const int64_t tokens = part->rows * part->row_tokens, own = tokens / parts, capacity = capacity_of(e, own);
    if (!selects_rows(e))
        return;
    if (averages_rows(e)) {
        stage_means(e, part, to);
        return;
    }
    const int64_t count = e->executor->class->dry
                              ? capacity
                              : labelled_rows_select(&e->labelled, part->labels, tokens, parts,
                                                     parts > 1 ? e->model->settings.tensor.rank : 0, capacity);
    engine_load_numbers(e, e->labelled.rows, count, &to->labelled.rows);
    engine_load_numbers(e, e->labelled.places, own, &to->labelled.places);
    engine_load_numbers(e, e->labelled.labels, parts * count, &to->labelled.labels);
}
