#include "trial.h"
#include "reference.h"

#include "base/memory.h"
#include "base/random.h"

#include <stdarg.h>

enum { GUARD_BYTES = 256, ARGS_BYTES = 1024 };

static struct executor *oracle;
static uint64_t draws; /* shared by all trials, so that their numbers differ */

static const struct random_key trial_key = {.seed = 11, .purpose = RANDOM_TEST, .stream = 2};

void trial_reserve(struct trial *trial, int64_t bytes)
{
    memory_free(trial->memory);
    trial->memory = memory_allocate(bytes);
    trial->capacity = bytes;
    memset(trial->memory, 0xff, (size_t)bytes);
}

struct trial *trial_create(const char *format, ...)
{
    if (oracle == NULL)
        oracle = reference_executor_create();
    struct trial *trial = memory_allocate(sizeof *trial);
    va_list list;
    va_start(list, format);
    vsnprintf(trial->name, sizeof trial->name, format, list);
    va_end(list);
    trial_reserve(trial, 8 << 20);
    trial->used = GUARD_BYTES;
    return trial;
}

void trial_destroy(struct trial *trial)
{
    for (int i = 0; i < TRIAL_FIELDS; i++)
        memory_free(trial->bounds[i].data);
    memory_free(trial->memory);
    memory_free(trial->wanted);
    memory_free(trial);
}

struct tensor trial_strided(struct trial *trial, enum dtype dtype, int64_t rows, int64_t cols, int64_t stride)
{
    struct tensor x = {trial->memory + trial->used, dtype, rows, cols, stride};
    int64_t bytes = tensor_extent(&x);
    int64_t next = (trial->used + bytes + 2 * GUARD_BYTES - 1) / GUARD_BYTES * GUARD_BYTES;
    if (trial->block_count == TRIAL_BLOCKS || next > trial->capacity)
        error_fatal("trial %s: too many tensors or too large", trial->name);
    trial->blocks[trial->block_count++] = (struct trial_block){trial->used, bytes, dtype};
    trial->used = next;
    return x;
}

struct tensor trial_empty(struct trial *trial, enum dtype dtype, int64_t rows, int64_t cols)
{
    return trial_strided(trial, dtype, rows, cols, cols);
}

static void fill_normal(const struct tensor *x, double deviation)
{
    for (int64_t i = 0; i < x->rows; i++)
        for (int64_t j = 0; j < x->cols; j++)
            reference_store(x, i, j, deviation * random_normal(&trial_key, draws++));
}

struct tensor trial_normal(struct trial *trial, enum dtype dtype, int64_t rows, int64_t cols, double deviation)
{
    struct tensor x = trial_empty(trial, dtype, rows, cols);
    fill_normal(&x, deviation);
    return x;
}

struct tensor trial_matrix(struct trial *trial, enum dtype dtype, int64_t rows, int64_t cols, bool strided,
                           double deviation)
{
    struct tensor wide = trial_empty(trial, dtype, rows, strided ? cols + 8 : cols);
    struct tensor x = tensor_columns(&wide, strided ? 3 : 0, cols);
    fill_normal(&x, deviation);
    return x;
}

struct tensor trial_integers(struct trial *trial, const int32_t *values, int64_t count)
{
    struct tensor x = trial_empty(trial, DTYPE_I32, 1, count);
    memcpy(x.data, values, (size_t)count * sizeof *values);
    return x;
}

int32_t trial_draw(int32_t below)
{
    return (int32_t)(random_uniform(&trial_key, draws++) * below);
}

struct tensor trial_draw_integers(struct trial *trial, int64_t count, int32_t below)
{
    struct tensor x = trial_empty(trial, DTYPE_I32, 1, count);
    for (int64_t i = 0; i < count; i++)
        ((int32_t *)x.data)[i] = trial_draw(below);
    return x;
}

