/* GEMMs by cuBLASLt, or by our own kernels where they are faster. cuBLASLt's matrices are column-major, so a row-major
 * d = op(a) op(b) is computed as d' = op(b)' op(a)': our b is its A, our a its B, and our bias of a row is its bias of
 * a column. */
#include "base/error.h"
#include "cuda/tuned_kernels.h"
#include "cuda/gemm_gradient.h"
#include "cuda/timing.h"

#include <cublasLt.h>
#include <string.h>

enum {
    PLANS = 512,
    GEMM_WORKSPACE = 64 << 20, /* bytes; NVIDIA recommends at least 32 MiB for Hopper */
    FACTORS = 256              /* bytes for a GEMM's factors, before the workspace, whose alignment they preserve */
};

/* Everything that distinguishes GEMMs for cuBLASLt. No padding: compared and stored as bytes. */
struct gemm_key {
    int64_t m, n, k;
    int64_t stride_a, stride_b, stride_c, stride_d; /* elements */
    int32_t type_a, type_b, type_c, type_d;         /* enum dtype */
    int32_t transpose;                              /* bit 0: a, bit 1: b */
    int32_t bias;                                   /* 0 none, else 1 + its enum dtype */
    int32_t align_a, align_b, align_c, align_d;     /* bytes, powers of two; align_c is 0 if nothing is added */
    int32_t sum, align_sum;                         /* of sum_a, if the GEMM computes it: 1 + its enum dtype; else 0 */
    int32_t scaling_a, scaling_b;                   /* of 8-bit operands: 1 + its enum scaling; else 0 */
    int32_t fast;
    int32_t factored; /* by the operands' scales, in device memory */
};

struct plan {
    struct gemm_key key;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t a, b, c, d; /* in cuBLASLt's naming */
    cublasLtMatmulAlgo_t algorithm;
    bool own;              /* uses gemm_gradient.h instead of the algorithm */
    bool suggested, final; /* suggested: algorithm or own is set; final: it will not change */
    bool absent;           /* with a sum: cuBLASLt has no algorithm, or a separate sum is faster */
    int64_t used;          /* value of `asked` at the last request */
};

/* A training has some dozens of kinds; in inference each batch's number of tokens makes new ones. */
static struct plan plans[PLANS];
static int plan_count;
static int64_t asked;

static void check(cublasStatus_t status, const char *what)
{
    if (status != CUBLAS_STATUS_SUCCESS)
        error_fatal("cuBLASLt: %s: %s", what, cublasLtGetStatusString(status));
}
#define CHECK_BLAS(call) check((call), #call)

static cudaDataType_t type_of(enum dtype dtype)
{
    switch (dtype) {
    case DTYPE_F32:
        return CUDA_R_32F;
    case DTYPE_BF16:
        return CUDA_R_16BF;
    case DTYPE_E4M3:
        return CUDA_R_8F_E4M3;
    case DTYPE_E5M2:
        return CUDA_R_8F_E5M2;
    default:
        error_fatal("cuda executor: no GEMMs of %s", dtype_name(dtype));
    }
}

static bool is_eight_bit(const struct gemm_args *args)
{
    return args->a.dtype == DTYPE_E4M3 || args->a.dtype == DTYPE_E5M2;
}

/* Returns whether wider operands have scales. cuBLASLt scales only 8-bit operands, so these scales become factors of
 * the GEMM. */
static bool is_factored(const struct gemm_args *args)
{
    return !is_eight_bit(args) && (tensor_present(&args->scale_a) || tensor_present(&args->scale_b));
}

/* Returns whether the bias needs its own launch: cuBLASLt's 8-bit GEMMs take no f32 bias. */
static bool adds_bias_apart(const struct gemm_args *args)
{
    return is_eight_bit(args) && tensor_present(&args->bias) && args->bias.dtype == DTYPE_F32 &&
           args->d.dtype == DTYPE_F32;
}

/* Returns whether fast accumulation is allowed. Block scales always sum in f32 outside the tensor cores. */
static bool may_be_fast(const struct gemm_args *args)
{
    return args->fast && is_eight_bit(args) && args->scaling_a <= SCALING_ROW && args->scaling_b <= SCALING_ROW;
}

