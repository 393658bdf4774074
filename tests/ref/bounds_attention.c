/* Error bounds of attention. Notation for one query row: s_j = scale q k_j', whose computed value has an error of at
 * most e_j = gamma(d + 3) scale |q| |k_j|' (d products and additions, the scale, and a change of base for exp2). */
#include "bounds_internal.h"
#include "reference.h"
#include "reference_ops.h"

#include "base/memory.h"

/* Factor on first-order bounds, for the products of errors, each of which is below 1e-2. */
static const double second_order = 1.02;

/* The dot product of a head in rows of two matrices, and the sum of its terms' magnitudes. */
struct pair {
    double sum, magnitude;
};

static struct pair dot(const struct tensor *x, int64_t x_row, int64_t x_head, const struct tensor *y, int64_t y_row,
                       int64_t y_head, int64_t head_dim)
{
    struct pair pair = {0.0, 0.0};
    for (int64_t i = 0; i < head_dim; i++) {
        double product =
            reference_load(x, x_row, x_head * head_dim + i) * reference_load(y, y_row, y_head * head_dim + i);
        pair.sum += product;
        pair.magnitude += fabs(product);
    }
    return pair;
}

static void add(const struct tensor *x, int64_t row, int64_t col, double value)
{
    reference_store(x, row, col, reference_load(x, row, col) + value);
}

/* Returns how often a running maximum changes over s[0..n-1], from either end. Each change rescales the sum by one more
 * exp and one more product, whatever the number of keys that an executor processes at a time. */
static double rescalings(const double *s, int64_t n)
{
    int64_t up = 0, down = 0;
    double largest_up = -INFINITY, largest_down = -INFINITY;
    for (int64_t j = 0; j < n; j++) {
        if (s[j] > largest_up)
            largest_up = s[j], up++;
        if (s[n - 1 - j] > largest_down)
            largest_down = s[n - 1 - j], down++;
    }
    return (double)(up > down ? up : down);
}

/* p_j = exp(s_j - m) has the relative error r_j: e_j; the roundings of the argument, whose magnitude is at most the
 * range of s, twice (subtraction, change of base), and once more for all rescalings, whose arguments add up to at most
 * the range; exp, once and once per rescaling.
 * o = sum p v / sum p: the numerator has the error sum p |v| (r + gamma(n)), the denominator sum p (r + gamma(n)).
 * lse = m + log(sum p): the denominator's relative error becomes log's absolute error; then log and the roundings. */
static void forward_row(const struct attention_forward_args *args, const struct reference_span *span, int64_t head,
                        int64_t i, double *s, double *r, const struct tensor *o_bound, const struct tensor *lse_bound)
{
    const struct index_range keys = reference_visible_keys(span, i, args->causal, args->window);
    int64_t n = keys.count, first = span->kv_start + keys.first, dim = args->head_dim, row = span->q_start + i;
    int64_t kv_head = head / (args->heads / args->kv_heads);
    double scale = args->scale, largest = -INFINITY, smallest = INFINITY, sum = 0.0;
    for (int64_t j = 0; j < n; j++) {
        struct pair qk = dot(&args->q, row, head, &args->k, first + j, kv_head, dim);
        s[j] = scale * qk.sum;
        r[j] = bounds_gamma((double)dim + 3.0) * scale * qk.magnitude;
        largest = fmax(largest, s[j]);
        smallest = fmin(smallest, s[j]);
    }
    double steps = rescalings(s, n), range = largest - smallest, sum_error = 0.0;
    for (int64_t j = 0; j < n; j++) {
        r[j] += 4.0 * BOUNDS_U * range + (steps + 1.0) * (BOUNDS_FUNCTION + BOUNDS_U) + bounds_gamma((double)n + 2.0);
        sum += exp(s[j] - largest);
        sum_error += exp(s[j] - largest) * r[j];
    }
    sum_error /= sum;
    for (int64_t c = 0; c < dim; c++) {
        double o = 0.0, error = 0.0;
        for (int64_t j = 0; j < n; j++) {
            double pv = exp(s[j] - largest) / sum * reference_load(&args->v, first + j, kv_head * dim + c);
            o += pv;
            error += fabs(pv) * (r[j] + bounds_matrix_unit(&args->v));
        }
        error += fabs(o) * (sum_error + BOUNDS_FUNCTION + BOUNDS_U);
        reference_store(o_bound, row, head * dim + c, second_order * error);
    }
    double rounding = (BOUNDS_FUNCTION + BOUNDS_U) * fabs(log(sum)) + 4.0 * BOUNDS_U * (fabs(largest) + log(sum));
    reference_store(lse_bound, head, row, second_order * (sum_error + rounding));
}

