/* Attention of an executor matches the oracle: head counts and sizes, one segment and many, empty slots, rows that no
 * segment covers, separate rows of queries and keys, query offsets, sliding windows, strided views, a cache's shape. On
 * a deterministic GPU, the test checks which segments have their scores computed once; the buckets that order the work
 * are checked for up to 2^31 - 1 rows.
 *
 * Arguments: "cuda"; "once" checks the backward that computes scores once; "mma" the kernels without warpgroups.
 * "small" as the first argument leaves few cases, for tools under which a kernel takes seconds: each head size that
 * kernels are made for, shared and separate key heads, packed segments, forward and backward in both types. */
#include "attention.h"

#include "cuda/attention_bucket.h"

enum { FIRST_OF_SMALL = 1 };

/* The few: head sizes of each instance of the kernels, more rows than a tile has. */
static bool is_small(int64_t shape, int layout, int64_t length)
{
    return shape >= FIRST_OF_SMALL && (layout == LAYOUT_MANY || layout == LAYOUT_MIXED) && length == 129;
}

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

/* Sliding windows: below, at and above the sizes of tiles, and longer than the segments. */
static void test_windows(bool small)
{
    static const int64_t windows[6] = {1, 2, 33, 64, 130, 1000};
    static const enum layout layouts[5] = {LAYOUT_ONE, LAYOUT_MANY, LAYOUT_HOLES, LAYOUT_CACHE, LAYOUT_MIXED};
    for (int64_t w = 0; w < COUNT(windows); w++)
        for (int64_t s = small ? COUNT(shapes) - 1 : 1; s < COUNT(shapes); s++) {
            const bool wide = (w + s) % 3 == 0;
            window = windows[w];
            test_attention_case(wide ? DTYPE_F32 : DTYPE_BF16, &shapes[s], wide ? 100 : 200, layouts[(w + s) % 5],
                                true);
        }
    window = 33;
    test_attention_case(DTYPE_F32, &shapes[4], 129, LAYOUT_ONE, true); /* where other windows must be noticed */
    window = 0;
}

static void test_attention(bool small)
{
    for (int64_t d = 0; d < 2; d++)
        for (int64_t s = 0; s < COUNT(shapes); s++)
            for (int layout = 0; layout < LAYOUT_SLICES; layout++)
                for (int64_t t = 0; t < COUNT(lengths); t++)
                    for (int causal = 0; causal < 2; causal++)
                        if ((lengths[t] < 64 || (layout + s + causal + d) % 2) && /* the long ones cost most */
                            (!small || is_small(s, layout, lengths[t])))
                            test_attention_case(storage[d], &shapes[s], lengths[t], layout, causal != 0);
}

/* Without padding: there are no rows to clear. */
static void test_full_rows(void)
{
    of_full_rows = true;
    for (int64_t s = 0; s < COUNT(shapes); s++)
        for (int causal = 0; causal < 2; causal++) {
            test_attention_case(DTYPE_BF16, &shapes[s], 7, LAYOUT_ROWS, causal != 0);
            test_attention_case(DTYPE_BF16, &shapes[s], 129, LAYOUT_ROWS, causal != 0);
        }
    of_full_rows = false;
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
                                       .causal = causal,
                                       .window = causal ? window : 0};
    struct attention_segments *s = &f.segments;
    struct tensor *to[5] = {&s->q_start, &s->q_length, &s->kv_start, &s->kv_length, &s->q_offset};
    for (int i = 0; i < 5; i++)
        *to[i] = trial_integers(trial, table[i], slots);
    s->longest = 1, s->full = true;
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

static void test_steps(int64_t of_window)
{
    static const struct attention_shape more[4] = {{16, 2, 128}, {8, 1, 96}, {6, 2, 64}, {8, 2, 80}};
    window = of_window;
    for (int64_t d = 0; d < 2; d++)
        for (int64_t s = 0; s < COUNT(shapes) + COUNT(more); s++)
            for (int slots = 1; slots <= SLOTS; slots = 2 * slots + 1 < SLOTS || slots == SLOTS ? 2 * slots + 1 : SLOTS)
                test_steps_case(storage[d], s < COUNT(shapes) ? &shapes[s] : &more[s - COUNT(shapes)], slots,
                                window > 0 || (slots + s) % 2 != 0);
    window = 0;
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

/* The backward that computes scores once, of long rows: some heads after others. */
static void test_few_heads_together(void)
{
    static const struct attention_shape many[3] = {{8, 4, 128}, {6, 3, 64}, {5, 5, 96}};
    for (int64_t s = 0; s < COUNT(many); s++)
        for (int some = 0; some < 2; some++) {
            executor_limit_attention_sums(some ? 256 << 10 : 1); /* two or three kv heads together, or one */
            test_attention_case(DTYPE_BF16, &many[s], 150, some ? LAYOUT_MANY : LAYOUT_MIXED, some != 0);
        }
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
            int64_t before = executor_launches();
            test_attention_case(DTYPE_BF16, &few[s], wide ? 500 : 256, LAYOUT_ONE, causal != 0);
            CHECK((executor_launches() > before) == !(wide && causal));
            before = executor_launches();
            test_attention_case(DTYPE_BF16, &few[s], wide ? 516 : 260, LAYOUT_ONE, causal != 0);
            CHECK(executor_launches() == before);
            test_attention_case(DTYPE_BF16, &few[s], wide ? 516 : 260, LAYOUT_HOLES, causal != 0);
            CHECK((executor_launches() > before) == !(wide && causal));
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
    attention_open(count - small, arguments + small);
    test_buckets();
    test_attention(small);
    test_windows(small);
    if (!once)
        test_steps(0), test_steps(60);
    if (!small)
        test_full_rows(), test_long(), test_far_apart();
    if (on_device && !small)
        test_padded(), test_turns(), test_many_items();
    if (once) {
        CHECK(executor_launches() > 0);
        test_few_heads_together();
    }
    if (count > 1 && strcmp(arguments[1], "cuda") == 0)
        test_short();
    executors_close();
    return check_end();
}
