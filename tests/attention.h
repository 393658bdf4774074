/* Compares attention with the oracle, for t_attention and t_attention_parts: segment tables, a case with its forward
 * and backward, and loops over cases. */
#ifndef TESTS_ATTENTION_H
#define TESTS_ATTENTION_H

#include "ops.h"

#include "ref/wrapper.h"

enum layout {
    LAYOUT_ONE,
    LAYOUT_MANY,
    LAYOUT_HOLES,
    LAYOUT_ROWS,
    LAYOUT_CACHE,
    LAYOUT_MIXED,
    LAYOUT_SLICES,
    LAYOUT_AHEAD,
    LAYOUT_CROSSED,
    LAYOUT_COUNT
};
enum { SLOTS = 12 };

static bool once;
static bool of_full_rows; /* in layouts with rows, each row is one segment */
static bool in_parts;     /* each op is split into several launches, with gradients in f32 */
static bool adding;       /* add to old gradients */
static int64_t window;    /* sliding window of causal cases; 0: none */
static bool far_apart;    /* large scores: exp(score) overflows or underflows unless the largest score is subtracted */

/* Returns a number of rows, at most four, that divides `tokens` evenly. */
static inline int32_t rows_of(int64_t tokens)
{
    int32_t rows = 4;
    while (tokens % rows != 0)
        rows--;
    return rows;
}

/* Fills the tables of a layout with one segment in each row, at its beginning. */
static inline int fill_rows(int32_t table[5][SLOTS], int64_t tokens)
{
    int32_t rows = rows_of(tokens), longest = (int32_t)(tokens / rows);
    for (int slot = 0; slot < rows; slot++) {
        table[0][slot] = slot * longest;
        table[1][slot] = of_full_rows ? longest : slot == 1 ? 0 : 1 + trial_draw(longest);
    }
    return rows;
}

/* Appends a slot whose queries begin at *q, and advances *q. */
static inline int add_slot(int32_t table[5][SLOTS], int slot, int64_t *q, int64_t length, int64_t kv, int64_t keys,
                           int64_t offset)
{
    const int64_t numbers[5] = {*q, length, kv, keys, offset};
    for (int i = 0; i < 5; i++)
        table[i][slot] = (int32_t)numbers[i];
    *q += length;
    return slot + 1;
}

/* Fills the tables of a context-parallel rank: the queries are two slices of a row, the keys the whole row of 2 tokens
 * + 3. The first slice begins at the 6th token, the second ends with the row, in another sequence. Both slices see the
 * first sequence's keys; a backward uses only the second slice. */
static inline int fill_slices(int32_t table[5][SLOTS], int64_t tokens, bool second_alone)
{
    const int64_t row = 2 * tokens + 3, first = tokens / 2, second = tokens - first, next = row - (second + 1) / 2;
    int64_t q = 0;
    int slot = add_slot(table, 0, &q, first, 0, next, 5);
    if (second_alone)
        table[1][0] = 0;
    slot = add_slot(table, slot, &q, next - (row - second), 0, next, row - second);
    return add_slot(table, slot, &q, row - next, next, row - next, 0);
}

/* Fills tables as in a ring, with slices far apart: queries just or far after all of their keys, without keys, and
 * before all of their keys. Returns the number of keys. */
static inline int64_t fill_ahead(int32_t table[5][SLOTS], int64_t tokens, int *slots)
{
    const int64_t part = tokens / 4, keys = part + 30;
    int64_t q = 0;
    *slots = add_slot(table, 0, &q, part, 0, keys, keys + 5);
    *slots = add_slot(table, *slots, &q, part, keys, 0, 7);
    *slots = add_slot(table, *slots, &q, part, keys, keys, -part - 3);
    *slots = add_slot(table, *slots, &q, tokens - q, 2 * keys, keys, keys - 1);
    return 3 * keys;
}

/* Fills the tables of two segments whose keys are in the opposite order. */
static inline int fill_crossed(int32_t table[5][SLOTS], int64_t tokens)
{
    const int64_t first = tokens / 3, second = tokens - first;
    int64_t q = 0;
    int slot = add_slot(table, 0, &q, first, second, first, 0);
    return add_slot(table, slot, &q, second, 0, second, 0);
}

