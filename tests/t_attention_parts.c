/* Attention in several launches matches the oracle of one: over parts of the queries and of the keys, merged, as ranks
 * that share the rows of a sequence compute it, also with a sliding window; with gradients that are added to old ones.
 * Merging is also checked alone, with parts that have no weight. The arguments are those of t_attention. */
#include "attention.h"

/* -- In parts ---------------------------------------------------------------------------------------------------- */

enum { PARTS = 2 };

/* Rows begin .. begin + count - 1 of a tensor. */
struct part {
    int64_t begin, count;
};

static struct part part_of(int64_t rows, int number)
{
    int64_t begin = rows * number / PARTS;
    return (struct part){begin, rows * (number + 1) / PARTS - begin};
}

static int32_t cut(int32_t *start, int32_t *length, struct part part)
{
    int64_t begin = *start > part.begin ? *start : part.begin, last = part.begin + part.count;
    int64_t end = *start + *length < last ? *start + *length : last;
    int32_t before = begin < end ? (int32_t)(begin - *start) : 0;
    *length = begin < end ? (int32_t)(end - begin) : 0;
    *start = begin < end ? (int32_t)(begin - part.begin) : 0;
    return before;
}

/* Copies between host and device, and waits for them. */
static void move(struct stream *stream, struct tensor from, struct tensor to)
{
    LAUNCH(stream, COPY, copy, .from = from, .to = to);
    stream_synchronize(stream);
}

static struct tensor on_executor(struct stream *stream, enum dtype dtype, int64_t rows, int64_t cols)
{
    int64_t bytes = rows * cols * dtype_size(dtype);
    void *memory = stream->executor->class->allocate(stream->executor, bytes, MEMORY_DEVICE);
    return tensor_matrix(memory, dtype, rows, cols);
}

static void give_back(struct stream *stream, struct tensor x)
{
    stream->executor->class->release(stream->executor, x.data, MEMORY_DEVICE);
}

/* What is left of segments in parts of the queries and of the keys, in five rows of `to`. */
static struct attention_segments split_segments(struct stream *stream, const struct attention_segments *from,
                                                struct part queries, struct part keys, struct tensor to)
{
    const struct tensor *all[5] = {&from->q_start, &from->q_length, &from->kv_start, &from->kv_length, &from->q_offset};
    int32_t table[5][SLOTS] = {{0}};
    struct tensor split_table[5];
    for (int i = 0; i < 5; i++)
        move(stream, *all[i], tensor_vector(table[i], DTYPE_I32, all[i]->cols));
    for (int64_t slot = 0; slot < from->q_start.cols; slot++) {
        table[4][slot] += cut(&table[0][slot], &table[1][slot], queries);
        table[4][slot] -= cut(&table[2][slot], &table[3][slot], keys);
    }
    for (int i = 0; i < 5; i++) {
        split_table[i] = tensor_vector(tensor_at(&to, i, 0), DTYPE_I32, from->q_start.cols);
        move(stream, tensor_vector(table[i], DTYPE_I32, from->q_start.cols), split_table[i]);
    }
    return (struct attention_segments){
        split_table[0], split_table[1], split_table[2], split_table[3], split_table[4], 0, false, 0};
}

/* A part has tables of its own, so it may need other scratch than the whole. */
static void launch_part(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args)
{
    const struct executor_class *class = stream->executor->class;
    CHECK(op_check(op, args) == NULL);
    class->reserve(stream->executor, stream->id, class->workspace(stream->executor, op, args));
    wrapper_pass(wrapper, stream, op, args);
    stream_synchronize(stream);
}