static cublasLtMatmulMatrixScale_t scale_mode_of(enum scaling scaling)
{
    switch (scaling) {
    case SCALING_TENSOR:
        return CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
    case SCALING_ROW:
        return CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
    case SCALING_1X128:
        return CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
    case SCALING_128X128:
        return CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
    default:
        error_fatal("cuda executor: no GEMMs of 8-bit operands with scales of kind %d", (int)scaling);
    }
}

/* Returns whether the GEMM may also compute sum_a, if cuBLASLt has such an algorithm. Its order of sums is unknown, so
 * deterministic runs do not use it. */
static bool may_sum_inside(const struct cuda_target *target, const struct gemm_args *args)
{
    return tensor_present(&args->sum_a) && !target->deterministic && !args->accumulate && !tensor_present(&args->c) &&
           !tensor_present(&args->bias) && args->a.dtype == DTYPE_BF16 && args->b.dtype == DTYPE_BF16 &&
           args->d.dtype == DTYPE_F32;
}

/* Returns the largest power of two up to 256 that divides the address and the row stride. */
static int32_t alignment_of(const struct tensor *t)
{
    uintptr_t bits = (uintptr_t)t->data | (uintptr_t)(t->stride * dtype_size(t->dtype)) | 256;
    return (int32_t)(bits & -bits);
}

/* Returns whether d's old values or c are added to the matrix product. */
static bool is_added_to(const struct gemm_args *args)
{
    return args->accumulate || tensor_present(&args->c);
}

static struct gemm_key key_of(const struct gemm_args *args, bool sum)
{
    const struct tensor *c = tensor_present(&args->c) ? &args->c : &args->d;
    struct gemm_key key;
    memset(&key, 0, sizeof key);
    key.m = args->d.rows;
    key.n = args->d.cols;
    key.k = args->transpose_a ? args->a.rows : args->a.cols;
    key.stride_a = args->a.stride;
    key.stride_b = args->b.stride;
    key.stride_c = c->stride;
    key.stride_d = args->d.stride;
    key.type_a = (int32_t)args->a.dtype;
    key.type_b = (int32_t)args->b.dtype;
    key.type_c = (int32_t)c->dtype;
    key.type_d = (int32_t)args->d.dtype;
    key.transpose = args->transpose_a + 2 * args->transpose_b;
    key.bias = tensor_present(&args->bias) ? 1 + (int32_t)args->bias.dtype : 0;
    key.align_a = alignment_of(&args->a);
    key.align_b = alignment_of(&args->b);
    key.align_c = is_added_to(args) ? alignment_of(c) : 0;
    key.align_d = alignment_of(&args->d);
    key.sum = sum ? 1 + (int32_t)args->sum_a.dtype : 0;
    key.align_sum = sum ? alignment_of(&args->sum_a) : 0;
    key.scaling_a = is_eight_bit(args) ? 1 + (int32_t)args->scaling_a : 0;
    key.scaling_b = is_eight_bit(args) ? 1 + (int32_t)args->scaling_b : 0;
    key.fast = may_be_fast(args);
    key.factored = is_factored(args);
    return key;
}

/* Returns the layout of a row-major [rows, cols] matrix; for cuBLASLt it is [cols, rows]. */
static cublasLtMatrixLayout_t layout_of(const struct tensor *t)
{
    cublasLtMatrixLayout_t layout;
    /* the stride of a single row is arbitrary */
    int64_t stride = t->rows > 1 || t->stride > t->cols ? t->stride : t->cols;
    CHECK_BLAS(cublasLtMatrixLayoutCreate(&layout, type_of(t->dtype), (uint64_t)t->cols, (uint64_t)t->rows, stride));
    return layout;
}