/* Makes segment tables for `tokens` rows. Returns the number of rows of k and v. In the first four layouts, k and v
 * have the tables of q. backward: no two segments have the same keys.
 *
 *   one      a single segment
 *   many     contiguous segments of up to half of the rows, with empty slots between them
 *   holes    like `many`, with rows that no segment covers
 *   rows     a segment at the start of each of a few rows, one of them empty; or each row is a segment (of_full_rows)
 *   cache    few queries at the end of many keys, with separate rows of k and v
 *   mixed    unrelated lengths and offsets: queries that see no key, keys that no query sees, segments without keys
 *   slices, ahead, crossed   see above */
static inline int64_t lay_out(struct trial *trial, enum layout layout, int64_t tokens, bool backward,
                              struct attention_segments *segments)
{
    int32_t table[5][SLOTS] = {{0}};
    int64_t q = 0, kv = 0, longest = layout == LAYOUT_ONE ? tokens : (tokens + 1) / 2;
    int slots = layout == LAYOUT_ROWS ? fill_rows(table, tokens) : SLOTS;
    if (layout == LAYOUT_SLICES)
        slots = fill_slices(table, tokens, backward), kv = 2 * tokens + 3;
    if (layout == LAYOUT_AHEAD)
        kv = fill_ahead(table, tokens, &slots);
    if (layout == LAYOUT_CROSSED)
        slots = fill_crossed(table, tokens);
    for (int slot = 0; layout != LAYOUT_ROWS && layout < LAYOUT_SLICES && slot < SLOTS && q < tokens; slot++) {
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
    segments->longest = 0, segments->full = false;
    if (layout >= LAYOUT_CACHE)
        return layout == LAYOUT_CROSSED ? tokens : kv + 1;
    segments->kv_start = segments->q_start, segments->kv_length = segments->q_length;
    segments->longest = layout == LAYOUT_ROWS ? tokens / slots : longest;
    segments->full = layout == LAYOUT_ROWS && of_full_rows;
    return tokens;
}

struct attention_shape {
    int64_t heads, kv_heads, head_dim;
};

/* Makes q, k and v of a case. If they have the same number of rows, they are columns of one matrix, as after the fused
 * projection. */
static inline void lay_tensors(struct trial *trial, enum dtype dtype, const struct attention_shape *shape,
                               int64_t queries, int64_t keys, double deviation, struct tensor qkv[3])
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

/* Fills rows that no segment covers with NaN: ops must not read them, or must ignore them. */
static inline void poison_holes(const struct attention_segments *segments, struct tensor qkv[3])
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

/* Returns whether views begin at odd columns, which not every implementation supports. */
static inline bool strided(enum layout layout)
{
    return layout % 2 != 0 && !once;
}

/* Returns the type of gradients: that of their tensors, or f32, which is required where a GPU adds to them. */
static inline enum dtype gradient_type(enum dtype dtype)
{
    return in_parts || (adding && on_device) ? DTYPE_F32 : dtype;
}

/* Allows differences of a backward: the one-pass backward has no fixed order of additions, and a GPU rounds
 * probabilities and their gradients. */
static inline void allow_backward(struct trial *trial, const struct attention_backward_args *args)
{
    trial->unordered = once;
    trial->coarse = on_device && args->q.dtype == DTYPE_BF16;
}

static inline void check_attention(struct trial *trial, enum op op, const void *args)
{
    if (op == OP_ATTENTION_BACKWARD)
        allow_backward(trial, args);
    check_op(trial, op, args);
}

/* Adds the rotation of the gradients by rope, with random positions and table, and checks that a missing or different
 * rotation is noticed. */
static inline void rotate_gradients(struct trial *trial, struct attention_backward_args *args, bool interleaved)
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

static inline struct trial *create_trial(enum dtype dtype, const struct attention_shape *shape, int64_t tokens,
                                         enum layout layout, bool causal)
{
    enum { TENSORS = 12 /* at most, as large as q; f32 gradients of bf16 count twice */ };
    struct trial *trial =
        trial_create("%s T %d heads %d / %d of %d, layout %d, causal %d, window %d", dtype_name(dtype), (int)tokens,
                     (int)shape->heads, (int)shape->kv_heads, (int)shape->head_dim, (int)layout, causal, (int)window);
    trial_reserve(trial, (8 << 20) + TENSORS * tokens * shape->heads * shape->head_dim * dtype_size(dtype));
    return trial;
}

static inline void test_attention_case(enum dtype dtype, const struct attention_shape *shape, int64_t tokens,
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
                                       .causal = causal,
                                       .window = causal ? window : 0};
    int64_t keys = lay_out(trial, layout, tokens, false, &f.segments), cols = shape->heads * shape->head_dim;
    lay_tensors(trial, dtype, shape, tokens, keys, far_apart ? 12.0 : 1.0, qkv);
    if (layout == LAYOUT_HOLES)
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
        mistaken.window = 0;
        check_noticed(trial, OP_ATTENTION_FORWARD, &f, &mistaken);
        mistaken = f;
        mistaken.window++;
        if (f.window > 0)
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
                                        .window = f.window,
                                        .accumulate_q = adding,
                                        .accumulate_kv = adding};
    if (turned)
        rotate_gradients(trial, &b, layout == LAYOUT_ROWS);
    struct attention_backward_args mixed = b, integers = b;
    mixed.dv.dtype = b.dk.dtype == DTYPE_F32 ? DTYPE_BF16 : DTYPE_F32;
    integers.dq.dtype = DTYPE_I32;
    CHECK(op_check(OP_ATTENTION_BACKWARD, &mixed) != NULL && op_check(OP_ATTENTION_BACKWARD, &integers) != NULL);
    allow_backward(trial, &b);
    for (int i = 0; i < 2 && adding; i++) {
        struct attention_backward_args forgetful = b;
        *(i == 0 ? &forgetful.accumulate_q : &forgetful.accumulate_kv) = false;
        check_noticed(trial, OP_ATTENTION_BACKWARD, &b, &forgetful);
    }
    check_attention(trial, OP_ATTENTION_BACKWARD, &b);
}

