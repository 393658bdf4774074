/* Attention of an executor matches the oracle: head counts and sizes, one segment and many, empty slots, rows that no
 * segment covers, separate rows of queries and keys, query offsets, strided views, a cache's shape. On a deterministic
 * GPU, the test checks which segments have their scores computed once; the buckets that order the work are checked for
 * up to 2^31 - 1 rows.
 *
 * Arguments: "cuda"; "cudnn" checks the cases that cuDNN accepts, and that cuDNN computed them; "once" the backward
 * that computes scores once; "mma" the kernels without warpgroups. "small" as the first argument leaves few cases, for
 * tools under which a kernel takes seconds: each head size that kernels are made for, shared and separate key heads,
 * packed segments, forward and backward in both types. */
#include "ops.h"

#include "base/memory.h"
#include "cuda/attention_bucket.h"
#include "ref/wrapper.h"

enum layout {
    LAYOUT_ONE,
    LAYOUT_MANY,
    LAYOUT_HOLES,
    LAYOUT_ROWS,
    LAYOUT_CACHE,
    LAYOUT_MIXED,
    LAYOUT_CHUNKS,
    LAYOUT_AHEAD,
    LAYOUT_CROSSED,
    LAYOUT_COUNT
};
enum { SLOTS = 12, FIRST_OF_SMALL = 1 };

static bool of_cudnn, once;
static bool of_full_rows; /* where a layout has rows, each is one segment */
static bool in_parts;     /* several launches for each, with gradients in f32 */
static bool adding;       /* to old gradients */
static bool far_apart;    /* scores: sums of exp that are not taken from the largest are 0 or infinite */

/* At most four rows of equal lengths that hold `tokens` in all. */
static int32_t rows_of(int64_t tokens)
{
    int32_t rows = 4;
    while (tokens % rows != 0)
        rows--;
    return rows;
}

/* A regular layout's tables: each row's segment begins where the row does. */
static int fill_rows(int32_t table[5][SLOTS], int64_t tokens)
{
    int32_t rows = rows_of(tokens), longest = (int32_t)(tokens / rows);
    for (int slot = 0; slot < rows; slot++) {
        table[0][slot] = slot * longest;
        table[1][slot] = of_full_rows ? longest : slot == 1 ? 0 : 1 + trial_draw(longest);
    }
    return rows;
}

/* Appends a slot: of queries from *q on, which it passes. */
static int add_slot(int32_t table[5][SLOTS], int slot, int64_t *q, int64_t length, int64_t kv, int64_t keys,
                    int64_t offset)
{
    const int64_t numbers[5] = {*q, length, kv, keys, offset};
    for (int i = 0; i < 5; i++)
        table[i][slot] = (int32_t)numbers[i];
    *q += length;
    return slot + 1;
}

/* As a rank of context parallelism has it whose queries are two chunks of a row and whose keys are the whole row: 2
 * tokens + 3 keys, the queries from the 6th token on and the last. The second chunk ends in another sequence. Both
 * chunks see the first sequence's keys: a backward takes the second chunk alone. */
static int fill_chunks(int32_t table[5][SLOTS], int64_t tokens, bool second_alone)
{
    const int64_t row = 2 * tokens + 3, first = tokens / 2, second = tokens - first, next = row - (second + 1) / 2;
    int64_t q = 0;
    int slot = add_slot(table, 0, &q, first, 0, next, 5);
    if (second_alone)
        table[1][0] = 0;
    slot = add_slot(table, slot, &q, next - (row - second), 0, next, row - second);
    return add_slot(table, slot, &q, row - next, next, row - next, 0);
}

/* As in a ring, where chunks are far apart: queries that see all keys, with one and with several to spare; that have
 * none; that see none of theirs. Returns the number of keys. */
