#include "tensor_core.h"
#include "reference.h"
#include "reference_ops.h"

#include "base/memory.h"

#include <limits.h>
#include <math.h>

enum { STEP = 32, RUN = 128, KEPT = 13 };

void tensor_core_row_load(struct tensor_core_row *row, const struct tensor *x, const struct tensor *scale,
                          enum scaling scaling, int64_t i)
{
    const bool e5m2 = x->dtype == DTYPE_E5M2;
    const int64_t k = x->cols;
    *row = (struct tensor_core_row){.k = k,
                                    .elements = memory_allocate(k * (int64_t)sizeof(double)),
                                    .exponents = memory_allocate(k * (int64_t)sizeof(int)),
                                    .scales = memory_allocate((k + RUN - 1) / RUN * (int64_t)sizeof(double)),
                                    .fraction = e5m2 ? 2 : 3};
    for (int64_t l = 0; l < k; l++) {
        row->elements[l] = reference_load(x, i, l);
        row->exponents[l] = (int)fmax(row->elements[l] == 0.0 ? -100 : ilogb(row->elements[l]), e5m2 ? -14 : -6);
        if (l % RUN == 0)
            row->scales[l / RUN] = reference_scale(scale, scaling, i, l);
    }
}

void tensor_core_row_free(struct tensor_core_row *row)
{
    memory_free(row->elements);
    memory_free(row->exponents);
    memory_free(row->scales);
}

static int exponent_of(double x)
{
    return x == 0.0 ? INT_MIN / 2 : ilogb(x);
}

static double cut_off(double x, int below)
{
    return ldexp(trunc(ldexp(x, -below)), below);
}

/* A sum in progress, in ulps of elements. */
struct chain {
    double model, exact;
    double least, most; /* extremes of `exact` at points where the sum may have begun */
    double bound;
};

static void begin(struct chain *chain)
{
    *chain = (struct chain){0};
}

/* Returns the largest magnitude that the sum so far may have. */
static double reach(const struct chain *chain)
{
    return fmax(chain->exact - chain->least, chain->most - chain->exact) + chain->bound;
}

static void step(struct chain *chain, const struct tensor_core_row *a, const struct tensor_core_row *b, int64_t from)
{
    const int64_t to = from + STEP < a->k ? from + STEP : a->k;
    int products = INT_MIN / 2;
    for (int64_t l = from; l < to; l++)
        if (a->elements[l] * b->elements[l] != 0.0 && a->exponents[l] + b->exponents[l] > products)
            products = a->exponents[l] + b->exponents[l];
    if (products == INT_MIN / 2)
        return;
    const int exponent = (int)fmax(products, exponent_of(chain->model));
    const int largest = (int)fmax(products, exponent_of(reach(chain)));
    const double per_ulp = ldexp(1.0, KEPT - exponent), lost = ldexp(1.0, largest - KEPT);
    double ulps = trunc(chain->model * per_ulp), bound = fmin(lost, reach(chain));
    for (int64_t l = from; l < to; l++) {
        const double product = a->elements[l] * b->elements[l];
        ulps += trunc(product * per_ulp);
        chain->exact += product;
        if (a->exponents[l] + b->exponents[l] - a->fraction - b->fraction < largest - KEPT)
            bound += fmin(fabs(product), lost);
    }
    const double sum = ulps / per_ulp;
    chain->model = sum == 0.0 ? 0.0 : cut_off(sum, exponent_of(sum) - KEPT);
    chain->bound += bound;
    chain->bound += ldexp(1.0, exponent_of(reach(chain)) - KEPT);
}

struct tensor_core_sum tensor_core_dot(const struct tensor_core_row *a, const struct tensor_core_row *b, bool fast)
{
    struct tensor_core_sum sum = {0};
    struct chain chain;
    begin(&chain);
    for (int64_t from = 0; from < a->k; from += RUN) {
        const double scale = a->scales[from / RUN] * b->scales[from / RUN];
        const int64_t to = from + RUN < a->k ? from + RUN : a->k;
        chain.least = fmin(chain.least, chain.exact);
        chain.most = fmax(chain.most, chain.exact);
        for (int64_t l = from; l < to; l += STEP)
            step(&chain, a, b, l);
        for (int64_t l = from; l < to; l++)
            sum.magnitude += scale * fabs(a->elements[l] * b->elements[l]);
        if (!fast || to == a->k) {
            sum.exact += scale * chain.exact;
            sum.model += scale * chain.model;
            sum.bound += scale * chain.bound;
            begin(&chain);
        }
    }
    return sum;
}