#define SET(operation, NAME, value)                                                                                    \
    CHECK_BLAS(cublasLtMatmulDescSetAttribute((operation), CUBLASLT_MATMUL_DESC_##NAME, &(value), sizeof(value)))

static void describe(struct plan *plan, const struct gemm_args *args)
{
    const cublasOperation_t swap = CUBLAS_OP_T;
    CHECK_BLAS(cublasLtMatmulDescCreate(&plan->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    if (args->transpose_b)
        SET(plan->operation, TRANSA, swap);
    if (args->transpose_a)
        SET(plan->operation, TRANSB, swap);
    if (plan->key.bias != 0) {
        cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
        cudaDataType_t type = type_of(args->bias.dtype);
        SET(plan->operation, EPILOGUE, epilogue);
        SET(plan->operation, BIAS_DATA_TYPE, type);
    }
    if (plan->key.sum != 0) { /* over k of cuBLASLt's B, our a: one sum for each of its columns of d, our rows */
        cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BGRADB;
        cudaDataType_t type = type_of(args->sum_a.dtype);
        SET(plan->operation, EPILOGUE, epilogue);
        SET(plan->operation, BIAS_DATA_TYPE, type);
    }
    if (plan->key.scaling_a != 0) {
        const cublasLtMatmulMatrixScale_t of_a = scale_mode_of(args->scaling_b), of_b = scale_mode_of(args->scaling_a);
        const int8_t fast = (int8_t)plan->key.fast;
        SET(plan->operation, A_SCALE_MODE, of_a);
        SET(plan->operation, B_SCALE_MODE, of_b);
        SET(plan->operation, FAST_ACCUM, fast);
    }
    if (plan->key.factored) {
        const cublasLtPointerMode_t where = CUBLASLT_POINTER_MODE_DEVICE;
        SET(plan->operation, POINTER_MODE, where);
    }
    plan->a = layout_of(&args->b);
    plan->b = layout_of(&args->a);
    plan->c = layout_of(tensor_present(&args->c) ? &args->c : &args->d);
    plan->d = layout_of(&args->d);
}

static void forget(struct plan *plan)
{
    CHECK_BLAS(cublasLtMatmulDescDestroy(plan->operation));
    CHECK_BLAS(cublasLtMatrixLayoutDestroy(plan->a));
    CHECK_BLAS(cublasLtMatrixLayoutDestroy(plan->b));
    CHECK_BLAS(cublasLtMatrixLayoutDestroy(plan->c));
    CHECK_BLAS(cublasLtMatrixLayoutDestroy(plan->d));
}

/* Returns a free plan. A full table gives up the least recently used one. Launches in flight or captured do not need
 * their plans any more. */
static struct plan *plan_slot(void)
{
    if (plan_count < PLANS)
        return &plans[plan_count++];
    struct plan *oldest = &plans[0];
    for (int i = 1; i < PLANS; i++)
        if (plans[i].used < oldest->used)
            oldest = &plans[i];
    forget(oldest);
    return oldest;
}

/* Returns the plan of a GEMM. sum: with sum_a. The plan is valid until PLANS - 1 other plans have been requested. */
static struct plan *plan_for(const struct gemm_args *args, bool sum)
{
    struct gemm_key key = key_of(args, sum);
    struct plan *plan = NULL;
    for (int i = 0; i < plan_count && plan == NULL; i++)
        if (memcmp(&plans[i].key, &key, sizeof key) == 0)
            plan = &plans[i];
    if (plan == NULL) {
        plan = plan_slot();
        *plan = (struct plan){.key = key};
        describe(plan, args);
    }
    plan->used = asked++;
    return plan;
}

/* Sets the addresses in the descriptor, which differ from call to call. cuBLASLt needs those of scales before it is
 * asked for algorithms. */
static void set_addresses(const struct plan *plan, const struct gemm_args *args)
{
    const void *address = plan->key.sum != 0 ? args->sum_a.data : args->bias.data;
    if (plan->key.bias != 0 || plan->key.sum != 0)
        SET(plan->operation, BIAS_POINTER, address);
    if (plan->key.scaling_a == 0)
        return;
    CHECK_BUG(!is_eight_bit(args) || ((uintptr_t)args->scale_a.data | (uintptr_t)args->scale_b.data) % 16 == 0);
    address = args->scale_b.data;
    SET(plan->operation, A_SCALE_POINTER, address);
    address = args->scale_a.data;
    SET(plan->operation, B_SCALE_POINTER, address);
}

static cublasStatus_t multiply(const struct cuda_target *target, const struct plan *plan, const struct gemm_args *args,
                               const cublasLtMatmulAlgo_t *algorithm)
{
    const float plain[2] = {1, is_added_to(args)}; /* alpha and beta */
    const float *factors = plan->key.factored ? (const float *)target->workspace : plain;
    char *workspace = target->workspace + (plan->key.factored ? FACTORS : 0);
    const void *c = tensor_present(&args->c) ? args->c.data : args->d.data;
    return cublasLtMatmul(target->blas, plan->operation, &factors[0], args->b.data, plan->a, args->a.data, plan->b,
                          &factors[1], c, plan->c, args->d.data, plan->d, algorithm, workspace, GEMM_WORKSPACE,
                          target->stream);
}

/* Returns " by row" and similar, for messages. */
static const char *scales_of(int32_t scaling)
{
    static const char *const names[] = {"", " by tensor", " by row", " by 1x128", " by 128x128"};
    return names[scaling];
}

/* Returns whether cuBLASLt supports the 1x128 scales: their rows must be contiguous, and start at multiples of 16
 * bytes. */
static bool scales_fit(const struct gemm_key *key)
{
    return (key->scaling_a != 1 + SCALING_1X128 || key->m % 4 == 0) &&
           (key->scaling_b != 1 + SCALING_1X128 || key->n % 4 == 0);
}

/* Gets cuBLASLt's suggestions, best first. Returns their number; 0 is possible only with a sum. */
static int suggestions(const struct cuda_target *target, const struct plan *plan, cublasLtMatmulHeuristicResult_t *out,
                       int most)
{
    const struct gemm_key *key = &plan->key;
    cublasLtMatmulPreference_t preference;
    int found = 0;
    /* for split-k: in-place sums would depend on the order of blocks, and sums in d's type would add in bf16 */
    const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    const uint64_t workspace = GEMM_WORKSPACE;
    const uint32_t alignment[4] = {(uint32_t)key->align_b, (uint32_t)key->align_a,
                                   (uint32_t)(key->align_c != 0 ? key->align_c : key->align_d), (uint32_t)key->align_d};
    static const cublasLtMatmulPreferenceAttributes_t attributes[4] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    CHECK_BLAS(cublasLtMatmulPreferenceCreate(&preference));
    CHECK_BLAS(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                                    sizeof workspace));
    CHECK_BLAS(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions,
                                                    sizeof reductions));
    for (int i = 0; i < 4; i++)
        CHECK_BLAS(cublasLtMatmulPreferenceSetAttribute(preference, attributes[i], &alignment[i], sizeof alignment[i]));
    cublasStatus_t status = CUBLAS_STATUS_NOT_SUPPORTED;
    if (scales_fit(key))
        status = cublasLtMatmulAlgoGetHeuristic(target->blas, plan->operation, plan->a, plan->b, plan->c, plan->d,
                                                preference, most, out, &found);
    cublasLtMatmulPreferenceDestroy(preference);
    if (status != CUBLAS_STATUS_SUCCESS)
        found = 0;
    if (found == 0 && key->sum == 0)
        error_fatal("cuBLASLt has no GEMM of %s%s and %s%s to %s, m %lld, n %lld, k %lld, transposes %d: %s",
                    dtype_name((enum dtype)key->type_a), scales_of(key->scaling_a), dtype_name((enum dtype)key->type_b),
                    scales_of(key->scaling_b), dtype_name((enum dtype)key->type_d), (long long)key->m,
                    (long long)key->n, (long long)key->k, (int)key->transpose, cublasLtGetStatusString(status));
    return found;
}

/* Sums op(a) over k. */
static void sum_left_operand(const struct cuda_target *target, const struct gemm_args *args)
{
    if (!args->transpose_a)
        cuda_row_sum(target, args->a, args->sum_a, args->accumulate);
    else
        cuda_column_sum(target, args->a, args->sum_a, args->accumulate, target->workspace);
}

/* -- Choosing ---------------------------------------------------------------------------------------------------- */

enum { CANDIDATES = 8, WAYS = CANDIDATES + 1 };

/* A way to compute a GEMM, including its sum_a if present. */
struct way {
    const struct plan *plan;
    const cublasLtMatmulAlgo_t *algorithm; /* NULL: gemm_gradient.h */
    bool sum_apart;                        /* computes sum_a with separate kernels */
};

static struct way way_of(const struct plan *plan, bool sum_apart)
{
    return (struct way){plan, plan->own ? NULL : &plan->algorithm, sum_apart};
}

static cublasStatus_t run_way(const struct way *way, const struct cuda_target *target, const struct gemm_args *args)
{
    if (way->sum_apart)
        sum_left_operand(target, args);
    if (way->algorithm != NULL)
        return multiply(target, way->plan, args, way->algorithm);
    cuda_gemm_gradient(target, args);
    return CUBLAS_STATUS_SUCCESS;
}

static bool may_be_own(const struct cuda_target *target, const struct gemm_args *args)
{
    return target->alone && cuda_gemm_gradient_fits(args) && cuda_gemm_gradient_workspace(target) <= GEMM_WORKSPACE;
}

/* The ways of a GEMM, at most WAYS. */
struct ways {
    const struct gemm_args *args;
    const struct way *ways;
};

static bool launch_way(const struct cuda_target *target, const void *self, int way)
{
    const struct ways *all = self;
    return run_way(&all->ways[way], target, all->args) == CUBLAS_STATUS_SUCCESS;
}

static int fastest(const struct cuda_target *target, const struct gemm_args *args, const struct way *ways, int count)
{
    float times[WAYS];
    return timing_compare(target, launch_way, &(struct ways){args, ways}, count, times);
}

/* Returns whether a GEMM is so short that it uses cuBLASLt's first suggestion: on any supported device the launch takes
 * longer than the difference between algorithms. */
static bool is_small(const struct gemm_key *key)
{
    const double least = 1e9; /* floating-point operations; some microseconds on an H100 */
    return 2.0 * (double)key->m * (double)key->n * (double)key->k < least;
}

/* Returns whether this rank may time the GEMM. Timing repeats the GEMM, so an accumulating d gets the result several
 * times; it stays finite, and a tuning pass discards it. One rank times a GEMM with and without its sum, to compare
 * them. */
static bool may_time(const struct cuda_target *target, const struct gemm_args *args)
{
    if (!target->tuning_pass || target->deterministic)
        return false;
    const struct gemm_key key = key_of(args, false);
    return !is_small(&key) && tuning_share_has(&target->share, TUNED_GEMM, &key, sizeof key);
}

/* A tuned GEMM as stored. It has cuBLASLt's description of an algorithm instead of the algorithm, which is cuBLASLt's
 * private memory; and stored algorithms are not trusted. No padding. */
struct stored_gemm {
    uint32_t instead; /* enum instead: what is used instead of an algorithm */
    uint32_t attributes[9];
};

/* In files: never renumbered. APART: for a GEMM with its sum; the sum is computed separately. */
enum instead { INSTEAD_NONE, INSTEAD_APART, INSTEAD_OWN };

static struct stored_gemm stored_gemm_of(const cublasLtMatmulAlgo_t *algorithm)
{
    static const struct {
        cublasLtMatmulAlgoConfigAttributes_t name;
        size_t bytes;
    } of[] = {{CUBLASLT_ALGO_CONFIG_ID, 4},
              {CUBLASLT_ALGO_CONFIG_TILE_ID, 4},
              {CUBLASLT_ALGO_CONFIG_STAGES_ID, 4},
              {CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 4},
              {CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, 4},
              {CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, 4},
              {CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, 4},
              {CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, 2},
              {CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, 2}};
    struct stored_gemm stored = {0};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        CHECK_BLAS(
            cublasLtMatmulAlgoConfigGetAttribute(algorithm, of[i].name, &stored.attributes[i], of[i].bytes, NULL));
    return stored;
}

/* Returns the index of the first suggestion that matches a stored one; count if none does. */
static int place_of(const struct stored_gemm *stored, const cublasLtMatmulHeuristicResult_t *suggested, int count)
{
    for (int i = 0; i < count; i++) {
        const struct stored_gemm one = stored_gemm_of(&suggested[i].algo);
        if (memcmp(&one, stored, sizeof one) == 0)
            return i;
    }
    return count;
}

/* Uses a stored algorithm if it is supported here, or among cuBLASLt's current suggestions. Returns whether it was
 * used. */
static bool find_tuned(const struct cuda_target *target, struct plan *plan, const struct gemm_args *args)
{
    enum { SUGGESTIONS = 100 };
    cublasLtMatmulHeuristicResult_t suggested[SUGGESTIONS];
    struct stored_gemm stored;
    if (!tuned_kernel_find(TUNED_GEMM, &plan->key, sizeof plan->key, &stored, sizeof stored))
        return false;
    plan->absent = plan->key.sum != 0 && stored.instead == INSTEAD_APART;
    plan->own = plan->key.sum == 0 && stored.instead == INSTEAD_OWN && may_be_own(target, args);
    if (plan->absent || plan->own)
        return true;
    const int found = suggestions(target, plan, suggested, SUGGESTIONS), place = place_of(&stored, suggested, found);
    if (place < found)
        plan->algorithm = suggested[place].algo;
    return place < found;
}

/* Chooses a plan's algorithm. apart: NULL, or the plan without the sum; the GEMM with its sum is chosen only if it was
 * timed against that one. */
static void choose(const struct cuda_target *target, struct plan *plan, const struct plan *apart,
                   const struct gemm_args *args)
{
    cublasLtMatmulHeuristicResult_t candidates[CANDIDATES];
    struct way ways[WAYS];
    bool timed = may_time(target, args);
    int found = 0, count, best = 0;
    plan->own = apart == NULL && cuda_gemm_gradient_forced() && may_be_own(target, args);
    plan->final = timed || !target->tuning_pass; /* otherwise a later call of this kind may still be timed */
    if (plan->own || find_tuned(target, plan, args)) {
        plan->suggested = plan->final = true;
        return;
    }
    if (apart == NULL || timed)
        found = suggestions(target, plan, candidates, timed ? CANDIDATES : 1);
    for (count = 0; count < found; count++)
        ways[count] = (struct way){plan, &candidates[count].algo, false};
    if (apart != NULL)
        ways[count++] = way_of(apart, true);
    else if (timed && may_be_own(target, args))
        ways[count++] = (struct way){plan, NULL, false};
    if (timed)
        best = fastest(target, args, ways, count);
    struct stored_gemm stored = {.instead = apart != NULL ? INSTEAD_APART : INSTEAD_OWN};
    plan->absent = best == found && apart != NULL;
    plan->own = best == found && apart == NULL;
    if (best < found) { /* the algorithm that a later look-up will find */
        stored = stored_gemm_of(&candidates[best].algo);
        plan->algorithm = candidates[place_of(&stored, candidates, found)].algo;
    }
    plan->suggested = true;
    if (plan->final)
        tuned_kernel_keep(TUNED_GEMM, &plan->key, sizeof plan->key, &stored, sizeof stored);
}

/* Returns the plan with its algorithm and the addresses of this call. */
static struct plan *ready_plan(const struct cuda_target *target, const struct gemm_args *args, const struct plan *apart)
{
    struct plan *plan = plan_for(args, apart != NULL);
    set_addresses(plan, args);
    if (!plan->final && (!plan->suggested || !target->tuning_pass || may_time(target, args)))
        choose(target, plan, apart, args);
    return plan;
}

void cuda_gemm_reconsider(void)
{
    for (int i = 0; i < plan_count; i++)
        plans[i].suggested = plans[i].final = false;
}

/* -- The op ------------------------------------------------------------------------------------------------------ */

int64_t cuda_gemm_workspace(const struct cuda_target *target, const struct gemm_args *args)
{
    bool columns = tensor_present(&args->sum_a) && args->transpose_a;
    int64_t sum = columns ? cuda_column_sum_workspace(target, args->a) : 0;
    int64_t product = GEMM_WORKSPACE + (is_factored(args) ? FACTORS : 0);
    return sum > product ? sum : product;
}

/* Computes the GEMM, except for a bias that cuBLASLt does not support. */
static void product(const struct cuda_target *target, const struct gemm_args *args)
{
    int64_t k = args->transpose_a ? args->a.rows : args->a.cols;
    if (tensor_count(&args->d) == 0 || k == 0) {
        if (tensor_present(&args->sum_a))
            sum_left_operand(target, args);
        if (!args->accumulate)
            cuda_fill(target, &(struct fill_args){.x = args->d, .value = 0});
        return;
    }
    if (is_factored(args))
        cuda_product_factors(target, args->scale_a.data, args->scale_b.data, is_added_to(args),
                             (float *)target->workspace);
    const struct plan *plan = ready_plan(target, args, NULL);
    struct way way = way_of(plan, tensor_present(&args->sum_a));
    if (may_sum_inside(target, args)) {
        const struct plan *inside = ready_plan(target, args, plan);
        if (!inside->absent)
            way = way_of(inside, false);
    }
    CHECK_BLAS(run_way(&way, target, args));
}

void cuda_gemm(const struct cuda_target *target, const struct gemm_args *args)
{
    const bool apart = adds_bias_apart(args);
    struct gemm_args inside = *args;
    if (apart)
        inside.bias = (struct tensor){0};
    product(target, &inside);
    if (apart)
        cuda_add_bias(target, args->bias, args->d);
}
