/* Attention backward, with probabilities recomputed from lse. A work item is a segment and a kv head; it sums dk and dv
 * over its queries and query heads in order, so threads share nothing. */
#include "cpu/attention_segments.h"
#include "cpu/attention_tile.h"

#include <omp.h>

/* One thread's scratch. Matrices with TILE_QUERIES columns have a query per column; width is head_dim rounded up to
 * TILE_LANES. */
struct backward_scratch {
    int64_t width;
    float *q, *d_o, *dq;      /* [head_dim, TILE_QUERIES]; q scaled */
    float *q_rows, *d_o_rows; /* [TILE_QUERIES, width]: q scaled */
    float *s, *ds;            /* [TILE_KEYS, TILE_QUERIES] */
    float *k_block, *v_block; /* [TILE_KEYS or TILE_QUERIES, head_dim]: rows that were read */
    float *lse, *delta;       /* [TILE_QUERIES] */
    float *dk, *dv;           /* [rows of k, width]: sums over an item */
};

static int64_t lay_out_thread(const struct attention_backward_args *args, char *base, struct backward_scratch *scratch)
{
    int64_t used = 0, size = sizeof(float), dim = args->head_dim;
    int64_t width = (dim + TILE_LANES - 1) / TILE_LANES * TILE_LANES;
    scratch->width = width;
    scratch->q = cpu_take(base, &used, dim * TILE_QUERIES * size);
    scratch->d_o = cpu_take(base, &used, dim * TILE_QUERIES * size);
    scratch->dq = cpu_take(base, &used, dim * TILE_QUERIES * size);
    scratch->q_rows = cpu_take(base, &used, TILE_QUERIES * width * size);
    scratch->d_o_rows = cpu_take(base, &used, TILE_QUERIES * width * size);
    scratch->s = cpu_take(base, &used, TILE_KEYS * TILE_QUERIES * size);
    scratch->ds = cpu_take(base, &used, TILE_KEYS * TILE_QUERIES * size);
    scratch->k_block = cpu_take(base, &used, cpu_max(TILE_KEYS, TILE_QUERIES) * dim * size);
    scratch->v_block = cpu_take(base, &used, cpu_max(TILE_KEYS, TILE_QUERIES) * dim * size);
    scratch->lse = cpu_take(base, &used, TILE_QUERIES * size);
    scratch->delta = cpu_take(base, &used, TILE_QUERIES * size);
    scratch->dk = cpu_take(base, &used, args->k.rows * width * size);
    scratch->dv = cpu_take(base, &used, args->k.rows * width * size);
    return used;
}

struct backward_layout {
    char *q_covered, *kv_covered; /* [rows of q], [rows of k] */
    char *threads;                /* thread_bytes for each thread */
    int64_t thread_bytes;
};

static int64_t lay_out(const struct cpu *cpu, const struct attention_backward_args *args, char *base,
                       struct backward_layout *layout)
{
    int64_t used = 0;
    struct backward_scratch scratch;
    layout->q_covered = cpu_take(base, &used, args->q.rows);
    layout->kv_covered = cpu_take(base, &used, args->k.rows);
    layout->thread_bytes = lay_out_thread(args, NULL, &scratch);
    layout->threads = cpu_take(base, &used, layout->thread_bytes * cpu->threads);
    return used;
}

int64_t cpu_attention_backward_workspace(const struct cpu *cpu, const struct attention_backward_args *args)
{
    struct backward_layout layout;
    return lay_out(cpu, args, NULL, &layout);
}

CPU_CLONES static float dot(const float *x, const float *y, int64_t count)
{
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++)
        sum += x[i] * y[i];
    return sum;
}

/* Replaces s by the probabilities p = exp(s - lse), and dp in ds by p (dp - delta). */
CPU_CLONES static void score_gradients(float *restrict s, float *restrict ds, int64_t keys, int64_t lanes,
                                       const float *lse, const float *delta)
{
    for (int64_t key = 0; key < keys; key++)
#pragma omp simd
        for (int64_t i = 0; i < lanes; i++) {
            float p = cpu_exp(s[key * TILE_QUERIES + i] - lse[i]);
            s[key * TILE_QUERIES + i] = p;
            ds[key * TILE_QUERIES + i] = p * (ds[key * TILE_QUERIES + i] - delta[i]);
        }
}