static const struct attention_shape shapes[7] = {{1, 1, 8},  {4, 2, 16}, {4, 4, 20}, {2, 1, 24},
                                                 {4, 1, 32}, {2, 2, 64}, {2, 1, 128}};

/* Tests half of all combinations except lengths. */
static inline void test_few(bool all_layouts)
{
    for (int64_t d = 0; d < 2; d++)
        for (int64_t s = 1; s < COUNT(shapes); s++)
            for (int layout = 0; layout < LAYOUT_SLICES; layout++)
                for (int causal = 0; causal < 2; causal++)
                    if ((layout + s + causal + d) % 2 &&
                        (all_layouts || layout == LAYOUT_HOLES || layout == LAYOUT_MIXED))
                        test_attention_case(storage[d], &shapes[s], (layout + s / 2) % 2 ? 129 : 7, (enum layout)layout,
                                            causal != 0);
}

/* Tests layouts of context-parallel ranks, with own and shared key heads. */
static inline void test_ranks(void)
{
    static const int64_t of_shapes[3] = {1, 5, 6};
    for (int64_t d = 0; d < 2; d++)
        for (int64_t s = 0; s < COUNT(of_shapes); s++)
            for (int layout = LAYOUT_SLICES; layout < LAYOUT_COUNT; layout++)
                test_attention_case(storage[d], &shapes[of_shapes[s]], 129, (enum layout)layout, true);
}

/* Tests a few cases, with a wrapper that splits each launch into several. */
static inline void test_wrapped(void (*launch)(struct wrapper *wrapper, struct stream *stream, enum op op,
                                               const void *args),
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

/* Chooses executors and their modes from the arguments after "small": a number of threads, "cuda", "once" or "mma". */
static inline void attention_open(int count, char **arguments)
{
    executors_open(count, arguments);
    once = count > 1 && strcmp(arguments[1], "once") == 0;
}

#endif