static int64_t fill_ahead(int32_t table[5][SLOTS], int64_t tokens, int *slots)
{
    const int64_t part = tokens / 4, keys = part + 30;
    int64_t q = 0;
    *slots = add_slot(table, 0, &q, part, 0, keys, keys + 5);
    *slots = add_slot(table, *slots, &q, part, keys, 0, 7);
    *slots = add_slot(table, *slots, &q, part, keys, keys, -part - 3);
    *slots = add_slot(table, *slots, &q, tokens - q, 2 * keys, keys, keys - 1);
    return 3 * keys;
}

/* Two segments, whose keys stand in the other order. */
static int fill_crossed(int32_t table[5][SLOTS], int64_t tokens)
{
    const int64_t first = tokens / 3, second = tokens - first;
    int64_t q = 0;
    int slot = add_slot(table, 0, &q, first, second, first, 0);
    return add_slot(table, slot, &q, second, 0, second, 0);
}

/* Segment tables for `tokens` rows; returns the rows of k and v, whose tables are those of q but in the last two.
 *   one    a single segment
 *   many   segments of up to half of the rows back to back, with empty slots between them
 *   holes  the same with rows that no segment covers
 *   rows   a segment at the start of each of a few rows, one of them empty; or in all of each
 *   cache  few queries at the end of many keys, k and v with rows of their own
 *   mixed  lengths and offsets unrelated: queries that see no key, keys that no query sees, segments without keys
 *   chunks, ahead, crossed  see above; `backward`: no two segments have the same keys */
static int64_t lay_out(struct trial *trial, enum layout layout, int64_t tokens, bool backward,
                       struct attention_segments *segments)
{
    int32_t table[5][SLOTS] = {{0}};
    int64_t q = 0, kv = 0, longest = layout == LAYOUT_ONE ? tokens : (tokens + 1) / 2;
    int slots = layout == LAYOUT_ROWS ? fill_rows(table, tokens) : SLOTS;
    if (layout == LAYOUT_CHUNKS)
        slots = fill_chunks(table, tokens, backward), kv = 2 * tokens + 3;
    if (layout == LAYOUT_AHEAD)
        kv = fill_ahead(table, tokens, &slots);
    if (layout == LAYOUT_CROSSED)
        slots = fill_crossed(table, tokens);
    for (int slot = 0; layout != LAYOUT_ROWS && layout < LAYOUT_CHUNKS && slot < SLOTS && q < tokens; slot++) {
        int32_t left = (int32_t)(tokens - q < longest ? tokens - q : longest);
        int32_t length = layout == LAYOUT_ONE ? left : 1 + trial_draw(left);
        if (layout != LAYOUT_ONE && slot % 3 == 1)
            continue; /* an empty slot */
        int32_t keys = length, offset = 0;
        if (layout == LAYOUT_CACHE)
            keys = length + trial_draw(20), offset = keys - length;
        if (layout == LAYOUT_MIXED)
            keys = trial_draw(2 * length + 1), offset = trial_draw(9) - 4;
        if (layout == LAYOUT_HOLES && length > 2)
            length -= 2, keys -= 2;
        table[0][slot] = (int32_t)q, table[1][slot] = length, table[2][slot] = (int32_t)kv, table[3][slot] = keys;
        table[4][slot] = offset;
        q += length + (layout == LAYOUT_HOLES ? 1 : 0);
        kv += keys + (layout == LAYOUT_HOLES ? 1 : 0);
    }
    struct tensor *to[5] = {&segments->q_start, &segments->q_length, &segments->kv_start, &segments->kv_length,
                            &segments->q_offset};
    for (int i = 0; i < 5; i++)
        *to[i] = trial_integers(trial, table[i], slots);
    segments->longest = 0, segments->regular = segments->full = false;
    if (layout >= LAYOUT_CACHE)
        return layout == LAYOUT_CROSSED ? tokens : kv + 1;
    segments->kv_start = segments->q_start, segments->kv_length = segments->q_length;
    segments->longest = layout == LAYOUT_ROWS ? tokens / slots : longest;
    segments->regular = layout == LAYOUT_ROWS;
    segments->full = segments->regular && of_full_rows;
    return tokens;
}

