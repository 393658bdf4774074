/* Attention of an executor against the oracle: head counts and sizes, one segment and many, empty slots, rows that no
 * segment covers, queries and keys with rows of their own, query offsets, strided views. With "cudnn" what cuDNN takes,
 * and it must have been cuDNN that did it; with "mma" kernels without warpgroups. "small" as the first argument leaves
 * few of them, for tools under which a kernel takes seconds: each size of heads that kernels are made for, shared and
 * own key heads, packed segments, forward and backward in both types. */
#include "ops.h"

enum layout { LAYOUT_ONE, LAYOUT_MANY, LAYOUT_HOLES, LAYOUT_ROWS, LAYOUT_CACHE, LAYOUT_MIXED, LAYOUT_COUNT };
enum { SLOTS = 12, FIRST_OF_SMALL = 1 };

static bool of_cudnn;

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
        table[1][slot] = slot == 1 ? 0 : 1 + trial_draw(longest);
    }
    return rows;
}

/* Segment tables for `tokens` rows; returns the rows of k and v, whose tables are those of q but in the last two.
 *   one    a single segment
 *   many   segments of up to half of the rows back to back, with empty slots between them
 *   holes  the same with rows that no segment covers
 *   rows   a segment at the start of each of a few rows, one of them empty
 *   cache  few queries at the end of many keys, k and v with rows of their own
 *   mixed  lengths and offsets unrelated: queries that see no key, keys that no query sees, segments without keys */
static int64_t lay_out(struct trial *trial, enum layout layout, int64_t tokens, struct attention_segments *segments)
{
    int32_t table[5][SLOTS] = {{0}};
    int64_t q = 0, kv = 0, longest = layout == LAYOUT_ONE ? tokens : (tokens + 1) / 2;
    int slots = layout == LAYOUT_ROWS ? fill_rows(table, tokens) : SLOTS;
    for (int slot = 0; layout != LAYOUT_ROWS && slot < SLOTS && q < tokens; slot++) {
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
    segments->longest = 0, segments->regular = false;
    if (layout == LAYOUT_CACHE || layout == LAYOUT_MIXED)
        return kv + 1;
    segments->kv_start = segments->q_start, segments->kv_length = segments->q_length;
    segments->longest = layout == LAYOUT_ROWS ? tokens / slots : longest;
    segments->regular = layout == LAYOUT_ROWS;
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

/* Some views begin at odd columns, which cuDNN does not take. */
static bool strided(enum layout layout)
{
    return layout % 2 != 0 && !of_cudnn;
}

/* check_op, by cuDNN where that is wanted: its backward adds in no fixed order. */
static void check_attention(struct trial *trial, enum op op, const void *args)
{
    int64_t before = executor_cudnn_launches();
    trial->unordered = of_cudnn && op == OP_ATTENTION_BACKWARD;
    check_op(trial, op, args);
    if (of_cudnn)
        CHECK(executor_cudnn_launches() > before);
}

static void test_attention_case(enum dtype dtype, const struct attention_shape *shape, int64_t tokens,
                                enum layout layout, bool causal)
{
    struct trial *trial =
        trial_create("%s T %d heads %d / %d of %d, layout %d, causal %d", dtype_name(dtype), (int)tokens,
                     (int)shape->heads, (int)shape->kv_heads, (int)shape->head_dim, (int)layout, causal);
    struct tensor qkv[3], d_qkv[3];
    struct attention_forward_args f = {.heads = shape->heads,
                                       .kv_heads = shape->kv_heads,
                                       .head_dim = shape->head_dim,
                                       .scale = 1.0f / sqrtf((float)shape->head_dim),
                                       .causal = causal};
    int64_t keys = lay_out(trial, layout, tokens, &f.segments), cols = shape->heads * shape->head_dim;
    lay_tensors(trial, dtype, shape, tokens, keys, 1.0, qkv);
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

    trial = trial_create("%s T %d heads %d / %d of %d, layout %d, causal %d", dtype_name(dtype), (int)tokens,
                         (int)shape->heads, (int)shape->kv_heads, (int)shape->head_dim, (int)layout, causal);
    keys = lay_out(trial, layout, tokens, &f.segments);
    lay_tensors(trial, dtype, shape, tokens, keys, 1.0, qkv);
    lay_tensors(trial, dtype, shape, tokens, keys, 1.0, d_qkv);
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
                                        .causal = causal};
    check_attention(trial, OP_ATTENTION_BACKWARD, &b);
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

static void test_attention(bool small)
{
    for (int64_t d = 0; d < 2; d++)
        for (int64_t s = 0; s < COUNT(shapes); s++)
            for (int layout = 0; layout < LAYOUT_COUNT; layout++)
                for (int64_t t = 0; t < COUNT(lengths); t++)
                    for (int causal = 0; causal < 2; causal++)
                        if ((lengths[t] < 64 || (layout + s + causal + d) % 2) && /* the long ones cost most */
                            (!small || is_small(s, layout, lengths[t])) &&
                            (!of_cudnn || is_for_cudnn(storage[d], &shapes[s], (enum layout)layout, lengths[t])))
                            test_attention_case(storage[d], &shapes[s], lengths[t], layout, causal != 0);
}

int main(int count, char **arguments)
{
    bool small = count > 1 && strcmp(arguments[1], "small") == 0;
    of_cudnn = count > 1 + small && strcmp(arguments[1 + small], "cudnn") == 0;
    executors_open(count - small, arguments + small);
    if (of_cudnn)
        bounds_of_separate_heads();
    test_attention(small);
    if (!small && !of_cudnn)
        test_long();
    executors_close();
    return check_end();
}
