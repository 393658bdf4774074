/* Attention of the CUDA executor, by its own kernels, in the backward with scores computed twice and once: errors
 * against double precision on odd shapes, then rates.
 *   bench/gpu/attention_speed [check|time] [mma]      exits with 1 when a check is wrong
 * mma: by the products of single warps, as on GPUs that have no warpgroups' */
#include "base/clock.h"
#include "base/memory.h"
#include "cuda/attention.h"
#include "cuda/cuda.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SLOTS = 512, RUNS = 7, REPEATS = 10 };

static struct executor *executor;
static struct stream stream;

struct shape {
    const char *name;
    enum dtype dtype;
    int heads, kv_heads, dim;
    bool causal;
    int window;                    /* sliding window; 0: none */
    int count, lengths[MAX_SLOTS]; /* of queries */
    int gap;                       /* rows between segments that none covers */
    int before;                    /* keys that come before each segment's queries: a cache */
};

/* One shape's tensors; those that are compared are on the host too. */
struct problem {
    struct attention_segments segments;
    int32_t table[5][MAX_SLOTS]; /* q_start, q_length, kv_start, kv_length, q_offset */
    int64_t queries, keys;       /* rows */
    struct tensor q, k, v, o, lse, d_o, dq, dk, dv;
};

/* -- Tensors ----------------------------------------------------------------------------------------------------- */

