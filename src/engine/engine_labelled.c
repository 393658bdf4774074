/* Masked training: tables of the rows that the head computes. */
#include "base/memory.h"
#include "engine/engine_private.h"

/* Returns whether the head computes only labelled rows. */
static bool selects_rows(const struct engine *e)
{
    return e->model->settings.label_probability > 0;
}

/* Returns the number of equal parts of a rank's tokens, of which it has one between linear layers. */
static int token_parts(const struct engine *e)
{
    const struct tensor_parallel *tensor = &e->model->settings.tensor;
    return tensor->sequence ? tensor_ranks(tensor) : 1;
}

static struct tensor table_of(struct engine *e, int64_t count)
{
    return tensor_vector(budget_allocate(&e->budget, count * dtype_size(DTYPE_I32), BUDGET_BATCH), DTYPE_I32, count);
}

/* As created, the tables have as many compact rows as tokens: for that number memory is planned. */
void engine_create_labelled(struct engine *e, int64_t tokens, int slots)
{
    const int64_t own = tokens / token_parts(e);
    if (!selects_rows(e))
        return;
    int32_t *tables = memory_allocate((2 * own + tokens) * (int64_t)sizeof *tables);
    e->labelled = (struct labelled_rows){.rows = tables, .places = tables + own, .labels = tables + 2 * own};
    for (int s = 0; s < slots; s++) {
        struct batch_tensors *b = &e->batches[s];
        b->labelled.rows = table_of(e, own);
        b->labelled.places = table_of(e, own);
        b->labelled.labels = table_of(e, tokens);
    }
}

int64_t engine_labelled_bytes(const struct engine *e)
{
    const struct batch_tensors *b = &e->batches[0];
    return selects_rows(e) ? tensor_extent(&b->labelled.rows) + tensor_extent(&b->labelled.places) +
                                 tensor_extent(&b->labelled.labels)
                           : 0;
}

/* The planning executor has no memory to read. */
void engine_stage_labelled(struct engine *e, const struct batch *part, struct batch_tensors *to)
{
    const int parts = token_parts(e);
    const double probability = e->model->settings.label_probability;
    const int64_t tokens = part->rows * part->row_tokens, own = tokens / parts;
    if (!selects_rows(e))
        return;
    const int64_t count = e->executor->class->dry
                              ? labelled_rows_capacity(own, probability)
                              : labelled_rows_select(&e->labelled, part->labels, tokens, parts,
                                                     parts > 1 ? e->model->settings.tensor.rank : 0, probability);
    engine_load_numbers(e, e->labelled.rows, count, &to->labelled.rows);
    engine_load_numbers(e, e->labelled.places, own, &to->labelled.places);
    engine_load_numbers(e, e->labelled.labels, parts * count, &to->labelled.labels);
}
