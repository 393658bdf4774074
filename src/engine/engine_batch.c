/* Batches on the device. */
#include "base/error.h"
#include "base/memory.h"
#include "engine/engine_private.h"

static struct tensor batch_tensor(struct budget *budget, int64_t count, enum dtype dtype)
{
    return tensor_vector(budget_allocate(budget, count * dtype_size(dtype), BUDGET_BATCH), dtype, count);
}

/* Describes a batch's segments for attention. In generation segments also have keys of earlier calls. */
static void describe_segments(const struct engine *e, const struct batch *batch, struct attention_segments *segments)
{
    int64_t most = e->settings.memory.longest;
    const bool one_a_row = batch->max_segments == 1;
    segments->full = !engine_generates(e) && one_a_row && batch->full;
    segments->longest = engine_generates(e)                                  ? 0
                        : one_a_row || most == 0 || most > batch->row_tokens ? batch->row_tokens
                                                                             : most;
}

/* Copies the weights of classes to the device, where they stay. */
static struct tensor create_class_weights(struct engine *e)
{
    const float *weights = e->settings.class_weights;
    if (weights == NULL)
        return (struct tensor){0};
    const int64_t classes = e->model->settings.task.labels;
    const struct tensor to = batch_tensor(&e->budget, classes, DTYPE_F32);
    LAUNCH(&e->streams[STREAM_COMPUTE], COPY, copy, .from = tensor_vector((void *)weights, DTYPE_F32, classes),
           .to = to);
    engine_synchronize(e);
    return to;
}

/* All slots add their losses to one tensor. It lies next to the squares, so that one collective sums both over ranks.
 */
void engine_create_batches(struct engine *e)
{
    const struct memory_settings *m = &e->settings.memory;
    const int split = engine_generates(e) ? 1 : group_size(e->groups.context);
    int64_t tokens = m->rows * m->row_tokens / split, segments = m->rows * m->max_segments;
    const int slots = memory_slots_before(m, MODEL_CHUNKS);
    const struct exact_quanta *exact = &e->settings.sharding.exact;
    int64_t squares = m->use == MEMORY_TRAIN ? optimizer_squares(e->model, exact->squares) : 0;
    const struct batch rows = {.row_tokens = m->row_tokens, .max_segments = m->max_segments};
    e->sums = batch_tensor(&e->budget, 2 + squares, DTYPE_F64);
    struct tensor discarded = batch_tensor(&e->budget, 2, DTYPE_F64);
    e->total = tensor_columns(&e->sums, 0, 2);
    if (exact->loss > 0)
        e->batch_total = batch_tensor(&e->budget, 2, DTYPE_F64);
    const struct tensor total = exact->loss > 0 ? e->batch_total : e->total;
    const struct tensor class_weights = create_class_weights(e);
    const int64_t numbers = model_numbers(&e->model->settings);
    e->batches = memory_allocate((int64_t)sizeof *e->batches * slots);
    for (int s = 0; s < slots; s++) {
        struct batch_tensors *b = &e->batches[s];
        b->row_tokens = m->row_tokens / split;
        b->tokens = batch_tensor(&e->budget, tokens, DTYPE_I32);
        b->labels = batch_tensor(&e->budget, tokens, DTYPE_I32);
        b->positions = batch_tensor(&e->budget, tokens, DTYPE_I32);
        if (engine_draws(e))
            b->draw = batch_tensor(&e->budget, 2, DTYPE_I32);
        if (engine_drops(e))
            b->dropout_keys = batch_tensor(&e->budget, tokens, DTYPE_I32);
        if (e->model->settings.token_dropout)
            b->scale = batch_tensor(&e->budget, tokens, DTYPE_F32);
        b->segments.q_start = b->segments.kv_start = batch_tensor(&e->budget, segments, DTYPE_I32);
        b->segments.q_length = b->segments.kv_length = batch_tensor(&e->budget, segments, DTYPE_I32);
        if (engine_generates(e))
            engine_create_cache_tables(e, b);
        if (m->use == MEMORY_LOGITS)
            b->ends = batch_tensor(&e->budget, tokens, DTYPE_I32);
        b->segments.q_offset = batch_tensor(&e->budget, segments, DTYPE_I32); /* zero, as allocated */
        describe_segments(e, &rows, &b->segments);
        b->class_weights = class_weights;
        if (numbers > 0)
            b->targets = tensor_matrix(batch_tensor(&e->budget, segments * numbers, DTYPE_F32).data, DTYPE_F32,
                                       segments, numbers);
        b->total = group_rank(e->groups.tensor) == 0 ? total : discarded;
        b->discarded = discarded;
    }
    engine_create_labelled(e, tokens, slots);
}