struct tensor trial_bound(struct trial *trial, enum op op, const void *args, const char *field)
{
    const struct op_info *info = op_info(op);
    int i = 0;
    while (i < info->field_count && strcmp(info->fields[i].name, field) != 0)
        i++;
    if (i == info->field_count || i >= TRIAL_FIELDS)
        error_fatal("trial %s: %s has no field %s", trial->name, info->name, field);
    const struct tensor *x = op_tensor(op, args, i);
    memory_free(trial->bounds[i].data);
    trial->bounds[i] = tensor_matrix(memory_allocate(tensor_count(x) * 8), DTYPE_F64, x->rows, x->cols);
    return trial->bounds[i];
}

/* -- Copies of a trial's memory ------------------------------------------------------------------------------------ */

static const struct trial_block *block_of(const struct trial *trial, const void *data)
{
    int64_t offset = (const char *)data - trial->memory;
    for (int i = 0; i < trial->block_count; i++) {
        const struct trial_block *block = &trial->blocks[i];
        if (offset >= block->offset && offset < block->offset + block->bytes)
            return block;
    }
    error_fatal("trial %s: an argument is not one of its tensors", trial->name);
}

struct tensor trial_in_copy(const struct trial *trial, const struct tensor *x, char *copy)
{
    struct tensor moved = *x;
    moved.data = copy + ((char *)x->data - trial->memory);
    return moved;
}

/* Returns a tensor's place in the wide copy, where every float is f64, so a block is at most eight times as large. */
static struct tensor in_wide(const struct trial *trial, const struct tensor *x, char *wide)
{
    const struct trial_block *block = block_of(trial, x->data);
    int64_t inside = (char *)x->data - trial->memory - block->offset;
    struct tensor moved = *x;
    moved.dtype = x->dtype == DTYPE_I32 ? DTYPE_I32 : DTYPE_F64;
    moved.data = wide + 8 * block->offset + inside / dtype_size(x->dtype) * dtype_size(moved.dtype);
    return moved;
}

static char *copy_create(const struct trial *trial)
{
    char *copy = memory_allocate(trial->used);
    memcpy(copy, trial->memory, (size_t)trial->used);
    return copy;
}

static char *wide_create(const struct trial *trial)
{
    char *wide = memory_allocate(8 * trial->used);
    for (int i = 0; i < trial->block_count; i++) {
        const struct trial_block *block = &trial->blocks[i];
        struct tensor narrow =
            tensor_vector(trial->memory + block->offset, block->dtype, block->bytes / dtype_size(block->dtype));
        struct tensor to = in_wide(trial, &narrow, wide);
        for (int64_t j = 0; j < narrow.cols; j++)
            reference_store(&to, 0, j, reference_load(&narrow, 0, j));
    }
    return wide;
}

/* Copies args, with every present tensor moved. */
static void move_args(const struct trial *trial, enum op op, const void *args, char *memory,
                      struct tensor (*move)(const struct trial *, const struct tensor *, char *), char *moved)
{
    const struct op_info *info = op_info(op);
    memcpy(moved, args, info->args_bytes);
    for (int i = 0; i < info->field_count; i++)
        if (tensor_present(op_tensor(op, args, i))) {
            struct tensor x = move(trial, op_tensor(op, args, i), memory);
            memcpy(moved + info->fields[i].offset, &x, sizeof x);
        }
}

/* Returns how the op uses each byte of the trial's memory (enum op_access, 0 = not at all). */
static char *access_map(const struct trial *trial, enum op op, const void *args)
{
    char *map = memory_allocate(trial->used);
    for (int i = 0; i < op_info(op)->field_count; i++) {
        const struct tensor *x = op_tensor(op, args, i);
        if (!tensor_present(x))
            continue;
        for (int64_t row = 0; row < x->rows; row++) {
            char *first = map + ((char *)tensor_at(x, row, 0) - trial->memory);
            for (int64_t b = 0; b < x->cols * dtype_size(x->dtype); b++)
                first[b] |= (char)op_field_access(op, args, i);
        }
    }
    return map;
}