struct attention_shape {
    int64_t heads, kv_heads, head_dim;
};

/* Tensors of a case: columns of one matrix where q and k have as many rows, as the fused projection leaves them. */
static void lay_tensors(struct trial *trial, enum dtype dtype, const struct attention_shape *shape, int64_t queries,
                        int64_t keys, double deviation, struct tensor qkv[3])
{
    int64_t q_cols = shape->heads * shape->head_dim, kv_cols = shape->kv_heads * shape->head_dim;
    if (queries == keys) {
        struct tensor fused = trial_normal(trial, dtype, queries, q_cols + 2 * kv_cols, deviation);
        qkv[0] = tensor_columns(&fused, 0, q_cols);
        qkv[1] = tensor_columns(&fused, q_cols, kv_cols);
        qkv[2] = tensor_columns(&fused, q_cols + kv_cols, kv_cols);
        return;
    }
    qkv[0] = trial_matrix(trial, dtype, queries, q_cols, true, deviation);
    qkv[1] = trial_matrix(trial, dtype, keys, kv_cols, true, deviation);
    qkv[2] = trial_matrix(trial, dtype, keys, kv_cols, false, deviation);
}

/* Rows that no segment covers hold NaN: nobody reads them, or they count nothing. */
static void poison_holes(const struct attention_segments *segments, struct tensor qkv[3])
{
    for (int i = 0; i < 3; i++) {
        const int32_t *start = i == 0 ? segments->q_start.data : segments->kv_start.data;
        const int32_t *length = i == 0 ? segments->q_length.data : segments->kv_length.data;
        for (int64_t row = 0; row < qkv[i].rows; row++) {
            bool covered = false;
            for (int64_t slot = 0; slot < segments->q_start.cols; slot++)
                covered = covered || (row >= start[slot] && row < start[slot] + length[slot]);
            if (!covered)
                memset(tensor_at(&qkv[i], row, 0), 0xff, (size_t)(qkv[i].cols * dtype_size(qkv[i].dtype)));
        }
    }
}

/* Some views begin at odd columns, which not every implementation takes. */
static bool strided(enum layout layout)
{
    return layout % 2 != 0 && !of_cudnn && !once;
}

/* Gradients have the type of what they belong to, or f32, as they must where a GPU adds to them. */
static enum dtype gradient_type(enum dtype dtype)
{
    return in_parts || (adding && on_device) ? DTYPE_F32 : dtype;
}

/* How a backward may differ: cuDNN's, and ours that computes scores once, add in no fixed order, and a GPU rounds
 * probabilities and their gradients. */
static void allow_backward(struct trial *trial, const struct attention_backward_args *args)
{
    trial->unordered = of_cudnn || once;
    trial->coarse = on_device && args->q.dtype == DTYPE_BF16;
}

/* check_op, by cuDNN or with scores computed once where that is wanted. */
static void check_attention(struct trial *trial, enum op op, const void *args)
{
    int64_t before = executor_launches(true);
    if (op == OP_ATTENTION_BACKWARD)
        allow_backward(trial, args);
    check_op(trial, op, args);
    if (of_cudnn)
        CHECK(executor_launches(true) > before);
}

/* Of rows that are said to be full and are not, cuDNN would take all tokens: it is asked without a mask. */
static void check_full_is_used(struct trial *trial, const struct attention_backward_args *args)
{
    struct attention_backward_args mistaken = *args;
    mistaken.segments.full = true;
    allow_backward(trial, args);
    if (of_cudnn && args->segments.regular && args->segments.q_start.cols > 1 && !of_full_rows) /* one is empty */
        check_noticed(trial, OP_ATTENTION_BACKWARD, args, &mistaken);
}

