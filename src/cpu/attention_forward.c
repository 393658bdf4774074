/* Attention forward over blocks of keys with a running maximum and sum (Dao et al. 2022). A work item is a block of
 * queries of a segment and head; its result depends only on its own arguments. */
#include "cpu/attention_segments.h"
#include "cpu/attention_tile.h"

#include "base/error.h"

#include <float.h>
#include <omp.h>

/* A block of queries of one head. */
struct query_block {
    int32_t slot, head, first; /* first: first query, counted from the start of its segment */
};

/* One thread's scratch. Matrices with TILE_QUERIES columns have a query per column. */
struct forward_scratch {
    float *q;             /* [head_dim, TILE_QUERIES], scaled */
    float *o;             /* [head_dim, TILE_QUERIES] */
    float *s;             /* [TILE_KEYS, TILE_QUERIES]: scores, then probabilities */
    float *rows;          /* [TILE_QUERIES or TILE_KEYS, head_dim]: other rows that were read */
    float *largest, *sum; /* [TILE_QUERIES]: running maximum and sum */
    float *factor;        /* [TILE_QUERIES] */
};

struct forward_layout {
    struct query_block *blocks;
    char *covered; /* [rows of q] */
    char *threads; /* thread_bytes for each thread */
    int64_t thread_bytes;
};

static int64_t lay_out_thread(int64_t head_dim, char *base, struct forward_scratch *scratch)
{
    int64_t used = 0, size = sizeof(float);
    scratch->q = cpu_take(base, &used, head_dim * TILE_QUERIES * size);
    scratch->o = cpu_take(base, &used, head_dim * TILE_QUERIES * size);
    scratch->s = cpu_take(base, &used, TILE_KEYS * TILE_QUERIES * size);
    scratch->rows = cpu_take(base, &used, cpu_max(TILE_KEYS, TILE_QUERIES) * head_dim * size);
    scratch->largest = cpu_take(base, &used, TILE_QUERIES * size);
    scratch->sum = cpu_take(base, &used, TILE_QUERIES * size);
    scratch->factor = cpu_take(base, &used, TILE_QUERIES * size);
    return used;
}

static int64_t lay_out(const struct cpu *cpu, const struct attention_forward_args *args, char *base,
                       struct forward_layout *layout)
{
    int64_t used = 0, most = (args->q.rows / TILE_QUERIES + attention_slots(&args->segments)) * args->heads;
    struct forward_scratch scratch;
    layout->blocks = cpu_take(base, &used, most * (int64_t)sizeof(struct query_block));
    layout->covered = cpu_take(base, &used, args->q.rows);
    layout->thread_bytes = lay_out_thread(args->head_dim, NULL, &scratch);
    layout->threads = cpu_take(base, &used, layout->thread_bytes * cpu->threads);
    return used;
}

int64_t cpu_attention_forward_workspace(const struct cpu *cpu, const struct attention_forward_args *args)
{
    struct forward_layout layout;
    return lay_out(cpu, args, NULL, &layout);
}

/* Updates each query's running maximum and sum by a block of scores: s becomes exp(s - largest), and factor the number
 * by which all earlier probabilities must be multiplied. */
CPU_CLONES static void update(float *restrict s, int64_t keys, int64_t lanes, float *restrict largest,
                              float *restrict sum, float *restrict factor)
{
    float before[TILE_QUERIES];
    memcpy(before, largest, (size_t)lanes * sizeof *before);
    for (int64_t key = 0; key < keys; key++)
#pragma omp simd
        for (int64_t i = 0; i < lanes; i++) {
            float score = s[key * TILE_QUERIES + i];
            largest[i] = score > largest[i] ? score : largest[i];
        }
#pragma omp simd
    for (int64_t i = 0; i < lanes; i++) {
        factor[i] = cpu_exp(before[i] - largest[i]);
        sum[i] *= factor[i];
    }
    for (int64_t key = 0; key < keys; key++)
#pragma omp simd
        for (int64_t i = 0; i < lanes; i++) {
            float p = cpu_exp(s[key * TILE_QUERIES + i] - largest[i]);
            s[key * TILE_QUERIES + i] = p;
            sum[i] += p;
        }
}

CPU_CLONES static void scale_columns(float *restrict o, int64_t rows, int64_t lanes, const float *factor)
{
    for (int64_t d = 0; d < rows; d++)
#pragma omp simd
        for (int64_t i = 0; i < lanes; i++)
            o[d * TILE_QUERIES + i] *= factor[i];
}

/* Divides by the sums and stores o and lse. */
static void finish(const struct attention_forward_args *args, const struct forward_scratch *scratch, int64_t head,
                   int64_t row, int64_t queries, int64_t lanes)
{
    const struct tensor *o = &args->o;
    int64_t dim = args->head_dim, col = head * dim;
    float *lse = tensor_at(&args->lse, head, row);
    for (int64_t i = 0; i < lanes; i++)
        scratch->factor[i] = scratch->sum[i] == 0.0f ? 0.0f : 1.0f / scratch->sum[i];
    scale_columns(scratch->o, dim, lanes, scratch->factor);
    for (int64_t i = 0; i < queries; i++)
        lse[i] = scratch->sum[i] == 0.0f ? -INFINITY : scratch->largest[i] + logf(scratch->sum[i]);
    if (o->dtype == DTYPE_F32) {
        tile_transpose(scratch->o, TILE_QUERIES, dim, queries, 1.0f, tensor_at(o, row, col), o->stride, dim);
        return;
    }
    tile_transpose(scratch->o, TILE_QUERIES, dim, queries, 1.0f, scratch->rows, dim, dim);
    for (int64_t i = 0; i < queries; i++)
        cpu_narrow(scratch->rows + i * dim, tensor_at(o, row + i, col), o->dtype, dim);
}