/* The byte that outputs consist of before a launch: NaN, or a number that is no output. */
static unsigned char poison_of(enum dtype dtype)
{
    return dtype == DTYPE_I32 ? 0x7f : 0xff;
}

/* Poisons the outputs that the op does not read. inside: a copy's tensor for one of the arguments. */
static void poison(const struct trial *trial, enum op op, const void *args, const char *map, char *copy,
                   struct tensor (*inside)(const struct trial *, const struct tensor *, char *))
{
    for (int i = 0; i < op_info(op)->field_count; i++) {
        const struct tensor *x = op_tensor(op, args, i);
        if (!tensor_present(x) || op_field_access(op, args, i) != OP_WRITE)
            continue;
        const struct tensor to = inside(trial, x, copy);
        for (int64_t row = 0; row < x->rows; row++)
            for (int64_t col = 0; col < x->cols; col++)
                if (map[(char *)tensor_at(x, row, col) - trial->memory] == OP_WRITE)
                    memset(tensor_at(&to, row, col), poison_of(x->dtype), (size_t)dtype_size(to.dtype));
    }
}

/* Runs the op on a new copy of the trial's memory, in which outputs are poisoned. */
static char *run_copy(const struct trial *trial, struct executor *executor, enum op op, const void *args,
                      const char *map)
{
    _Alignas(16) char moved[ARGS_BYTES];
    char *copy = copy_create(trial), *device = executor->class->allocate(executor, trial->used, MEMORY_DEVICE);
    const int64_t words = trial->used / (int64_t)sizeof(int32_t); /* integers, which a copy does not change */
    struct tensor host = tensor_vector(copy, DTYPE_I32, words), on_device = tensor_vector(device, DTYPE_I32, words);
    poison(trial, op, args, map, copy, trial_in_copy);
    move_args(trial, op, args, device, trial_in_copy, moved);
    struct stream stream = {.executor = executor, .id = STREAM_COMPUTE};
    executor->class->reserve(executor, STREAM_COMPUTE, executor->class->workspace(executor, op, moved));
    LAUNCH(&stream, COPY, copy, .from = host, .to = on_device);
    launch(&stream, op, moved);
    LAUNCH(&stream, COPY, copy, .from = on_device, .to = host);
    stream_synchronize(&stream);
    executor->class->release(executor, device, MEMORY_DEVICE);
    return copy;
}

/* -- Comparisons --------------------------------------------------------------------------------------------------- */

/* Returns half the distance between neighbouring numbers of a type at a magnitude. */
static double half_ulp(enum dtype dtype, double magnitude)
{
    static const struct {
        int precision, lowest; /* bits including the hidden one, and exponent of the smallest normal number */
    } format[DTYPE_COUNT] = {[DTYPE_F32] = {24, -126},
                             [DTYPE_BF16] = {8, -126},
                             [DTYPE_E4M3] = {4, -6},
                             [DTYPE_E5M2] = {3, -14},
                             [DTYPE_F64] = {53, -1022}};
    int exponent = magnitude > 0.0 ? ilogb(magnitude) : format[dtype].lowest;
    if (exponent < format[dtype].lowest)
        exponent = format[dtype].lowest;
    return ldexp(1.0, exponent - format[dtype].precision);
}

/* Returns the allowed error of an element. Numbers below f32's normal range may be flushed to zero. */
static double tolerance(enum dtype dtype, double wanted, double bound)
{
    double flushed = dtype == DTYPE_F64 ? 0.0 : 0x1p-126;
    return bound + half_ulp(dtype, fabs(wanted) + bound) + flushed;
}

/* Returns an element's error in units of the allowed error. Infinite numbers must be equal. An element that the oracle
 * does not write is NaN, and must not be written. */
static double excess_of(enum dtype dtype, double got, double wanted, double bound)
{
    if (got == wanted)
        return 0.0;
    double excess = fabs(got - wanted) / tolerance(dtype, wanted, bound);
    return isnan(excess) ? INFINITY : excess;
}