void bounds_attention_forward(struct trial *trial, const struct attention_forward_args *args)
{
    struct tensor o = trial_bound(trial, OP_ATTENTION_FORWARD, args, "o");
    struct tensor lse = trial_bound(trial, OP_ATTENTION_FORWARD, args, "lse");
    double *s = memory_allocate(args->k.rows * 8), *r = memory_allocate(args->k.rows * 8);
    for (int64_t slot = 0; slot < args->segments.q_start.cols; slot++) {
        struct reference_span span = reference_span(&args->segments, slot);
        for (int64_t head = 0; head < args->heads; head++)
            for (int64_t i = 0; i < span.q_length; i++)
                if (reference_visible_keys(&span, i, args->causal, args->window).count > 0)
                    forward_row(args, &span, head, i, s, r, &o, &lse);
    }
    memory_free(s);
    memory_free(r);
}

/* p = exp(s - lse) with the stored lse has the error r p: e_j, the roundings of the argument, and exp. dp = d_o v' and
 * delta = d_o o' have errors of gamma(d + 1) of their magnitudes, so ds = p (dp - delta) has
 * p (r |dp - delta| + gamma(d + 1) (|d_o| |v|' + |d_o| |o|') + 3 u |dp - delta|), and both p and ds the floor of exp.
 * dq, dk: scale times sums of ds k and ds q; dv: a sum of p d_o. Each sum adds gamma(its length) of its magnitude; the
 * length for dk and dv is at most the rows of q times the heads that share a kv head. An old value is one more term. */
static void backward_row(const struct attention_backward_args *args, const struct reference_span *span, int64_t head,
                         int64_t i, const struct tensor *dq, const struct tensor *dk, const struct tensor *dv)
{
    const struct index_range keys = reference_visible_keys(span, i, args->causal, args->window);
    int64_t n = keys.count, dim = args->head_dim, row = span->q_start + i;
    int64_t share = args->heads / args->kv_heads, kv_head = head / share;
    double scale = args->scale, lse = reference_load(&args->lse, head, row), gamma = bounds_gamma((double)dim + 1.0);
    double over_keys = bounds_gamma((double)n + 3.0), over_queries = bounds_gamma((double)(args->q.rows * share) + 3.0);
    double round = bounds_matrix_unit(&args->k);
    struct pair delta = dot(&args->d_o, row, head, &args->o, row, head, dim);
    for (int64_t j = 0; j < n; j++) {
        int64_t key = span->kv_start + keys.first + j;
        struct pair qk = dot(&args->q, row, head, &args->k, key, kv_head, dim);
        struct pair dp = dot(&args->d_o, row, head, &args->v, key, kv_head, dim);
        double s = scale * qk.sum, p = exp(s - lse), difference = fabs(dp.sum - delta.sum);
        double r = bounds_gamma((double)dim + 3.0) * scale * qk.magnitude + 2.0 * BOUNDS_U * (fabs(s) + fabs(lse)) +
                   BOUNDS_FUNCTION;
        double ds_error =
            p * (r * difference + gamma * (dp.magnitude + delta.magnitude) + 3.0 * BOUNDS_U * difference) +
            BOUNDS_EXP_FLOOR * difference;
        double ds = p * difference;
        for (int64_t c = 0; c < dim; c++) {
            double k = fabs(reference_load(&args->k, key, kv_head * dim + c));
            double q = fabs(reference_load(&args->q, row, head * dim + c));
            double d_o = fabs(reference_load(&args->d_o, row, head * dim + c));
            add(dq, row, head * dim + c, second_order * scale * (ds_error + ds * (over_keys + round)) * k);
            add(dk, key, kv_head * dim + c, second_order * scale * (ds_error + ds * (over_queries + round)) * q);
            add(dv, key, kv_head * dim + c, second_order * (p * (r + over_queries + round) + BOUNDS_EXP_FLOOR) * d_o);
        }
    }
}

static struct tensor double_matrix(int64_t rows, int64_t cols)
{
    return tensor_matrix(memory_allocate(rows * cols * dtype_size(DTYPE_F64)), DTYPE_F64, rows, cols);
}

/* Adds the error of a sum of `terms` terms onto an old value to the bound. */
static void bound_old(const struct tensor *old, int64_t terms, const struct tensor *bound)
{
    for (int64_t row = 0; row < old->rows; row++)
        for (int64_t col = 0; col < old->cols; col++)
            add(bound, row, col, bounds_gamma((double)terms + 3.0) * bounds_absolute(old, row, col));
}