/* What rope would have made of queries and keys by any table. */
static void rotate_gradients(struct trial *trial, struct attention_backward_args *args, bool interleaved)
{
    enum { POSITIONS = 9 };
    if (adding || in_parts)
        return;
    args->positions = trial_draw_integers(trial, args->q.rows, POSITIONS);
    args->table = trial_normal(trial, DTYPE_F32, POSITIONS, args->head_dim, 1.0);
    args->interleaved = interleaved;
    struct attention_backward_args other = *args, forgetful = *args;
    other.interleaved = !interleaved;
    forgetful.positions = forgetful.table = (struct tensor){0};
    allow_backward(trial, args);
    if (args->q.dtype == DTYPE_F32 && args->q.rows >= 64 && args->segments.longest > 1) {
        check_noticed(trial, OP_ATTENTION_BACKWARD, args, &forgetful);
        if (args->head_dim > 2)
            check_noticed(trial, OP_ATTENTION_BACKWARD, args, &other);
    }
}

static struct trial *create_trial(enum dtype dtype, const struct attention_shape *shape, int64_t tokens,
                                  enum layout layout, bool causal)
{
    enum { TENSORS = 12 /* as large as q, at most; f32 gradients of bf16 count twice */ };
    struct trial *trial =
        trial_create("%s T %d heads %d / %d of %d, layout %d, causal %d", dtype_name(dtype), (int)tokens,
                     (int)shape->heads, (int)shape->kv_heads, (int)shape->head_dim, (int)layout, causal);
    trial_make_room(trial, (8 << 20) + TENSORS * tokens * shape->heads * shape->head_dim * dtype_size(dtype));
    return trial;
}

static void test_attention_case(enum dtype dtype, const struct attention_shape *shape, int64_t tokens,
                                enum layout layout, bool causal)
{
    if (once && dtype != DTYPE_BF16)
        return;
    struct trial *trial = create_trial(dtype, shape, tokens, layout, causal);
    struct tensor qkv[3], d_qkv[3];
    struct attention_forward_args f = {.heads = shape->heads,
                                       .kv_heads = shape->kv_heads,
                                       .head_dim = shape->head_dim,
                                       .scale = 1.0f / sqrtf((float)shape->head_dim),
                                       .causal = causal};
    int64_t keys = lay_out(trial, layout, tokens, false, &f.segments), cols = shape->heads * shape->head_dim;
    lay_tensors(trial, dtype, shape, tokens, keys, far_apart ? 12.0 : 1.0, qkv);
    if (layout == LAYOUT_HOLES && !of_cudnn)
        poison_holes(&f.segments, qkv);
    f.q = qkv[0], f.k = qkv[1], f.v = qkv[2];
    f.o = trial_matrix(trial, dtype, tokens, cols, strided(layout), 1.0);
    f.lse = trial_empty(trial, DTYPE_F32, shape->heads, tokens);
    struct attention_forward_args mistaken = f;
    if (dtype == DTYPE_F32 && tokens >= 64 && layout == LAYOUT_ONE) {
        mistaken.scale *= 1.01f;
        check_noticed(trial, OP_ATTENTION_FORWARD, &f, &mistaken);
        mistaken = f;
        mistaken.causal = !causal;
        check_noticed(trial, OP_ATTENTION_FORWARD, &f, &mistaken);
    }
    check_attention(trial, OP_ATTENTION_FORWARD, &f);