static uint32_t draw(void)
{
    static uint32_t state = 1;
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

/* Nearly normal: a sum of uniform numbers, of variance 1. */
static float draw_normal(void)
{
    float sum = 0.0f;
    for (int i = 0; i < 4; i++)
        sum += (float)draw() * 0x1p-24f - 0.5f;
    return sum * 1.7320508f;
}

static struct tensor device(enum dtype dtype, int64_t rows, int64_t cols)
{
    return tensor_matrix(executor->class->allocate(executor, rows * cols * dtype_size(dtype), MEMORY_DEVICE), dtype,
                         rows, cols);
}

static void upload(struct tensor to, const void *values)
{
    struct tensor from = tensor_matrix((void *)values, to.dtype, to.rows, to.cols);
    LAUNCH(&stream, COPY, copy, .from = from, .to = to);
    stream_synchronize(&stream);
}

/* A block of random numbers over and over: large matrices would take long to draw. NaN instead when `poison`. */
static struct tensor filled(enum dtype dtype, int64_t rows, int64_t cols, bool poison)
{
    enum { BLOCK = 1000003 };
    static float block[BLOCK];
    int64_t count = rows * cols, size = dtype_size(dtype);
    char *values = memory_allocate(count * size);
    for (int64_t i = 0; i < BLOCK && i < count; i++)
        block[i] = draw_normal();
    for (int64_t i = 0; i < count; i++) {
        float x = poison ? NAN : block[i % BLOCK];
        if (dtype == DTYPE_BF16)
            ((uint16_t *)values)[i] = f32_to_bf16(x);
        else
            ((float *)values)[i] = x;
    }
    struct tensor t = device(dtype, rows, cols);
    upload(t, values);
    memory_free(values);
    return t;
}

static bool has_cache(const struct shape *s)
{
    return s->before > 0;
}

static void lay_tables(struct problem *p, const struct shape *s)
{
    int64_t q = 0, kv = 0, longest = 0, shortest = INT64_MAX;
    for (int i = 0; i < s->count; i++) {
        int32_t length = s->lengths[i], values[5] = {(int32_t)q, length, (int32_t)kv, length + s->before, s->before};
        for (int j = 0; j < 5; j++)
            p->table[j][i] = values[j];
        longest = length > longest ? length : longest;
        shortest = length < shortest ? length : shortest;
        q += length + s->gap;
        kv += length + s->before + s->gap;
    }
    p->queries = q, p->keys = kv;
    struct tensor *to[5] = {&p->segments.q_start, &p->segments.q_length, &p->segments.kv_start, &p->segments.kv_length,
                            &p->segments.q_offset};
    for (int j = 0; j < 5; j++) {
        *to[j] = device(DTYPE_I32, 1, s->count);
        upload(*to[j], p->table[j]);
    }
    if (has_cache(s))
        return;
    executor->class->release(executor, p->segments.kv_start.data, MEMORY_DEVICE);
    executor->class->release(executor, p->segments.kv_length.data, MEMORY_DEVICE);
    p->segments.kv_start = p->segments.q_start, p->segments.kv_length = p->segments.q_length;
    p->segments.longest = longest;
    p->segments.full = s->gap == 0 && longest == shortest;
}

/* q, k and v, and their gradients, are columns of one matrix where they have as many rows. */
static void lay_matrix(const struct problem *p, const struct shape *s, bool poison, struct tensor to[3])
{
    int64_t width = (int64_t)s->heads * s->dim, kv_width = (int64_t)s->kv_heads * s->dim;
    struct tensor kv, fused = filled(s->dtype, p->queries, width + 2 * kv_width, poison);
    to[0] = tensor_columns(&fused, 0, width);
    kv = p->keys == p->queries ? tensor_columns(&fused, width, 2 * kv_width)
                               : filled(s->dtype, p->keys, 2 * kv_width, poison);
    to[1] = tensor_columns(&kv, 0, kv_width);
    to[2] = tensor_columns(&kv, kv_width, kv_width);
}

static void make(struct problem *p, const struct shape *s)
{
    struct tensor x[3], dx[3];
    int64_t width = (int64_t)s->heads * s->dim;
    lay_tables(p, s);
    lay_matrix(p, s, false, x);
    lay_matrix(p, s, true, dx);
    p->q = x[0], p->k = x[1], p->v = x[2], p->dq = dx[0], p->dk = dx[1], p->dv = dx[2];
    p->o = filled(s->dtype, p->queries, width, true);
    p->d_o = filled(s->dtype, p->queries, width, false);
    p->lse = filled(DTYPE_F32, s->heads, p->queries, true);
}

static void discard(const struct problem *p, const struct shape *s)
{
    const struct tensor *all[] = {&p->q, &p->dq, &p->o, &p->d_o, &p->lse};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        executor->class->release(executor, all[i]->data, MEMORY_DEVICE);
    if (p->keys != p->queries) {
        executor->class->release(executor, p->k.data, MEMORY_DEVICE);
        executor->class->release(executor, p->dk.data, MEMORY_DEVICE);
    }
    const struct tensor *tables[] = {&p->segments.q_start, &p->segments.q_length, &p->segments.q_offset,
                                     &p->segments.kv_start, &p->segments.kv_length};
    for (int i = 0; i < (has_cache(s) ? 5 : 3); i++)
        executor->class->release(executor, tables[i]->data, MEMORY_DEVICE);
}

static struct attention_forward_args forward_args(const struct problem *p, const struct shape *s)
{
    return (struct attention_forward_args){p->q,        p->k,     p->v,        p->o,   p->lse,
                                           p->segments, s->heads, s->kv_heads, s->dim, 1.0f / sqrtf((float)s->dim),
                                           s->causal,   s->window};
}

static struct attention_backward_args backward_args(const struct problem *p, const struct shape *s)
{
    return (struct attention_backward_args){.q = p->q,
                                            .k = p->k,
                                            .v = p->v,
                                            .o = p->o,
                                            .lse = p->lse,
                                            .d_o = p->d_o,
                                            .dq = p->dq,
                                            .dk = p->dk,
                                            .dv = p->dv,
                                            .segments = p->segments,
                                            .heads = s->heads,
                                            .kv_heads = s->kv_heads,
                                            .head_dim = s->dim,
                                            .scale = 1.0f / sqrtf((float)s->dim),
                                            .causal = s->causal,
                                            .window = s->window};
}

static void run(enum op op, const void *args)
{
    executor->class->reserve(executor, STREAM_COMPUTE, executor->class->workspace(executor, op, args));
    launch(&stream, op, args);
}

/* Of the kernels: the name of those that run from now on; NULL: they do not take this shape. */
enum { IMPLEMENTATIONS = 2 };
static const char *take(int implementation, const struct shape *s)
{
    static const char *const names[IMPLEMENTATIONS] = {"own", "once"};
    static const enum attention_taken taken[IMPLEMENTATIONS] = {ATTENTION_OWN, ATTENTION_ONCE};
    const bool narrow = s->dtype == DTYPE_BF16 && s->dim % 8 == 0;
    if (implementation > 0 && !narrow)
        return NULL;
    cuda_attention_take(taken[implementation]);
    return names[implementation];
}

/* -- Errors ------------------------------------------------------------------------------------------------------ */

/* A tensor's values in double, contiguous. */
static double *download(const struct tensor *t)
{
    int64_t count = tensor_count(t);
    struct tensor host = tensor_matrix(memory_allocate(count * dtype_size(t->dtype)), t->dtype, t->rows, t->cols);
    LAUNCH(&stream, COPY, copy, .from = *t, .to = host);
    stream_synchronize(&stream);
    double *values = memory_allocate(count * 8);
    for (int64_t i = 0; i < count; i++)
        values[i] = tensor_get(&host, i / t->cols, i % t->cols);
    memory_free(host.data);
    return values;
}

struct truth {
    double *q, *k, *v, *d_o, *o, *lse, *dq, *dk, *dv;
};

/* One head of one segment; dk and dv are added to. */
static void true_head(const struct problem *p, const struct shape *s, int slot, int head, const struct truth *t)
{
    int64_t dim = s->dim, width = s->heads * dim, kv_width = s->kv_heads * dim, first = p->table[0][slot];
    int64_t length = p->table[1][slot], kv_first = p->table[2][slot], col = head * dim;
    int64_t kv_col = head / (s->heads / s->kv_heads) * dim;
    double scale = 1.0f / sqrtf((float)s->dim), *score = memory_allocate((p->table[3][slot] + 1) * 8);
    for (int64_t i = 0; i < length; i++) {
        int64_t row = first + i, seen = p->table[3][slot];
        if (s->causal && i + p->table[4][slot] + 1 < seen)
            seen = i + p->table[4][slot] + 1;
        const int64_t before = s->window > 0 ? i + p->table[4][slot] + 1 - s->window : 0,
                      from = before > 0 ? before : 0;
        const double *q = t->q + row * width + col, *d_o = t->d_o + row * width + col;
        double *o = t->o + row * width + col, *dq = t->dq + row * width + col, largest = -INFINITY, sum = 0.0;
        for (int64_t j = from; j < seen; j++) {
            const double *k = t->k + (kv_first + j) * kv_width + kv_col;
            double x = 0.0;
            for (int64_t c = 0; c < dim; c++)
                x += q[c] * k[c];
            score[j] = x * scale;
            largest = fmax(largest, score[j]);
        }
        for (int64_t j = from; j < seen; j++)
            sum += score[j] = exp(score[j] - largest);
        t->lse[head * p->queries + row] = largest + log(sum);
        for (int64_t j = from; j < seen; j++) {
            const double *v = t->v + (kv_first + j) * kv_width + kv_col;
            score[j] /= sum;
            for (int64_t c = 0; c < dim; c++)
                o[c] += score[j] * v[c];
        }
        double delta = 0.0;
        for (int64_t c = 0; c < dim; c++)
            delta += d_o[c] * o[c];
        for (int64_t j = from; j < seen; j++) {
            int64_t at = (kv_first + j) * kv_width + kv_col;
            double dp = 0.0;
            for (int64_t c = 0; c < dim; c++)
                dp += d_o[c] * t->v[at + c];
            double ds = score[j] * (dp - delta) * scale;
            for (int64_t c = 0; c < dim; c++) {
                dq[c] += ds * t->k[at + c];
                t->dk[at + c] += ds * q[c];
                t->dv[at + c] += score[j] * d_o[c];
            }
        }
    }
    memory_free(score);
}

/* |got - wanted| / |wanted| over all elements, rows that no segment covers included. Infinite ones must be the same. */
static double error_of(const struct tensor *got, const double *wanted)
{
    double *values = download(got), difference = 0.0, norm = 0.0;
    for (int64_t i = 0; i < tensor_count(got); i++) {
        if (isinf(wanted[i]) && values[i] == wanted[i])
            continue;
        difference += (values[i] - wanted[i]) * (values[i] - wanted[i]);
        norm += wanted[i] * wanted[i];
    }
    memory_free(values);
    return sqrt(difference / (norm > 0.0 ? norm : 1.0));
}

/* One implementation's results, in outputs that held NaN before. */
static bool check_one(const struct problem *p, const struct shape *s, const char *name, const struct truth *t)
{
    const struct tensor *outputs[5] = {&p->o, &p->lse, &p->dq, &p->dk, &p->dv};
    const double *wanted[5] = {t->o, t->lse, t->dq, t->dk, t->dv};
    struct attention_forward_args forward = forward_args(p, s);
    struct attention_backward_args backward = backward_args(p, s);
    const int64_t before = cuda_attention_launches();
    for (int i = 0; i < 5; i++)
        LAUNCH(&stream, FILL, fill, .x = *outputs[i], .value = NAN);
    run(OP_ATTENTION_FORWARD, &forward);
    run(OP_ATTENTION_BACKWARD, &backward);
    bool right = true, refused = cuda_attention_launches() != before + (strcmp(name, "once") == 0);
    printf("%-27s %-5s %-4s %3d / %-2d of %-3d %-6s %7lld", s->name, name, dtype_name(s->dtype), s->heads, s->kv_heads,
           s->dim, s->causal ? "causal" : "full", (long long)p->queries);
    for (int i = 0; i < 5; i++) {
        double error = error_of(outputs[i], wanted[i]), most = i == 1 || s->dtype == DTYPE_F32 ? 1e-5 : 1e-2;
        printf("  %8.1e", error);
        right = right && error < most; /* false for NaN */
    }
    printf("%s%s\n", right ? "" : "  WRONG", refused ? "  not all by it" : "");
    return right;
}

/* Returns whether it is right. */
static bool check(const struct shape *s)
{
    struct problem p = {0};
    make(&p, s);
    int64_t count = tensor_count(&p.q), kv_count = tensor_count(&p.k);
    struct truth t = {download(&p.q),
                      download(&p.k),
                      download(&p.v),
                      download(&p.d_o),
                      memory_allocate(count * 8),
                      memory_allocate(s->heads * p.queries * 8),
                      memory_allocate(count * 8),
                      memory_allocate(kv_count * 8),
                      memory_allocate(kv_count * 8)};
    for (int64_t i = 0; i < s->heads * p.queries; i++)
        t.lse[i] = -INFINITY; /* of rows that no segment covers */
    int share = s->heads / s->kv_heads;
#pragma omp parallel for collapse(2) schedule(dynamic)
    for (int slot = 0; slot < s->count; slot++)
        for (int kv_head = 0; kv_head < s->kv_heads; kv_head++)
            for (int head = kv_head * share; head < (kv_head + 1) * share; head++)
                true_head(&p, s, slot, head, &t);
    bool right = true;
    for (int i = 0; i < IMPLEMENTATIONS; i++) {
        const char *name = take(i, s);
        if (name != NULL)
            right &= check_one(&p, s, name, &t);
    }
    double *all[] = {t.q, t.k, t.v, t.d_o, t.o, t.lse, t.dq, t.dk, t.dv};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        memory_free(all[i]);
    discard(&p, s);
    return right;
}

static bool check_all(void)
{
    static const int dims[] = {16, 20, 24, 32, 64, 80, 128};
    bool right = true;
    printf("%-27s %-5s %-4s %-12s %-6s %9s  %8s  %8s  %8s  %8s  %8s\n", "relative errors", "by", "", "heads", "",
           "tokens", "o", "lse", "dq", "dk", "dv");
    for (int narrow = 0; narrow < 2; narrow++) {
        enum dtype dtype = narrow ? DTYPE_BF16 : DTYPE_F32;
        for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
            for (int j = 0; j < 4; j++)
                right &= check(&(struct shape){.name = "1, 17, 128, 0, 300 or 1000",
                                               .dtype = dtype,
                                               .heads = 4,
                                               .kv_heads = j % 2 ? 1 : 4,
                                               .dim = dims[i],
                                               .causal = j / 2,
                                               .count = 5,
                                               .lengths = {1, 17, 128, 0, dims[i] % 64 ? 300 : 1000}});
        for (int j = 0; j < 4; j++) {
            struct shape many = {.name = j / 2 ? "400 segments, gaps" : "400 segments",
                                 .dtype = dtype,
                                 .heads = 4,
                                 .kv_heads = 2,
                                 .dim = j / 2 ? 32 : 64,
                                 .causal = j % 2,
                                 .count = 400,
                                 .gap = j / 2 ? 3 : 0};
            for (int i = 0; i < many.count; i++)
                many.lengths[i] = i % 7 == 3 ? 0 : (int)(draw() % 70);
            right &= check(&many);
            right &= check(&(struct shape){.name = "behind 137 other keys",
                                           .dtype = dtype,
                                           .heads = 4,
                                           .kv_heads = 2,
                                           .dim = j / 2 ? 128 : 64,
                                           .causal = j % 2,
                                           .count = 3,
                                           .lengths = {1, 200, 40},
                                           .gap = 1,
                                           .before = 137});
        }
    }
    return right;
}

/* -- Rates ------------------------------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median seconds of a launch. */
static double seconds_of(enum op op, const void *args)
{
    double samples[RUNS];
    for (int i = -1; i < RUNS; i++) { /* the first warms up */
        double start = clock_seconds();
        for (int j = 0; j < REPEATS; j++)
            run(op, args);
        stream_synchronize(&stream);
        samples[i < 0 ? 0 : i] = (clock_seconds() - start) / REPEATS;
    }
    qsort(samples, RUNS, sizeof *samples, by_value);
    return samples[RUNS / 2];
}

/* Median seconds of a backward that turns dq and dk back, by any table. */
static double seconds_turned(struct attention_backward_args args)
{
    enum { POSITIONS = 1024 };
    int32_t *positions = memory_allocate(args.q.rows * 4);
    for (int64_t row = 0; row < args.q.rows; row++)
        positions[row] = (int32_t)(row % POSITIONS);
    args.positions = device(DTYPE_I32, 1, args.q.rows);
    upload(args.positions, positions);
    memory_free(positions);
    args.table = filled(DTYPE_F32, POSITIONS, args.head_dim, false);
    const double seconds = seconds_of(OP_ATTENTION_BACKWARD, &args);
    executor->class->release(executor, args.positions.data, MEMORY_DEVICE);
    executor->class->release(executor, args.table.data, MEMORY_DEVICE);
    return seconds;
}

/* Work is counted as 4 length^2 heads dim forward and 2.5 times that backward, halved when causal, less the triangle
 * outside of a window. */
static void measure(const struct shape *s)
{
    struct problem p = {0};
    make(&p, s);
    struct attention_forward_args forward = forward_args(&p, s);
    struct attention_backward_args backward = backward_args(&p, s);
    double work = 0.0;
    for (int i = 0; i < s->count; i++) {
        const double length = s->lengths[i], outside = s->window > 0 ? fmax(0.0, length - s->window) : 0.0;
        work += 4.0 * (length * length - outside * outside) * s->heads * s->dim / (s->causal ? 2.0 : 1.0);
    }
    for (int i = 0; i < IMPLEMENTATIONS; i++) {
        const char *name = take(i, s);
        if (name == NULL)
            continue;
        double seconds[2] = {seconds_of(OP_ATTENTION_FORWARD, &forward), seconds_of(OP_ATTENTION_BACKWARD, &backward)};
        int64_t scratch = executor->class->workspace(executor, OP_ATTENTION_BACKWARD, &backward);
        printf("%-44s %-5s %9.3f ms %7.1f TFLOP/s %9.3f ms %7.1f TFLOP/s %9.3f ms %7.1f MB\n", i == 0 ? s->name : "",
               name, seconds[0] * 1e3, work / seconds[0] * 1e-12, seconds[1] * 1e3, 2.5 * work / seconds[1] * 1e-12,
               seconds_turned(backward) * 1e3, (double)scratch * 1e-6);
    }
    discard(&p, s);
}

/* `count` segments of one length, by heads of several sizes. */
static struct shape even(const char *name, int count, int length, int heads, int dim, bool causal)
{
    struct shape s = {.name = name,
                      .dtype = DTYPE_BF16,
                      .heads = heads,
                      .kv_heads = heads,
                      .dim = dim,
                      .causal = causal,
                      .count = count};
    for (int i = 0; i < count; i++)
        s.lengths[i] = length;
    return s;
}

/* `count` segments up to 1024 long, few of them long, in so many slots. */
static struct shape proteins(const char *name, int count, int slots, int heads, int dim)
{
    struct shape s = even(name, slots, 0, heads, dim, false);
    for (int i = 0; i < count; i++)
        s.lengths[i] = (int)(1024.0 * pow((i + 1.0) / count, 2.2));
    return s;
}

static void measure_all(void)
{
    const struct shape genomes = {.name = "12 segments of 30 to 3209, causal, 32 / 8",
                                  .dtype = DTYPE_BF16,
                                  .heads = 32,
                                  .kv_heads = 8,
                                  .dim = 128,
                                  .causal = true,
                                  .count = 12,
                                  .lengths = {3209, 1100, 30, 2900, 500, 1700, 245, 2400, 100, 2000, 800, 1400}};
    struct shape llama = even("2 x 8192 causal, 32 heads, 8 kv, of 128", 2, 8192, 32, 128, true);
    struct shape lingua = even("4 x 4096 causal, 16 heads, 8 kv, of 128", 4, 4096, 16, 128, true);
    struct shape slots = genomes;
    struct shape mistral = even("1 x 32768 causal, 32 heads, 8 kv, of 128", 1, 32768, 32, 128, true), window = mistral;
    window.name = "the same with a window of 4096";
    window.window = 4096;
    llama.kv_heads = lingua.kv_heads = mistral.kv_heads = window.kv_heads = 8;
    slots.name = "the same in 64 slots";
    slots.count = 64;
    const struct shape all[] = {
        llama,
        mistral,
        window,
        genomes,
        slots,
        lingua,
        even("4 x 4096 causal, 16 heads of 80", 4, 4096, 16, 80, true),
        even("4 x 4096 causal, 16 heads of 96", 4, 4096, 16, 96, true),
        even("32 x 1024 full, 20 heads of 64", 32, 1024, 20, 64, false),
        even("16 x 1024 full, 40 heads of 128", 16, 1024, 40, 128, false),
        even("32 x 1024 full, 20 heads of 32", 32, 1024, 20, 32, false),
        even("32 x 1024 full, 20 heads of 16", 32, 1024, 20, 16, false),
        even("128 x 256 full, 20 heads of 64", 128, 256, 20, 64, false),
        even("128 x 256 full, 20 heads of 16", 128, 256, 20, 16, false),
        proteins("101 proteins up to 1024, 20 heads of 64", 101, 101, 20, 64),
        proteins("the same in 256 slots", 101, 256, 20, 64),
        proteins("50 proteins in 128 slots, 40 heads of 128", 50, 128, 40, 128),
        proteins("101 proteins in 256 slots, 20 heads of 16", 101, 256, 20, 16),
    };
    printf("%-44s %-5s %20s %28s %25s %10s\n", "median, with the tables of work", "by", "forward", "backward",
           "with rope", "scratch");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        measure(&all[i]);
}

int main(int count, char **arguments)
{
    const char *what = count > 1 ? arguments[1] : "";
    executor = cuda_executor_create(0, 1, &(struct device_request){.deterministic = false});
    stream = (struct stream){.executor = executor};
    cuda_warpgroups_allow(count < 3 || strcmp(arguments[2], "mma") != 0);
    bool right = strcmp(what, "time") == 0 || check_all();
    if (strcmp(what, "check") != 0)
        measure_all();
    executor->class->destroy(executor);
    return right ? 0 : 1;
}