/* Stores rows of a gradient from f32 rows in scratch, after adding the old rows (in k_block) when accumulate. */
static void store_rows(const struct tensor *to, int64_t row, int64_t col, int64_t rows, int64_t cols, float *from,
                       bool accumulate, const struct backward_scratch *scratch)
{
    for (int64_t i = 0; i < rows; i++, from += scratch->width) {
        if (accumulate)
            cpu_add_span(cpu_read(to, row + i, col, cols, scratch->k_block), from, cols);
        cpu_narrow(from, tensor_at(to, row + i, col), to->dtype, cols);
    }
}

/* Loads queries first .. first + queries - 1 of a head into scratch: q and d_o by column and by row, lse, and delta =
 * d_o o'. */
static void load_queries(const struct attention_backward_args *args, int64_t head, int64_t row, int64_t queries,
                         int64_t lanes, const struct backward_scratch *scratch)
{
    int64_t dim = args->head_dim, col = head * dim, width = scratch->width;
    attention_read(&args->q, row, queries, col, dim, scratch->k_block);
    tile_transpose(scratch->k_block, dim, queries, dim, args->scale, scratch->q, TILE_QUERIES, lanes);
    tile_copy(scratch->k_block, dim, queries, dim, args->scale, scratch->q_rows, width, width);
    attention_read(&args->d_o, row, queries, col, dim, scratch->k_block);
    tile_transpose(scratch->k_block, dim, queries, dim, 1.0f, scratch->d_o, TILE_QUERIES, lanes);
    tile_copy(scratch->k_block, dim, queries, dim, 1.0f, scratch->d_o_rows, width, width);
    attention_read(&args->o, row, queries, col, dim, scratch->v_block);
    const float *lse = tensor_at(&args->lse, head, row);
    for (int64_t i = 0; i < lanes; i++) {
        /* finite, because the scores of a query that sees no key are -infinity too */
        scratch->lse[i] = i < queries && lse[i] != -INFINITY ? lse[i] : 0.0f;
        scratch->delta[i] = i < queries ? dot(scratch->k_block + i * dim, scratch->v_block + i * dim, dim) : 0.0f;
    }
}

/* Processes one block of queries of one head: writes dq, adds to dk and dv. */
static void backward_block(const struct attention_backward_args *args, const struct attention_segment *segment,
                           int64_t head, int64_t first, const struct backward_scratch *scratch)
{
    int64_t queries = cpu_min(TILE_QUERIES, segment->q_length - first), dim = args->head_dim, width = scratch->width;
    int64_t lanes = (queries + TILE_LANES - 1) / TILE_LANES * TILE_LANES;
    int64_t kv_col = head / (args->heads / args->kv_heads) * dim;
    load_queries(args, head, segment->q_start + first, queries, lanes, scratch);
    memset(scratch->dq, 0, (size_t)(dim * TILE_QUERIES) * sizeof(float));
    int64_t keys = attention_visible(segment, first + queries - 1, args->causal);
    int64_t begin = attention_first(segment, first, args->window) / TILE_KEYS * TILE_KEYS;
    for (int64_t key = begin; key < keys; key += TILE_KEYS) {
        int64_t count = cpu_min(TILE_KEYS, keys - key), row = segment->kv_start + key;
        int64_t shift = first + segment->offset - key; /* the key at the block's first query */
        const struct tile_lanes seeing = tile_seeing(lanes, count, shift, args->causal, args->window);
        int64_t skip = seeing.first, rest = seeing.count, depth = cpu_min(queries - skip, rest);
        float *s = scratch->s + skip, *ds = scratch->ds + skip;
        attention_read(&args->k, row, count, kv_col, dim, scratch->k_block);
        attention_read(&args->v, row, count, kv_col, dim, scratch->v_block);
        tile_multiply(s, TILE_QUERIES, (struct tile_factor){scratch->k_block, dim, 1}, scratch->q + skip, TILE_QUERIES,
                      count, rest, dim, false);
        if (args->causal)
            tile_mask(s, count, rest, shift + skip, args->window);
        tile_multiply(ds, TILE_QUERIES, (struct tile_factor){scratch->v_block, dim, 1}, scratch->d_o + skip,
                      TILE_QUERIES, count, rest, dim, false);
        score_gradients(s, ds, count, rest, scratch->lse + skip, scratch->delta + skip);
        tile_multiply(scratch->dv + key * width, width, (struct tile_factor){s, TILE_QUERIES, 1},
                      scratch->d_o_rows + skip * width, width, count, width, depth, true);
        tile_multiply(scratch->dk + key * width, width, (struct tile_factor){ds, TILE_QUERIES, 1},
                      scratch->q_rows + skip * width, width, count, width, depth, true);
        tile_multiply(scratch->dq + skip, TILE_QUERIES, (struct tile_factor){scratch->k_block, 1, dim}, ds,
                      TILE_QUERIES, dim, rest, count, true);
    }
    tile_transpose(scratch->dq, TILE_QUERIES, dim, queries, args->scale, scratch->q_rows, width, dim);
    store_rows(&args->dq, segment->q_start + first, head * dim, queries, dim, scratch->q_rows, args->accumulate_q,
               scratch);
}