/* Bounds a rotated gradient: two products and an addition of numbers with errors, which may also be rounded. */
static void rotate_bound(const struct attention_backward_args *args, const struct tensor *unrotated,
                         const struct tensor *bound)
{
    const int64_t dim = args->head_dim, half = dim / 2;
    const double stored = args->dq.dtype == DTYPE_BF16 ? 0x1p-8 : BOUNDS_U, rounding = stored + 3.0 * BOUNDS_U;
    for (int64_t row = 0; row < bound->rows; row++)
        for (int64_t pair = 0; pair < bound->cols / 2; pair++) {
            const int64_t i = pair % half, start = pair / half * dim;
            const int64_t one = start + (args->interleaved ? 2 * i : i), other = one + (args->interleaved ? 1 : half);
            const int64_t position = reference_index(&args->positions, row);
            const double cosine = bounds_absolute(&args->table, position, i);
            const double sine = bounds_absolute(&args->table, position, half + i);
            const double a = reference_load(bound, row, one) + rounding * bounds_absolute(unrotated, row, one);
            const double b = reference_load(bound, row, other) + rounding * bounds_absolute(unrotated, row, other);
            reference_store(bound, row, one, cosine * a + sine * b);
            reference_store(bound, row, other, cosine * b + sine * a);
        }
}

static void rotate_bounds(const struct attention_backward_args *args, const struct tensor *dq, const struct tensor *dk)
{
    struct attention_backward_args unrotated = *args;
    unrotated.positions = unrotated.table = (struct tensor){0};
    unrotated.dq = double_matrix(args->dq.rows, args->dq.cols);
    unrotated.dk = double_matrix(args->dk.rows, args->dk.cols);
    unrotated.dv = double_matrix(args->dv.rows, args->dv.cols);
    reference_attention_backward(&unrotated);
    rotate_bound(args, &unrotated.dq, dq);
    rotate_bound(args, &unrotated.dk, dk);
    struct tensor *made[] = {&unrotated.dq, &unrotated.dk, &unrotated.dv};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        memory_free(made[i]->data);
}

void bounds_attention_backward(struct trial *trial, const struct attention_backward_args *args)
{
    struct tensor dq = trial_bound(trial, OP_ATTENTION_BACKWARD, args, "dq");
    struct tensor dk = trial_bound(trial, OP_ATTENTION_BACKWARD, args, "dk");
    struct tensor dv = trial_bound(trial, OP_ATTENTION_BACKWARD, args, "dv");
    if (args->accumulate_q)
        bound_old(&args->dq, args->k.rows, &dq);
    if (args->accumulate_kv) {
        bound_old(&args->dk, args->q.rows * (args->heads / args->kv_heads), &dk);
        bound_old(&args->dv, args->q.rows * (args->heads / args->kv_heads), &dv);
    }
    for (int64_t slot = 0; slot < args->segments.q_start.cols; slot++) {
        struct reference_span span = reference_span(&args->segments, slot);
        for (int64_t head = 0; head < args->heads; head++)
            for (int64_t i = 0; i < span.q_length; i++)
                backward_row(args, &span, head, i, &dq, &dk, &dv);
    }
    if (tensor_present(&args->positions))
        rotate_bounds(args, &dq, &dk);
}

/* Let d = |lse - part_lse| and s = exp(-d), with the relative error r = 4 u d + BOUNDS_FUNCTION (subtraction and change
 * of base of the argument, and exp). The weights 1 / (1 + s) and s / (1 + s) have the sum's error r s / (1 + s), a
 * division and two roundings, the second one r as well; then two products and an addition. lse: the sum's error and
 * rounding, log, and the addition. If only one of the two has a weight, it is 1. */
void bounds_attention_merge(struct trial *trial, const struct attention_merge_args *args)
{
    struct tensor o = trial_bound(trial, OP_ATTENTION_MERGE, args, "o"), to = o;
    struct tensor lse = trial_bound(trial, OP_ATTENTION_MERGE, args, "lse");
    if (tensor_present(&args->to))
        to = trial_bound(trial, OP_ATTENTION_MERGE, args, "to");
    for (int64_t row = 0; row < o.rows; row++)
        for (int64_t col = 0; col < o.cols; col++) {
            int64_t head = col / args->head_dim;
            double old = args->first ? -INFINITY : reference_load(&args->lse, head, row);
            double part = reference_load(&args->part_lse, head, row);
            if (old == -INFINITY || part == -INFINITY)
                continue;
            double d = fabs(old - part), s = exp(-d), r = 4.0 * BOUNDS_U * d + BOUNDS_FUNCTION,
                   of_sum = r * s / (1.0 + s);
            double larger = bounds_absolute(old > part ? &args->o : &args->part_o, row, col) / (1.0 + s);
            double smaller = bounds_absolute(old > part ? &args->part_o : &args->o, row, col);
            double error = (of_sum + BOUNDS_FUNCTION + 5.0 * BOUNDS_U) * (larger + smaller * s / (1.0 + s)) +
                           r * smaller * s / (1.0 + s) + BOUNDS_EXP_FLOOR * smaller;
            reference_store(&o, row, col, error);
            reference_store(&to, row, col, error);
            double merged = fmax(old, part) + log1p(s);
            reference_store(&lse, head, row, of_sum + BOUNDS_U + BOUNDS_FUNCTION * log1p(s) + BOUNDS_U * fabs(merged));
        }
}
