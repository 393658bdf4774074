/* Ops on matrices whose rows are more than 4 GiB apart give the bits of contiguous rows; the sum over ranks of a large
 * unit's gradients reads such matrices. The 32-bit limits of cuda/address.h are checked. Runs on the CPU executor, or
 * with "cuda" on a GPU. */
#include "check.h"

#include "base/memory.h"
#include "core/launch.h"
#include "cuda/address.h"
#include "executors.h"
#include "ref/fetch.h"

enum { ROWS = 3, COLS = 256, PLACES = 4, NEAR_BYTES = 4 * (COLS + 16) /* from a row to the next */ };
static const int64_t gap = ((int64_t)4 << 30) + ((int64_t)1 << 20); /* bytes from a row to the next */

struct world {
    struct executor *executor;
    struct stream stream;
    char *far, *near; /* matrices of ROWS rows, `gap` and NEAR_BYTES bytes apart */
};

static char *near_of(const struct world *w, int place)
{
    return w->near + place * ROWS * NEAR_BYTES;
}

/* Tensor `place` of an op's: the far one, or its near twin. Neither is contiguous, since ops treat contiguous
 * matrices as vectors. */
static struct tensor tensor_of(const struct world *w, bool far, int place, enum dtype dtype, int64_t cols)
{
    if (!far)
        return (struct tensor){near_of(w, place), dtype, ROWS, cols, NEAR_BYTES / dtype_size(dtype)};
    return (struct tensor){w->far + place * NEAR_BYTES, dtype, ROWS, cols, gap / dtype_size(dtype)};
}

static struct tensor vector_of(const struct world *w, int place, int64_t count)
{
    return tensor_vector(near_of(w, place), DTYPE_F32, count);
}

/* Values between -2 and 2 that differ from row to row and from place to place. */
static void put_values(struct world *w, bool far, int place, enum dtype dtype, int64_t cols)
{
    const struct tensor to = tensor_of(w, far, place, dtype, cols);
    struct tensor values = fetch(&w->stream, &to);
    for (int64_t row = 0; row < ROWS; row++)
        for (int64_t col = 0; col < cols; col++) {
            const float value = (float)((row * 977 + col * 131 + place * 57) % 401 - 200) / 100;
            if (dtype == DTYPE_F32)
                *(float *)tensor_at(&values, row, col) = value;
            else
                *(uint16_t *)tensor_at(&values, row, col) = f32_to_bf16(value);
        }
    fetch_return(&w->stream, values, &to);
}

static void launch_reserved(struct world *w, enum op op, const void *args)
{
    const struct executor_class *class = w->executor->class;
    class->reserve(w->executor, STREAM_COMPUTE, class->workspace(w->executor, op, args));
    launch(&w->stream, op, args);
}

/* Runs one op on far or near tensors of a type, with its result in place 2 and a sum over rows, if it has one, in the
 * last place. */
static void run_op(struct world *w, bool far, enum op op, enum dtype dtype)
{
    const struct tensor x = tensor_of(w, far, 0, dtype, COLS), dy = tensor_of(w, far, 1, dtype, COLS);
    const struct tensor out = tensor_of(w, far, 2, dtype, COLS);
    const struct tensor half_dy = tensor_of(w, far, 1, dtype, COLS / 2), half = tensor_of(w, far, 2, dtype, COLS / 2);
    const struct tensor sum = vector_of(w, PLACES, COLS), weight = vector_of(w, PLACES + 1, COLS);
    const struct tensor rstd = vector_of(w, PLACES + 2, ROWS);
    switch (op) {
    case OP_COPY:
        launch_reserved(w, op, &(struct copy_args){x, out});
        break;
    case OP_FILL:
        launch_reserved(w, op, &(struct fill_args){out, 1.5});
        break;
    case OP_ADD:
        launch_reserved(w, op, &(struct add_args){x, out});
        break;
    case OP_SUM_SQUARES: {
        const struct tensor total = tensor_vector(sum.data, DTYPE_F64, 1);
        launch_reserved(w, op, &(struct sum_squares_args){.x = x, .sum = total});
        break;
    }
    case OP_SWIGLU_FORWARD:
        launch_reserved(w, op, &(struct swiglu_forward_args){.x = x, .y = half});
        break;
    case OP_SWIGLU_BACKWARD:
        launch_reserved(w, op, &(struct swiglu_backward_args){.x = x, .dy = half_dy, .dx = out});
        break;
    case OP_GELU_FORWARD:
        launch_reserved(w, op, &(struct gelu_forward_args){.x = x, .y = out});
        break;
    case OP_GELU_BACKWARD:
        launch_reserved(w, op, &(struct gelu_backward_args){.x = x, .dy = dy, .dx = out, .sum = sum});
        break;
    case OP_RMSNORM_FORWARD: {
        const struct tensor gain = tensor_vector(weight.data, dtype, COLS);
        launch_reserved(w, op, &(struct rmsnorm_forward_args){.x = x, .weight = gain, .y = out, .rstd = rstd});
        break;
    }
    default:
        check_report(__FILE__, __LINE__, 0, op_info(op)->name);
    }
}