static void forward_in_parts(struct wrapper *wrapper, struct stream *stream, const struct attention_forward_args *args,
                             struct part queries, struct tensor tables)
{
    int64_t rows = queries.count, cols = args->o.cols;
    struct attention_forward_args part = *args;
    part.q = tensor_rows(&args->q, queries.begin, rows);
    part.o = on_executor(stream, DTYPE_F32, rows, cols);
    part.lse = on_executor(stream, DTYPE_F32, args->heads, rows);
    struct attention_merge_args merge = {.part_o = part.o,
                                         .part_lse = part.lse,
                                         .o = on_executor(stream, DTYPE_F32, rows, cols),
                                         .lse = on_executor(stream, DTYPE_F32, args->heads, rows),
                                         .to = tensor_rows(&args->o, queries.begin, rows),
                                         .heads = args->heads,
                                         .head_dim = args->head_dim,
                                         .first = true};
    for (int i = 0; i < PARTS; i++) {
        struct part keys = part_of(args->k.rows, i);
        if (keys.count == 0)
            continue;
        part.k = tensor_rows(&args->k, keys.begin, keys.count);
        part.v = tensor_rows(&args->v, keys.begin, keys.count);
        part.segments = split_segments(stream, &args->segments, queries, keys, tables);
        launch_part(wrapper, stream, OP_ATTENTION_FORWARD, &part);
        launch_part(wrapper, stream, OP_ATTENTION_MERGE, &merge);
        merge.first = false;
    }
    move(stream, merge.lse, tensor_columns(&args->lse, queries.begin, rows));
    struct tensor made[] = {part.o, part.lse, merge.o, merge.lse};
    for (int64_t i = 0; i < COUNT(made); i++)
        give_back(stream, made[i]);
}

static void backward_in_parts(struct wrapper *wrapper, struct stream *stream,
                              const struct attention_backward_args *args, struct part queries, struct tensor tables)
{
    struct attention_backward_args part = *args;
    part.q = tensor_rows(&args->q, queries.begin, queries.count);
    part.o = tensor_rows(&args->o, queries.begin, queries.count);
    part.lse = tensor_columns(&args->lse, queries.begin, queries.count);
    part.d_o = tensor_rows(&args->d_o, queries.begin, queries.count);
    part.dq = tensor_rows(&args->dq, queries.begin, queries.count);
    for (int i = 0; i < PARTS; i++) {
        struct part keys = part_of(args->k.rows, i);
        if (keys.count == 0)
            continue;
        part.k = tensor_rows(&args->k, keys.begin, keys.count);
        part.v = tensor_rows(&args->v, keys.begin, keys.count);
        part.dk = tensor_rows(&args->dk, keys.begin, keys.count);
        part.dv = tensor_rows(&args->dv, keys.begin, keys.count);
        part.accumulate_q = keys.begin > 0, part.accumulate_kv = queries.begin > 0;
        part.segments = split_segments(stream, &args->segments, queries, keys, tables);
        launch_part(wrapper, stream, OP_ATTENTION_BACKWARD, &part);
    }
}

/* Attention as ranks do it that hold a part of the queries each and pass parts of the keys round. A GPU's kernels give
 * o in the type of q, and the rounding of each part's to bf16 is more than bounds allow: there forward is whole. */
static void launch_in_parts(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args)
{
    const struct attention_forward_args *f = args;
    const struct attention_backward_args *b = args;
    bool forward = op == OP_ATTENTION_FORWARD && (f->q.dtype == DTYPE_F32 || !on_device);
    if (!forward && op != OP_ATTENTION_BACKWARD) {
        wrapper_pass(wrapper, stream, op, args);
        return;
    }
    struct tensor tables = on_executor(stream, DTYPE_I32, 5, SLOTS);
    for (int i = 0; i < PARTS; i++) {
        struct part queries = part_of(forward ? f->q.rows : b->q.rows, i);
        if (queries.count > 0 && forward)
            forward_in_parts(wrapper, stream, f, queries, tables);
        else if (queries.count > 0)
            backward_in_parts(wrapper, stream, b, queries, tables);
    }
    give_back(stream, tables);
}

/* -- Again ------------------------------------------------------------------------------------------------------- */

/* Each op three times, as layers of a model launch it one after the other with the same tables: what an executor has
 * made of them serves all. Outputs are spoilt in between. */
static void launch_again(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args)
{
    enum { LAUNCHES = 3 };
    struct attention_forward_args f = {0};
    struct attention_backward_args b = {0};
    const bool forward = op == OP_ATTENTION_FORWARD, backward = op == OP_ATTENTION_BACKWARD;
    if (forward)
        f = *(const struct attention_forward_args *)args;
    if (backward)
        b = *(const struct attention_backward_args *)args;
    for (int i = 0; i < LAUNCHES && (forward || backward); i++) {
        const struct tensor made[3] = {forward ? f.o : b.dq, forward ? f.lse : b.dk, forward ? f.o : b.dv};
        for (int j = 0; j < 3; j++)
            wrapper_pass(wrapper, stream, OP_FILL, &(struct fill_args){.x = made[j], .value = 1e4});
        f.segments.again = b.segments.again = i;
        wrapper_pass(wrapper, stream, op, forward ? (const void *)&f : &b);
    }
    if (!forward && !backward)
        wrapper_pass(wrapper, stream, op, args);
}