static void forward_block(const struct attention_forward_args *args, const struct query_block *block,
                          const struct forward_scratch *scratch)
{
    int64_t head = block->head;
    struct attention_segment segment = attention_segment(&args->segments, block->slot);
    int64_t first = block->first, queries = cpu_min(TILE_QUERIES, segment.q_length - first);
    int64_t lanes = (queries + TILE_LANES - 1) / TILE_LANES * TILE_LANES;
    int64_t dim = args->head_dim, kv_col = head / (args->heads / args->kv_heads) * dim;
    attention_read(&args->q, segment.q_start + first, queries, head * dim, dim, scratch->rows);
    tile_transpose(scratch->rows, dim, queries, dim, args->scale, scratch->q, TILE_QUERIES, lanes);
    memset(scratch->o, 0, (size_t)(dim * TILE_QUERIES) * sizeof(float));
    for (int64_t i = 0; i < lanes; i++) {
        scratch->largest[i] = -FLT_MAX; /* finite, because a query that sees no key subtracts it from -infinity */
        scratch->sum[i] = 0.0f;
    }
    int64_t keys = attention_visible(&segment, first + queries - 1, args->causal);
    /* tiles of keys are the same for all queries, so that a query's result does not depend on the others of its block
     */
    int64_t begin = attention_first(&segment, first, args->window) / TILE_KEYS * TILE_KEYS;
    for (int64_t key = begin; key < keys; key += TILE_KEYS) {
        int64_t count = cpu_min(TILE_KEYS, keys - key), row = segment.kv_start + key;
        int64_t shift = first + segment.offset - key; /* the key at the block's first query */
        const struct tile_lanes seeing = tile_seeing(lanes, count, shift, args->causal, args->window);
        int64_t skip = seeing.first, rest = seeing.count;
        float *s = scratch->s + skip, *o = scratch->o + skip, *factor = scratch->factor + skip;
        attention_read(&args->k, row, count, kv_col, dim, scratch->rows);
        tile_multiply(s, TILE_QUERIES, (struct tile_factor){scratch->rows, dim, 1}, scratch->q + skip, TILE_QUERIES,
                      count, rest, dim, false);
        if (args->causal)
            tile_mask(s, count, rest, shift + skip, args->window);
        update(s, count, rest, scratch->largest + skip, scratch->sum + skip, factor);
        if (key > begin)
            scale_columns(o, dim, rest, factor);
        attention_read(&args->v, row, count, kv_col, dim, scratch->rows);
        tile_multiply(o, TILE_QUERIES, (struct tile_factor){scratch->rows, 1, dim}, s, TILE_QUERIES, dim, rest, count,
                      true);
    }
    finish(args, scratch, head, segment.q_start + first, queries, lanes);
}

/* Lists the blocks of all segments and heads, and returns their number. Blocks of a head are consecutive, so that its
 * keys and values stay in a core's cache; its last block, the longest with a causal mask, comes first, because waiting
 * for one thread costs most at the end. */
static int64_t list_blocks(const struct attention_forward_args *args, struct query_block *blocks)
{
    int64_t count = 0;
    for (int64_t slot = 0; slot < attention_slots(&args->segments); slot++) {
        int64_t blocks_each = (attention_segment(&args->segments, slot).q_length + TILE_QUERIES - 1) / TILE_QUERIES;
        for (int64_t head = 0; head < args->heads; head++)
            for (int64_t i = blocks_each - 1; i >= 0; i--)
                blocks[count++] = (struct query_block){(int32_t)slot, (int32_t)head, (int32_t)(i * TILE_QUERIES)};
    }
    return count;
}

void cpu_attention_forward(struct cpu *cpu, const struct attention_forward_args *args)
{
    struct forward_layout layout;
    lay_out(cpu, args, cpu->workspace, &layout);
    attention_cover(&args->segments, false, args->q.rows, layout.covered);
    attention_clear_rows(&args->o, layout.covered);
    for (int64_t head = 0; head < args->heads; head++) {
        float *lse = tensor_at(&args->lse, head, 0);
        for (int64_t t = 0; t < args->q.rows; t++)
            lse[t] = layout.covered[t] ? lse[t] : -INFINITY;
    }
    int64_t count = list_blocks(args, layout.blocks);
#pragma omp parallel num_threads(cpu_threads(cpu, tensor_count(&args->q)))
    {
        struct forward_scratch scratch;
        lay_out_thread(args->head_dim, layout.threads + omp_get_thread_num() * layout.thread_bytes, &scratch);
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < count; i++)
            forward_block(args, &layout.blocks[i], &scratch);
    }
}