    trial = create_trial(dtype, shape, tokens, layout, causal);
    keys = lay_out(trial, layout, tokens, true, &f.segments);
    const bool turned = keys == tokens && shape->head_dim % 2 == 0 && (layout % 2 == 0) == causal;
    lay_tensors(trial, dtype, shape, tokens, keys, far_apart ? 12.0 : 1.0, qkv);
    lay_tensors(trial, gradient_type(dtype), shape, tokens, keys, 1.0, d_qkv);
    f.q = qkv[0], f.k = qkv[1], f.v = qkv[2];
    f.o = trial_matrix(trial, dtype, tokens, cols, strided(layout), 1.0);
    f.lse = trial_empty(trial, DTYPE_F32, shape->heads, tokens);
    reference_attention_forward(&f); /* the backward reads o and lse as stored */
    struct attention_backward_args b = {.q = f.q,
                                        .k = f.k,
                                        .v = f.v,
                                        .o = f.o,
                                        .lse = f.lse,
                                        .d_o = trial_matrix(trial, dtype, tokens, cols, strided(layout), 1.0),
                                        .dq = d_qkv[0],
                                        .dk = d_qkv[1],
                                        .dv = d_qkv[2],
                                        .segments = f.segments,
                                        .heads = f.heads,
                                        .kv_heads = f.kv_heads,
                                        .head_dim = f.head_dim,
                                        .scale = f.scale,
                                        .causal = causal,
                                        .accumulate_q = adding,
                                        .accumulate_kv = adding};
    if (turned)
        rotate_gradients(trial, &b, layout == LAYOUT_ROWS);
    struct attention_backward_args mixed = b, integers = b;
    mixed.dv.dtype = b.dk.dtype == DTYPE_F32 ? DTYPE_BF16 : DTYPE_F32;
    integers.dq.dtype = DTYPE_I32;
    CHECK(op_check(OP_ATTENTION_BACKWARD, &mixed) != NULL && op_check(OP_ATTENTION_BACKWARD, &integers) != NULL);
    check_full_is_used(trial, &b);
    for (int i = 0; i < 2 && adding; i++) {
        struct attention_backward_args forgetful = b;
        *(i == 0 ? &forgetful.accumulate_q : &forgetful.accumulate_kv) = false;
        check_noticed(trial, OP_ATTENTION_BACKWARD, &b, &forgetful);
    }
    check_attention(trial, OP_ATTENTION_BACKWARD, &b);
}

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
static struct attention_segments cut_segments(struct stream *stream, const struct attention_segments *from,
                                              struct part queries, struct part keys, struct tensor to)
{
    const struct tensor *all[5] = {&from->q_start, &from->q_length, &from->kv_start, &from->kv_length, &from->q_offset};
    int32_t table[5][SLOTS] = {{0}};
    struct tensor cut_table[5];
    for (int i = 0; i < 5; i++)
        move(stream, *all[i], tensor_vector(table[i], DTYPE_I32, all[i]->cols));
    for (int64_t slot = 0; slot < from->q_start.cols; slot++) {
        table[4][slot] += cut(&table[0][slot], &table[1][slot], queries);
        table[4][slot] -= cut(&table[2][slot], &table[3][slot], keys);
    }
    for (int i = 0; i < 5; i++) {
        cut_table[i] = tensor_vector(tensor_at(&to, i, 0), DTYPE_I32, from->q_start.cols);
        move(stream, tensor_vector(table[i], DTYPE_I32, from->q_start.cols), cut_table[i]);
    }
    return (struct attention_segments){
        cut_table[0], cut_table[1], cut_table[2], cut_table[3], cut_table[4], 0, false, false, 0};
}