/* -- Merging ----------------------------------------------------------------------------------------------------- */

/* A part's log-sum-exps and those so far: numbers near each other and far apart, and minus infinity on either side and
 * on both, where o may hold anything. */
static void draw_lses(const struct attention_merge_args *m)
{
    static const double distances[5] = {0.0, 0.3, -2.0, 40.0, -300.0};
    for (int64_t row = 0; row < m->o.rows; row++)
        for (int64_t head = 0; head < m->heads; head++) {
            int64_t kind = row + 3 * head;
            double old = (double)trial_draw(1000) / 10.0 - 50.0, part = old + distances[kind % 5];
            bool no_old = kind % 7 == 2 || kind % 7 == 4, no_part = kind % 7 == 3 || kind % 7 == 4;
            reference_store(&m->part_lse, head, row, no_part ? -INFINITY : part);
            if (!m->first)
                reference_store(&m->lse, head, row, no_old ? -INFINITY : old);
            for (int64_t col = head * m->head_dim; col < (head + 1) * m->head_dim; col++) {
                if (no_part)
                    reference_store(&m->part_o, row, col, NAN);
                if (no_old)
                    reference_store(&m->o, row, col, NAN);
            }
        }
}

static void test_merge_case(enum dtype dtype, int64_t tokens, int64_t heads, int64_t dim, int variant)
{
    const bool first = variant % 3 == 2, wide = variant % 2 != 0;
    struct trial *trial = trial_create("merge %s T %d heads %d of %d, variant %d", dtype_name(dtype), (int)tokens,
                                       (int)heads, (int)dim, variant);
    struct attention_merge_args m = {.part_o = trial_matrix(trial, dtype, tokens, heads * dim, wide, 1.0),
                                     .part_lse = trial_matrix(trial, DTYPE_F32, heads, tokens, wide, 1.0),
                                     .o = first
                                              ? trial_empty(trial, DTYPE_F32, tokens, heads * dim)
                                              : trial_matrix(trial, DTYPE_F32, tokens, heads * dim, variant == 3, 1.0),
                                     .lse = first ? trial_empty(trial, DTYPE_F32, heads, tokens)
                                                  : trial_matrix(trial, DTYPE_F32, heads, tokens, variant == 3, 1.0),
                                     .heads = heads,
                                     .head_dim = dim,
                                     .first = first};
    if (variant > 0)
        m.to = trial_matrix(trial, storage[variant % 4 / 2], tokens, heads * dim, wide, 1.0);
    draw_lses(&m);
    if (!first && tokens > 1) {
        struct attention_merge_args mistaken = m;
        mistaken.first = true;
        check_noticed(trial, OP_ATTENTION_MERGE, &m, &mistaken);
    }
    check_op(trial, OP_ATTENTION_MERGE, &m);
}

static void test_merge(void)
{
    static const int64_t dims[5] = {1, 7, 20, 64, 128};
    for (int64_t d = 0; d < 2; d++)
        for (int64_t t = 0; t < COUNT(lengths); t++)
            for (int64_t i = 0; i < COUNT(dims); i++)
                for (int variant = 0; variant < 4; variant++)
                    test_merge_case(storage[d], lengths[t], 1 + i % 3, dims[i], variant);
    test_merge_case(DTYPE_F32, 3, 2, 2000, 1); /* longer than what a CPU takes at a time */
}
static void test_in_parts(void)
{
    in_parts = true;
    test_wrapped(launch_in_parts, true);
    in_parts = false;
}

static void test_adding(void)
{
    adding = true;
    test_few(false);
    test_ranks();
    adding = false;
}

static void test_windows(void)
{
    static const int64_t windows[3] = {1, 20, 90};
    for (int64_t w = 0; w < COUNT(windows); w++) {
        window = windows[w];
        test_ranks();
    }
    window = 20;
    test_in_parts();
    window = 0;
}

int main(int count, char **arguments)
{
    attention_open(count, arguments);
    test_in_parts();
    test_adding();
    test_merge();
    test_ranks();
    test_windows();
    if (on_device)
        test_wrapped(launch_again, false);
    executors_close();
    return check_end();
}