static double bound_at(const struct tensor *bound, int64_t row, int64_t col)
{
    return tensor_present(bound) ? reference_load(bound, row, col) : 0.0;
}

/* Injects a fault into the largest finite element of an output, of 1e-3 of its magnitude (of 1e-3 if the output is
 * zero): a bound that allows this could not fail. */
static void plant_fault(struct trial *trial, enum op op, int field, const struct tensor *got,
                        const struct tensor *wanted, int64_t row, int64_t col)
{
    double value = reference_load(wanted, row, col), fault = value != 0.0 ? 1e-3 * fabs(value) : 1e-3;
    double spoilt = (double)(float)(reference_load(got, row, col) + fault);
    double allowed = tolerance(got->dtype, value, bound_at(&trial->bounds[field], row, col));
    if (fabs(spoilt - value) > allowed)
        return;
    trial->planted_missed++;
    if (!trial->quiet)
        fprintf(stderr, "%s.%s, %s: a planted fault of %.3g is not noticed, %.3g is allowed\n", op_info(op)->name,
                op_info(op)->fields[field].name, trial->name, fault, allowed);
}

static bool is_poison(const struct tensor *x, int64_t row, int64_t col)
{
    const unsigned char *bytes = tensor_at(x, row, col);
    for (int64_t b = 0; b < dtype_size(x->dtype); b++)
        if (bytes[b] != poison_of(x->dtype))
            return false;
    return true;
}

static int64_t compare_field(struct trial *trial, enum op op, int field, const struct tensor *got,
                             const struct tensor *wanted)
{
    const struct tensor *bound = &trial->bounds[field];
    int64_t wrong = 0, worst_row = 0, worst_col = 0, large_row = 0, large_col = 0;
    double worst = -1.0, largest = -1.0;
    for (int64_t i = 0; i < got->rows; i++)
        for (int64_t j = 0; j < got->cols; j++) {
            double w = reference_load(wanted, i, j);
            double excess = isnan(w) && is_poison(got, i, j)
                                ? 0.0
                                : excess_of(got->dtype, reference_load(got, i, j), w, bound_at(bound, i, j));
            wrong += excess > 1.0;
            if (excess > worst)
                worst = excess, worst_row = i, worst_col = j;
            if (isfinite(w) && fabs(w) > largest)
                largest = fabs(w), large_row = i, large_col = j;
        }
    if (wrong > 0 && !trial->quiet)
        fprintf(stderr,
                "%s.%s %s [%lld x %lld], %s: %lld elements wrong; worst (%lld, %lld): got %.9g, wanted %.9g, "
                "%.3g times what is allowed\n",
                op_info(op)->name, op_info(op)->fields[field].name, dtype_name(got->dtype), (long long)got->rows,
                (long long)got->cols, trial->name, (long long)wrong, (long long)worst_row, (long long)worst_col,
                reference_load(got, worst_row, worst_col), reference_load(wanted, worst_row, worst_col), worst);
    if (got->dtype == DTYPE_F32 && largest >= 0.0 && !trial->coarse)
        plant_fault(trial, op, field, got, wanted, large_row, large_col);
    return wrong;
}

/* Checks that inputs, gaps between rows and guards are unchanged. */
static int64_t compare_untouched(const struct trial *trial, enum op op, const char *copy, const char *map)
{
    int64_t changed = 0, first = -1;
    for (int64_t b = 0; b < trial->used; b++)
        if ((map[b] & OP_WRITE) == 0 && copy[b] != trial->memory[b]) {
            changed++;
            first = first < 0 ? b : first;
        }
    if (changed > 0 && !trial->quiet) {
        int block = 0;
        while (block + 1 < trial->block_count && trial->blocks[block + 1].offset <= first)
            block++;
        fprintf(stderr,
                "%s, %s: %lld bytes written that are not the op's to write, first at byte %lld of tensor %d's %lld\n",
                op_info(op)->name, trial->name, (long long)changed, (long long)(first - trial->blocks[block].offset),
                block, (long long)trial->blocks[block].bytes);
    }
    return changed > 0;
}