static void check_bits(struct world *w, const struct tensor *far, const struct tensor *near, const char *what)
{
    struct tensor a = fetch(&w->stream, far), b = fetch(&w->stream, near);
    check_report(__FILE__, __LINE__, memcmp(a.data, b.data, (size_t)tensor_extent(&b)) == 0, what);
    memory_free(a.data);
    memory_free(b.data);
}

static void test_op(struct world *w, enum op op, enum dtype dtype)
{
    const struct tensor sum = vector_of(w, PLACES, COLS);
    struct tensor sums[2];
    for (int far = 0; far < 2; far++) {
        for (int place = 0; place < 3; place++)
            put_values(w, far, place, dtype, COLS);
        launch_reserved(w, OP_FILL, &(struct fill_args){sum, 0});
        run_op(w, far, op, dtype);
        sums[far] = fetch(&w->stream, &sum);
    }
    for (int place = 0; place < 3; place++) { /* inputs too: they must not change */
        const struct tensor far = tensor_of(w, true, place, dtype, COLS),
                            near = tensor_of(w, false, place, dtype, COLS);
        check_bits(w, &far, &near, op_info(op)->name);
    }
    check_report(__FILE__, __LINE__, memcmp(sums[0].data, sums[1].data, (size_t)tensor_extent(&sum)) == 0,
                 op_info(op)->name);
    memory_free(sums[0].data);
    memory_free(sums[1].data);
}

static void test_ops(struct executor *executor)
{
    static const enum op ops[] = {OP_COPY,         OP_FILL,           OP_ADD,
                                  OP_SUM_SQUARES,  OP_SWIGLU_FORWARD, OP_SWIGLU_BACKWARD,
                                  OP_GELU_FORWARD, OP_GELU_BACKWARD,  OP_RMSNORM_FORWARD};
    const int64_t near = (PLACES + 3) * ROWS * NEAR_BYTES, far = (ROWS - 1) * gap + PLACES * NEAR_BYTES;
    struct world w = {.executor = executor, .stream = {.executor = executor}};
    w.far = executor->class->allocate(executor, far, MEMORY_DEVICE);
    w.near = executor->class->allocate(executor, near, MEMORY_DEVICE);
    const struct tensor gains = vector_of(&w, PLACES + 1, COLS);
    launch_reserved(&w, OP_FILL, &(struct fill_args){gains, 1});
    for (int i = 0; i < (int)(sizeof ops / sizeof *ops); i++) {
        test_op(&w, ops[i], DTYPE_F32);
        test_op(&w, ops[i], DTYPE_BF16);
    }
    stream_synchronize(&w.stream);
    executor->class->release(executor, w.far, MEMORY_DEVICE);
    executor->class->release(executor, w.near, MEMORY_DEVICE);
}

/* What kernels add to a matrix's address. */
static void test_addresses(void)
{
    const int64_t rows = 262144, bytes = 16384 * 4; /* of a table of 2^32 elements */
    CHECK(address_row(1, gap) == (uint64_t)gap);
    CHECK(address_row(7, ((int64_t)1 << 33) + 16) == 7 * (((uint64_t)1 << 33) + 16));
    CHECK(address_row((uint32_t)rows - 1, bytes) == (uint64_t)((rows - 1) * bytes));
    CHECK(address_row(UINT32_MAX, 4) == (uint64_t)UINT32_MAX * 4);
    CHECK(address_pack(INT32_MAX, 16) == (uint64_t)INT32_MAX * 16);
    CHECK(address_counts_fit(INT32_MAX, INT32_MAX));
    CHECK(!address_counts_fit((int64_t)INT32_MAX + 1, 1));
    CHECK(!address_counts_fit(1, (int64_t)INT32_MAX + 1));
    CHECK(!address_counts_fit(1, (int64_t)1 << 32)); /* which 32 bits would count as 0 */
    CHECK(address_stride_fits(1, gap));
    CHECK(address_stride_fits(ROWS, UINT32_MAX));
    CHECK(!address_stride_fits(ROWS, gap));
}

int main(int count, char **arguments)
{
    struct executor *executor = executor_named(count > 1 ? arguments[1] : "2");
    test_addresses();
    test_ops(executor);
    executor->class->destroy(executor);
    return check_end();
}