static void launch_part(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args)
{
    CHECK(op_check(op, args) == NULL);
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
        part.segments = cut_segments(stream, &args->segments, queries, keys, tables);
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
        part.segments = cut_segments(stream, &args->segments, queries, keys, tables);
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

/* Each kind of attention takes the library long to build: fewer of them, and such as it takes. */
static bool is_for_cudnn(enum dtype dtype, const struct attention_shape *shape, enum layout layout, int64_t tokens)
{
    return dtype == DTYPE_BF16 && shape->head_dim % 8 == 0 && layout < LAYOUT_CACHE && (tokens == 7 || tokens == 129);
}

/* The few: head sizes of each instance of the kernels, more rows than a tile has. */
static bool is_small(int64_t shape, int layout, int64_t length)
{
    return shape >= FIRST_OF_SMALL && (layout == LAYOUT_MANY || layout == LAYOUT_MIXED) && length == 129;
}

static const struct attention_shape shapes[7] = {{1, 1, 8},  {4, 2, 16}, {4, 4, 20}, {2, 1, 24},
                                                 {4, 1, 32}, {2, 2, 64}, {2, 1, 128}};

/* Segments of more tiles than a kernel has places for. */
static void test_long(void)
{
    for (int64_t s = 1; s < COUNT(shapes); s++)
        for (int causal = 0; causal < 2; causal++)
            test_attention_case(DTYPE_BF16, &shapes[s], 500, causal ? LAYOUT_ONE : LAYOUT_CACHE, causal != 0);
}

/* Rows whose scores are all below 0, and far: the first of a causal segment. */
static void test_far_apart(void)
{
    far_apart = true;
    for (int64_t s = 1; s < COUNT(shapes); s++)
        test_attention_case(DTYPE_BF16, &shapes[s], 129, LAYOUT_MANY, true);
    far_apart = false;
}

static void test_attention(bool small)
{
    for (int64_t d = 0; d < 2; d++)
        for (int64_t s = 0; s < COUNT(shapes); s++)
            for (int layout = 0; layout < LAYOUT_CHUNKS; layout++)
                for (int64_t t = 0; t < COUNT(lengths); t++)
                    for (int causal = 0; causal < 2; causal++)
                        if ((lengths[t] < 64 || (layout + s + causal + d) % 2) && /* the long ones cost most */
                            (!small || is_small(s, layout, lengths[t])) &&
                            (!of_cudnn || is_for_cudnn(storage[d], &shapes[s], (enum layout)layout, lengths[t])))
                            test_attention_case(storage[d], &shapes[s], lengths[t], layout, causal != 0);
}

/* Half of all combinations but one of lengths. */
static void test_few(bool all_layouts)
{
    for (int64_t d = 0; d < 2; d++)
        for (int64_t s = 1; s < COUNT(shapes); s++)
            for (int layout = 0; layout < LAYOUT_CHUNKS; layout++)
                for (int causal = 0; causal < 2; causal++)
                    if ((layout + s + causal + d) % 2 &&
                        (all_layouts || layout == LAYOUT_HOLES || layout == LAYOUT_MIXED))
                        test_attention_case(storage[d], &shapes[s], (layout + s / 2) % 2 ? 129 : 7, (enum layout)layout,
                                            causal != 0);
}

/* Without padding: cuDNN has a kernel of its own for that. */
static void test_full_rows(void)
{
    of_full_rows = true;
    for (int64_t s = 0; s < COUNT(shapes); s++)
        for (int64_t t = 0; t < COUNT(lengths); t++)
            for (int causal = 0; causal < 2; causal++)
                if (is_for_cudnn(DTYPE_BF16, &shapes[s], LAYOUT_ROWS, lengths[t]))
                    test_attention_case(DTYPE_BF16, &shapes[s], lengths[t], LAYOUT_ROWS, causal != 0);
    of_full_rows = false;
}

/* What ranks have that share rows, with heads of own and of shared keys. */
static void test_ranks(void)
{
    static const int64_t of_shapes[3] = {1, 5, 6};
    for (int64_t d = 0; d < 2; d++)
        for (int64_t s = 0; s < COUNT(of_shapes); s++)
            for (int layout = LAYOUT_CHUNKS; layout < LAYOUT_COUNT; layout++)
                test_attention_case(storage[d], &shapes[of_shapes[s]], 129, (enum layout)layout, true);
}

/* More items than blocks are on a device: a block begins one while it ends another. */
static void test_many_items(void)
{
    static const struct attention_shape wide[3] = {{80, 10, 32}, {96, 96, 64}, {96, 12, 128}};
    for (int64_t s = 0; s < COUNT(wide); s++)
        for (int causal = 0; causal < 2; causal++)
            test_attention_case(DTYPE_BF16, &wide[s], 140, causal ? LAYOUT_HOLES : LAYOUT_MIXED, causal != 0);
}

/* Sequences that go on by a token: one query a segment, keys elsewhere, in another order, with rows between them that
 * nobody reads. The last sees fewer keys than there are, and one sees none. */
static void test_steps_case(enum dtype dtype, const struct attention_shape *shape, int slots, bool causal)
{
    static const int32_t lengths_of[SLOTS] = {33, 1, 0, 64, 500, 7, 129, 2, 65, 31, 300, 90};
    struct trial *trial = create_trial(dtype, shape, 1300, LAYOUT_CACHE, causal);
    int32_t table[5][SLOTS] = {{0}};
    int32_t keys = 3;
    for (int slot = slots - 1; slot >= 0; slot--) {
        table[0][slot] = slot, table[1][slot] = 1;
        table[2][slot] = keys, table[3][slot] = lengths_of[slot];
        table[4][slot] = lengths_of[slot] - (slot == slots - 1 ? 3 : 1);
        keys += lengths_of[slot] + 2;
    }
    struct attention_forward_args f = {.heads = shape->heads,
                                       .kv_heads = shape->kv_heads,
                                       .head_dim = shape->head_dim,
                                       .scale = 1.0f / sqrtf((float)shape->head_dim),
                                       .causal = causal};
    struct attention_segments *s = &f.segments;
    struct tensor *to[5] = {&s->q_start, &s->q_length, &s->kv_start, &s->kv_length, &s->q_offset};
    for (int i = 0; i < 5; i++)
        *to[i] = trial_integers(trial, table[i], slots);
    s->longest = 1, s->regular = s->full = true;
    const int64_t cols = shape->heads * shape->head_dim, kv_cols = shape->kv_heads * shape->head_dim;
    struct tensor kv = trial_normal(trial, dtype, keys, 2 * kv_cols, 1.0);
    struct tensor qkv[3] = {trial_normal(trial, dtype, slots, cols, 1.0), tensor_columns(&kv, 0, kv_cols),
                            tensor_columns(&kv, kv_cols, kv_cols)};
    poison_holes(s, qkv);
    f.q = qkv[0], f.k = qkv[1], f.v = qkv[2];
    f.o = trial_matrix(trial, dtype, slots, cols, false, 1.0);
    f.lse = trial_empty(trial, DTYPE_F32, shape->heads, slots);
    check_attention(trial, OP_ATTENTION_FORWARD, &f);
}

static void test_steps(void)
{
    static const struct attention_shape more[4] = {{16, 2, 128}, {8, 1, 96}, {6, 2, 64}, {8, 2, 80}};
    for (int64_t d = 0; d < 2; d++)
        for (int64_t s = 0; s < COUNT(shapes) + COUNT(more); s++)
            for (int slots = 1; slots <= SLOTS; slots = 2 * slots + 1 < SLOTS || slots == SLOTS ? 2 * slots + 1 : SLOTS)
                test_steps_case(storage[d], s < COUNT(shapes) ? &shapes[s] : &more[s - COUNT(shapes)], slots,
                                (slots + s) % 2 != 0);
}

/* One to six tiles of 64 queries: two blocks of a GPU that pass over the same queries take turns, and an odd number of
 * tiles ends otherwise than an even one. Heads that share keys would make it even. */
static void test_turns(void)
{
    static const struct attention_shape own_keys = {1, 1, 128};
    for (int64_t tiles = 1; tiles <= 6; tiles++)
        for (int causal = 0; causal < 2; causal++)
            test_attention_case(DTYPE_BF16, &own_keys, 64 * tiles - 5 * causal, LAYOUT_ONE, causal != 0);
}

/* Heads that kernels pad. */
static void test_padded(void)
{
    static const struct attention_shape padded[5] = {{2, 1, 40}, {4, 1, 80}, {2, 2, 96}, {3, 3, 104}, {2, 1, 120}};
    for (int64_t s = 0; s < COUNT(padded); s++)
        for (int causal = 0; causal < 2; causal++)
            test_attention_case(DTYPE_BF16, &padded[s], 300, causal ? LAYOUT_HOLES : LAYOUT_MIXED, causal != 0);
}

/* A few, each launch made several ones by a wrapper. */
static void test_wrapped(void (*launch)(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args),
                         bool all_layouts)
{
    struct wrapper wrappers[EXECUTORS];
    for (int i = 0; i < executor_count; i++) {
        wrapper_create(&wrappers[i], executors[i], launch, NULL);
        executors[i] = &wrappers[i].executor;
    }
    test_few(all_layouts);
    for (int i = 0; i < executor_count; i++)
        executors[i] = wrappers[i].inner;
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

/* A deterministic GPU computes scores once where no more than two blocks add to a row of dq: of short segments. A
 * second launch must give the same bits. */
static void test_short(void)
{
    static const struct attention_shape few[5] = {{2, 1, 32}, {2, 2, 64}, {1, 1, 96}, {1, 1, 16}, {1, 1, 128}};
    executor_attention_as_trained();
    for (int64_t s = 0; s < COUNT(few); s++)
        for (int causal = 0; causal < 2; causal++) {
            const bool wide = few[s].head_dim > 96;
            int64_t before = executor_launches(false);
            test_attention_case(DTYPE_BF16, &few[s], wide ? 500 : 256, LAYOUT_ONE, causal != 0);
            CHECK((executor_launches(false) > before) == !(wide && causal));
            before = executor_launches(false);
            test_attention_case(DTYPE_BF16, &few[s], wide ? 516 : 260, LAYOUT_ONE, causal != 0);
            CHECK(executor_launches(false) == before);
            test_attention_case(DTYPE_BF16, &few[s], wide ? 516 : 260, LAYOUT_HOLES, causal != 0);
            CHECK((executor_launches(false) > before) == !(wide && causal));
        }
}

/* Of rows up to 2^31 - 1 of the other side: more rows are never in an earlier bucket, buckets of up to 32,768 rows are
 * a unit wide, others 1/32 of their rows or less. */
static void test_buckets(void)
{
    int before = 0;
    for (int64_t rows = 0; rows <= INT32_MAX; rows += 1 + rows / 1000) {
        const int bucket = attention_bucket((int)rows), units = attention_bucket_units(bucket);
        const int apart = (int)(rows / BUCKET_ROWS) - units;
        CHECK(bucket >= before && bucket < BUCKETS);
        CHECK(apart >= 0 && (rows < BUCKET_SINGLE * BUCKET_ROWS ? apart == 0 : apart < units / 32 + 1));
        before = bucket;
    }
    CHECK(attention_bucket(INT32_MAX) == BUCKETS - 1);
    for (int bucket = 0; bucket < BUCKETS; bucket++)
        CHECK(attention_bucket(attention_bucket_units(bucket) * BUCKET_ROWS) == bucket);
}

int main(int count, char **arguments)
{
    bool small = count > 1 && strcmp(arguments[1], "small") == 0;
    of_cudnn = count > 1 + small && strcmp(arguments[1 + small], "cudnn") == 0;
    executors_open(count - small, arguments + small);
    once = count > 1 + small && strcmp(arguments[1 + small], "once") == 0;
    test_buckets();
    if (of_cudnn)
        bounds_of_separate_heads();
    test_attention(small);
    if (of_cudnn)
        test_full_rows();
    if (!of_cudnn && !once)
        test_steps();
    if (!small && !of_cudnn)
        test_long(), test_far_apart(), test_in_parts(), test_adding(), test_merge(), test_ranks();
    if (on_device && !of_cudnn && !small)
        test_padded(), test_turns(), test_many_items(), test_wrapped(launch_again, false);
    if (once)
        CHECK(executor_launches(false) > 0);
    if (count > 1 && strcmp(arguments[1], "cuda") == 0)
        test_short();
    executors_close();
    return check_end();
}