static void backward_item(const struct attention_backward_args *args, int64_t slot, int64_t kv_head,
                          const struct backward_scratch *scratch)
{
    struct attention_segment segment = attention_segment(&args->segments, slot);
    if (segment.q_length <= 0)
        return;
    int64_t share = args->heads / args->kv_heads, dim = args->head_dim, width = scratch->width;
    size_t bytes = (size_t)(segment.kv_length * width) * sizeof(float);
    memset(scratch->dk, 0, bytes);
    memset(scratch->dv, 0, bytes);
    for (int64_t head = kv_head * share; head < (kv_head + 1) * share; head++)
        for (int64_t first = 0; first < segment.q_length; first += TILE_QUERIES)
            backward_block(args, &segment, head, first, scratch);
    store_rows(&args->dk, segment.kv_start, kv_head * dim, segment.kv_length, dim, scratch->dk, args->accumulate_kv,
               scratch);
    store_rows(&args->dv, segment.kv_start, kv_head * dim, segment.kv_length, dim, scratch->dv, args->accumulate_kv,
               scratch);
}

void cpu_attention_backward(struct cpu *cpu, const struct attention_backward_args *args)
{
    struct backward_layout layout;
    lay_out(cpu, args, cpu->workspace, &layout);
    attention_cover(&args->segments, false, args->q.rows, layout.q_covered);
    attention_cover(&args->segments, true, args->k.rows, layout.kv_covered);
    if (!args->accumulate_q)
        attention_clear_rows(&args->dq, layout.q_covered);
    if (!args->accumulate_kv) {
        attention_clear_rows(&args->dk, layout.kv_covered);
        attention_clear_rows(&args->dv, layout.kv_covered);
    }
    int64_t items = attention_slots(&args->segments) * args->kv_heads;
#pragma omp parallel num_threads(cpu_threads(cpu, tensor_count(&args->q)))
    {
        struct backward_scratch scratch;
        lay_out_thread(args, layout.threads + omp_get_thread_num() * layout.thread_bytes, &scratch);
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < items; i++)
            backward_item(args, i / args->kv_heads, i % args->kv_heads, &scratch);
    }
    const struct tensor rotated[] = {args->dq, args->dk};
    for (int i = 0; i < 2 && tensor_present(&args->positions); i++)
        cpu_rope(cpu, &(struct rope_args){.x = rotated[i],
                                          .positions = args->positions,
                                          .table = args->table,
                                          .head_dim = args->head_dim,
                                          .interleaved = args->interleaved,
                                          .inverse = true});
}
