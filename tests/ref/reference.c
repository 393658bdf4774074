#include "reference.h"
#include "reference_ops.h"

#include "base/error.h"
#include "base/memory.h"

double reference_load(const struct tensor *tensor, int64_t row, int64_t col)
{
    const void *at = tensor_at(tensor, row, col);
    switch (tensor->dtype) {
    case DTYPE_F32:
        return *(const float *)at;
    case DTYPE_BF16:
        return bf16_to_f32(*(const uint16_t *)at);
    case DTYPE_E4M3:
        return e4m3_to_f32(*(const uint8_t *)at);
    case DTYPE_E5M2:
        return e5m2_to_f32(*(const uint8_t *)at);
    case DTYPE_F64:
        return *(const double *)at;
    case DTYPE_I32:
        return *(const int32_t *)at;
    case DTYPE_I16:
        return *(const int16_t *)at;
    case DTYPE_COUNT:
        break;
    }
    error_fatal("reference: a tensor of unknown dtype %d", (int)tensor->dtype);
}

/* Rounds a double to f32 to odd: truncates, and sets the last bit if anything was lost. A second rounding to a type at
 * least two bits shorter then gives the same as a single rounding from the double. */
static float narrow_to_odd(double value)
{
    float narrow = (float)value;
    if (isnan(narrow) || (double)narrow == value)
        return narrow;
    if (fabs((double)narrow) > fabs(value))
        narrow = nextafterf(narrow, 0.0f);
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    bits |= 1u;
    memcpy(&narrow, &bits, sizeof bits);
    return narrow;
}

void reference_store(const struct tensor *tensor, int64_t row, int64_t col, double value)
{
    void *at = tensor_at(tensor, row, col);
    switch (tensor->dtype) {
    case DTYPE_F32:
        *(float *)at = (float)value;
        return;
    case DTYPE_BF16:
        *(uint16_t *)at = f32_to_bf16(narrow_to_odd(value));
        return;
    case DTYPE_E4M3:
        *(uint8_t *)at = f32_to_e4m3(narrow_to_odd(value));
        return;
    case DTYPE_E5M2:
        *(uint8_t *)at = f32_to_e5m2(narrow_to_odd(value));
        return;
    case DTYPE_F64:
        *(double *)at = value;
        return;
    case DTYPE_I32:
        *(int32_t *)at = (int32_t)value;
        return;
    case DTYPE_I16:
        *(int16_t *)at = (int16_t)value;
        return;
    case DTYPE_COUNT:
        break;
    }
    error_fatal("reference: a tensor of unknown dtype %d", (int)tensor->dtype);
}

int64_t reference_index(const struct tensor *tensor, int64_t i)
{
    return *(const int32_t *)tensor_at(tensor, 0, i);
}

int64_t reference_written_rows(const struct tensor *ends, int64_t rows)
{
    return tensor_present(ends) ? reference_index(ends, ends->cols - 1) : rows;
}

/* Runs a collective of a group of one: what is sent is received. By the op's row, a tensor that is only written gets a
 * copy of the tensor directly before it, if that is only read; all others (sums, scratch) stay unchanged. */
static void collective_alone(enum op op, const void *args)
{
    for (int i = 1; i < op_info(op)->field_count; i++) {
        const struct tensor *in = op_tensor(op, args, i - 1), *out = op_tensor(op, args, i);
        if (op_field_access(op, args, i - 1) == OP_READ && op_field_access(op, args, i) == OP_WRITE &&
            tensor_present(in))
            reference_copy(&(struct copy_args){.from = *in, .to = *out});
    }
}

static void reference_launch(struct executor *executor, struct stream *stream, enum op op, const void *args)
{
    (void)executor;
    switch (op) {
#define X(NAME, name)                                                                                                  \
    case OP_##NAME:                                                                                                    \
        reference_##name(args);                                                                                        \
        return;
        OP_DEVICE_TABLE(X)
#undef X
    default:
        if (op_group(op, args)->size > 1)
            launch_collective(stream, op, args);
        else
            collective_alone(op, args);
    }
}

static void *reference_allocate(struct executor *executor, int64_t bytes, enum memory_kind kind)
{
    (void)executor, (void)kind;
    return memory_allocate(bytes);
}

static void reference_release(struct executor *executor, void *memory, enum memory_kind kind)
{
    (void)executor, (void)kind;
    memory_free(memory);
}

static void reference_event(struct executor *executor, struct event *event, struct stream *stream)
{
    (void)executor, (void)event, (void)stream;
}

static void reference_synchronize(struct executor *executor, struct stream *stream)
{
    (void)executor, (void)stream;
}

static int64_t reference_workspace(struct executor *executor, enum op op, const void *args)
{
    (void)executor, (void)op, (void)args;
    return 0;
}

static void reference_reserve(struct executor *executor, int stream, int64_t bytes)
{
    (void)executor, (void)stream, (void)bytes;
}

static void reference_destroy(struct executor *executor)
{
    memory_free(executor);
}

struct executor *reference_executor_create(void)
{
    static const struct executor_class class = {.name = "reference",
                                                .launch = reference_launch,
                                                .allocate = reference_allocate,
                                                .release = reference_release,
                                                .event_record = reference_event,
                                                .event_wait = reference_event,
                                                .synchronize = reference_synchronize,
                                                .workspace = reference_workspace,
                                                .reserve = reference_reserve,
                                                .destroy = reference_destroy};
    struct executor *executor = memory_allocate(sizeof *executor);
    executor->class = &class;
    return executor;
}