void trial_expect(struct trial *trial, enum op op, const void *args)
{
    _Alignas(16) char wide_args[ARGS_BYTES];
    memory_free(trial->wanted);
    trial->wanted = wide_create(trial);
    char *map = access_map(trial, op, args);
    poison(trial, op, args, map, trial->wanted, in_wide);
    memory_free(map);
    move_args(trial, op, args, trial->wanted, in_wide, wide_args);
    oracle->class->launch(oracle, NULL, op, wide_args); /* without launch(), which would reject f64 in place of e4m3 */
}

int64_t trial_compare(struct trial *trial, struct executor *executor, enum op op, const void *args)
{
    const char *mistake = op_check(op, args);
    if (mistake != NULL || trial->wanted == NULL)
        error_fatal("trial %s of %s: %s", trial->name, op_info(op)->name, mistake ? mistake : "nothing is expected");
    char *map = access_map(trial, op, args);
    char *copy = run_copy(trial, executor, op, args, map), *again = run_copy(trial, executor, op, args, map);

    int64_t wrong = compare_untouched(trial, op, copy, map);
    for (int i = 0; i < op_info(op)->field_count; i++) {
        const struct tensor *x = op_tensor(op, args, i);
        if (!tensor_present(x) || (op_field_access(op, args, i) & OP_WRITE) == 0)
            continue;
        struct tensor got = trial_in_copy(trial, x, copy), wanted = in_wide(trial, x, trial->wanted);
        wrong += compare_field(trial, op, i, &got, &wanted);
    }
    if (!trial->unordered && memcmp(copy, again, (size_t)trial->used) != 0) {
        wrong++;
        if (!trial->quiet)
            fprintf(stderr, "%s, %s: a second launch gave other bits\n", op_info(op)->name, trial->name);
    }
    memory_free(map);
    memory_free(copy);
    memory_free(again);
    return wrong;
}

char *trial_run(const struct trial *trial, struct executor *executor, enum op op, const void *args)
{
    char *map = access_map(trial, op, args), *copy = run_copy(trial, executor, op, args, map);
    memory_free(map);
    return copy;
}

/* Copies the bits of NaN where both are NaN: they may differ. */
static void forgive_nan(const struct tensor *got, const struct tensor *wanted)
{
    for (int64_t i = 0; i < got->rows; i++)
        for (int64_t j = 0; j < got->cols; j++)
            if (isnan(reference_load(got, i, j)) && isnan(reference_load(wanted, i, j)))
                memcpy(tensor_at(got, i, j), tensor_at(wanted, i, j), (size_t)dtype_size(got->dtype));
}

int64_t trial_compare_exact(struct trial *trial, struct executor *executor, enum op op, const void *args)
{
    char *map = access_map(trial, op, args);
    char *copy = run_copy(trial, executor, op, args, map), *wanted = run_copy(trial, oracle, op, args, map);
    int64_t wrong = 0;
    for (int i = 0; i < op_info(op)->field_count; i++)
        if (tensor_present(op_tensor(op, args, i)) && (op_field_access(op, args, i) & OP_WRITE) != 0) {
            struct tensor x = trial_in_copy(trial, op_tensor(op, args, i), copy);
            struct tensor y = trial_in_copy(trial, op_tensor(op, args, i), wanted);
            forgive_nan(&x, &y);
        }
    for (int64_t b = 0; b < trial->used; b++)
        wrong += copy[b] != wanted[b];
    if (wrong > 0 && !trial->quiet)
        fprintf(stderr, "%s, %s: %lld bytes are not the oracle's\n", op_info(op)->name, trial->name, (long long)wrong);
    memory_free(map);
    memory_free(copy);
    memory_free(wanted);
    return wrong;
}