void engine_load_numbers(struct engine *e, void *from, int64_t count, struct tensor *to)
{
    *to = tensor_vector(to->data, to->dtype, count);
    staging_copy(&e->staging, &e->streams[STREAM_COMPUTE], tensor_vector(from, to->dtype, count), *to);
}

/* The planning executor has no memory to read. */
static void stage_targets(struct engine *e, const struct batch *batch, struct tensor *to)
{
    const int64_t slots = batch->rows * batch->max_segments, numbers = model_numbers(&e->model->settings);
    if (numbers == 0)
        return;
    if (!e->executor->class->dry && batch->numbers != numbers)
        error_fatal("a micro-batch has %lld numbers for each sequence, but the head predicts %lld",
                    (long long)batch->numbers, (long long)numbers);
    struct tensor flat = *to;
    engine_load_numbers(e, batch->targets, slots * numbers, &flat);
    to->rows = slots;
}

/* Checks that the segments are as describe_segments says. The planning executor has no memory to read. */
static void check_segments(const struct engine *e, const struct batch *batch, const struct attention_segments *said)
{
    if (e->executor->class->dry || engine_generates(e))
        return;
    for (int64_t s = 0; s < batch->rows * batch->max_segments; s++)
        if (batch->segment_length[s] > said->longest ||
            (said->full && (batch->segment_length[s] < said->longest || batch->segment_start[s] != s * said->longest)))
            error_fatal("segment %lld of a micro-batch has %d tokens from %d on, but each must have %s%lld",
                        (long long)s, (int)batch->segment_length[s], (int)batch->segment_start[s],
                        said->full ? "" : "at most ", (long long)said->longest);
}

void engine_stage_batch(struct engine *e, const struct batch *own, struct batch_tensors *to)
{
    const struct memory_settings *m = &e->settings.memory;
    const struct batch *batch = engine_whole(e, own);
    int64_t slots = batch->rows * batch->max_segments;
    if (batch->rows * batch->row_tokens > m->rows * m->row_tokens || slots > m->rows * m->max_segments)
        error_fatal("a micro-batch of %lld tokens in %lld segments is larger than planned",
                    (long long)(batch->rows * batch->row_tokens), (long long)slots);
    const struct batch *part = engine_part(e, batch);
    int64_t tokens = part->rows * part->row_tokens;
    to->row_tokens = part->row_tokens;
    engine_load_numbers(e, part->tokens, tokens, &to->tokens);
    engine_load_numbers(e, part->labels, tokens, &to->labels);
    engine_load_numbers(e, part->positions, tokens, &to->positions);
    engine_stage_labelled(e, part, to);
    stage_targets(e, batch, &to->targets);
    int32_t draw[2] = {(int32_t)(uint32_t)part->number, (int32_t)(uint32_t)(part->number >> 32)};
    if (engine_draws(e))
        engine_load_numbers(e, draw, 2, &to->draw);
    if (engine_drops(e))
        engine_load_numbers(e, part->dropout_keys, tokens, &to->dropout_keys);
    if (e->model->settings.token_dropout)
        engine_load_numbers(e, part->scale, tokens, &to->scale);
    engine_load_numbers(e, batch->segment_start, slots, &to->segments.q_start);
    engine_load_numbers(e, batch->segment_length, slots, &to->segments.q_length);
    to->segments.kv_start.cols = to->segments.kv_length.cols = to->segments.q_offset.cols = slots;
    describe_segments(e, batch, &to->segments);
    check_segments(e, batch, &to->segments);
    engine_stage_tables(e, batch, to);
}

void engine_load_batch(struct engine *e, const struct batch *batch, struct batch_tensors *to)
{
    staging_next(&e->staging);
    engine_stage_batch(e, batch, to);
    staging_end(&e->staging, &e->streams[STREAM_COMPUTE]);
}
