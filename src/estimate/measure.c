#include "estimate/measure.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/random.h"
#include "core/quantization.h"
#include "estimate/device_name.h"
#include "estimate/timed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bench {
    struct comm *world;
    struct executor *executor;
    const struct measure_settings *settings;
    struct machine_rates *rates;
    bool device; /* the executor's device has its own memory */
    int64_t largest;
    double seconds; /* a launch is repeated for this long */
};

/* -- Operands ----------------------------------------------------------------------------------------------------- */

static void *allocate(const struct bench *b, int64_t bytes)
{
    return b->executor->class->allocate(b->executor, bytes, MEMORY_DEVICE);
}

static void release(const struct bench *b, void *memory)
{
    b->executor->class->release(b->executor, memory, MEMORY_DEVICE);
}

static struct stream compute(const struct bench *b)
{
    return (struct stream){b->executor, STREAM_COMPUTE, NULL};
}

static void put_number(void *at, enum dtype dtype, double value)
{
    if (dtype == DTYPE_F32)
        *(float *)at = (float)value;
    else if (dtype == DTYPE_BF16)
        *(uint16_t *)at = f32_to_bf16((float)value);
    else
        *(uint8_t *)at = f32_to_e4m3((float)(64 * value));
}

/* Returns nearly normal random numbers, one block repeated. (A GPU multiplies zeros faster.) */
static struct tensor random_numbers(const struct bench *b, enum dtype dtype, int64_t count)
{
    enum { BLOCK = 1 << 18 };
    const int64_t size = dtype_size(dtype);
    int64_t done = count < BLOCK ? count : BLOCK;
    struct random_key key = {17, RANDOM_TEST, 0};
    struct stream stream = compute(b);
    char *host = b->executor->class->allocate(b->executor, done * size, MEMORY_HOST);
    for (int64_t i = 0; i < done; i++) {
        const uint64_t bits = random_bits(&key, (uint64_t)i);
        const double sum = (double)(bits & 0xffff) + (double)(bits >> 16 & 0xffff) + (double)(bits >> 32 & 0xffff);
        put_number(host + i * size, dtype, (sum / 65536 - 1.5) * 2);
    }
    struct tensor all = tensor_vector(allocate(b, count * size), dtype, count), part = tensor_columns(&all, 0, done);
    LAUNCH(&stream, COPY, copy, .from = tensor_vector(host, dtype, done), .to = part);
    stream_synchronize(&stream);
    b->executor->class->release(b->executor, host, MEMORY_HOST);
    for (; done < count; done *= 2) {
        const int64_t more = done < count - done ? done : count - done;
        LAUNCH(&stream, COPY, copy, .from = tensor_columns(&all, 0, more), .to = tensor_columns(&all, done, more));
    }
    return all;
}

static struct tensor shaped(const struct tensor *numbers, int64_t rows, int64_t cols)
{
    return tensor_matrix(numbers->data, numbers->dtype, rows, cols);
}

/* -- Times -------------------------------------------------------------------------------------------------------- */

/* Returns the seconds of a launch on the slowest rank. */
static double time_on(struct bench *b, int stream_id, enum op op, const void *args)
{
    const struct executor_class *class = b->executor->class;
    enum { MOST = 20000 };
    struct stream stream = {b->executor, stream_id, NULL};
    if (class->workspace != NULL)
        class->reserve(b->executor, stream_id, class->workspace(b->executor, op, args));
    b->executor->tuning_pass = !b->settings->quick;
    timed_launches(&stream, op, args, 1);
    b->executor->tuning_pass = false;
    const double once = comm_spread(b->world, timed_launches(&stream, op, args, 3) / 3).maximum;
    const double times = fmin(MOST, ceil(b->seconds / fmax(once, 1e-7)));
    timed_launches(&stream, op, args, (int64_t)times);
    return comm_spread(b->world, timed_launches(&stream, op, args, (int64_t)times) / times).maximum;
}

static void add(struct bench *b, struct machine_rate rate)
{
    rates_add(b->rates, &rate);
}

/* -- GEMMs -------------------------------------------------------------------------------------------------------- */

static void add_gemm(struct bench *b, const struct gemm_args *args, int64_t k)
{
    const double m = (double)args->d.rows, n = (double)args->d.cols;
    const double seconds = time_on(b, STREAM_COMPUTE, OP_GEMM, args);
    add(b, (struct machine_rate){.kind = RATE_GEMM,
                                 .type = rate_gemm_of(args),
                                 .size = {m, n, (double)k},
                                 .per_second = 2 * m * n * (double)k / seconds});
}

/* Measures the GEMM of a forward, [tokens, k] x [k, n], and that of the weight gradient [n, k]. */
static void measure_gemm(struct bench *b, const struct tensor *numbers, struct tensor result, struct tensor one,
                         int64_t tokens, int64_t n, int64_t k)
{
    const bool eight = dtype_size(numbers->dtype) == 1;
    const enum dtype value = eight ? DTYPE_BF16 : numbers->dtype;
    struct gemm_args forward = {.a = shaped(numbers, tokens, k),
                                .b = shaped(numbers, n, k),
                                .d = tensor_matrix(result.data, value, tokens, n),
                                .transpose_b = true,
                                .fast = eight};
    struct gemm_args gradient = {.a = eight ? shaped(numbers, n, tokens) : shaped(numbers, tokens, n),
                                 .b = eight ? shaped(numbers, k, tokens) : shaped(numbers, tokens, k),
                                 .d = tensor_matrix(result.data, DTYPE_F32, n, k),
                                 .transpose_a = !eight,
                                 .transpose_b = eight,
                                 .accumulate = true};
    if (eight) {
        forward.scale_a = forward.scale_b = gradient.scale_a = gradient.scale_b = one;
        forward.scaling_a = forward.scaling_b = gradient.scaling_a = gradient.scaling_b = SCALING_TENSOR;
    }
    add_gemm(b, &forward, k);
    add_gemm(b, &gradient, tokens);
}

static void measure_gemms(struct bench *b, enum dtype dtype)
{
    const int64_t steps = b->settings->quick ? 4 : 2, most = b->largest;
    const int64_t multiple = dtype_size(dtype) == 1 ? 16 : 1; /* dimensions of GEMMs must be multiples of this */
    const int64_t least = most / 16 > multiple ? most / 16 : multiple;
    struct stream stream = compute(b);
    const struct tensor numbers = random_numbers(b, dtype, most * most);
    const struct tensor one = tensor_vector(allocate(b, sizeof(float)), DTYPE_F32, 1);
    const struct tensor result = tensor_vector(allocate(b, most * most * 4), DTYPE_F32, most * most);
    LAUNCH(&stream, FILL, fill, .x = one, .value = 1);
    for (int64_t tokens = most; tokens >= most / 8; tokens /= 8)
        for (int64_t n = most; n >= least; n /= steps)
            for (int64_t k = most; k >= least; k /= steps)
                measure_gemm(b, &numbers, result, one, tokens, n, k);
    release(b, numbers.data);
    release(b, one.data);
    release(b, result.data);
}

/* -- Attention ---------------------------------------------------------------------------------------------------- */

enum { HEADS = 16, KV_HEADS = 4 };

static struct tensor integers(const struct bench *b, int64_t count, int64_t step, int64_t value)
{
    struct stream stream = compute(b);
    const struct tensor all = tensor_vector(allocate(b, count * 4), DTYPE_I32, count);
    int32_t *host = b->executor->class->allocate(b->executor, count * 4, MEMORY_HOST);
    for (int64_t i = 0; i < count; i++)
        host[i] = (int32_t)(value + i * step);
    LAUNCH(&stream, COPY, copy, .from = tensor_vector(host, DTYPE_I32, count), .to = all);
    stream_synchronize(&stream);
    b->executor->class->release(b->executor, host, MEMORY_HOST);
    return all;
}

/* Measures attention over `all` tokens in segments of `length`. */
static void measure_attention(struct bench *b, const struct tensor *numbers, int64_t all, int64_t length,
                              int64_t head_dim, bool causal)
{
    const int64_t slots = all / length, q = HEADS * head_dim, kv = KV_HEADS * head_dim, width = q + 2 * kv;
    const enum dtype dtype = numbers->dtype;
    const int64_t size = dtype_size(dtype);
    const struct tensor starts = integers(b, slots, length, 0), lengths = integers(b, slots, 0, length),
                        offsets = integers(b, slots, 0, 0);
    const struct attention_segments segments = {.q_start = starts,
                                                .q_length = lengths,
                                                .kv_start = starts,
                                                .kv_length = lengths,
                                                .q_offset = offsets,
                                                .longest = length,
                                                .full = true};
    const struct tensor fused = shaped(numbers, all, width);
    const struct tensor o = tensor_matrix(allocate(b, all * q * size), dtype, all, q);
    const struct tensor fused_gradient = tensor_matrix(allocate(b, all * width * size), dtype, all, width);
    const struct tensor lse = tensor_matrix(allocate(b, HEADS * all * 4), DTYPE_F32, HEADS, all);
    const float scale = (float)(1 / sqrt((double)head_dim));
    const struct attention_forward_args forward = {.q = tensor_columns(&fused, 0, q),
                                                   .k = tensor_columns(&fused, q, kv),
                                                   .v = tensor_columns(&fused, q + kv, kv),
                                                   .o = o,
                                                   .lse = lse,
                                                   .segments = segments,
                                                   .heads = HEADS,
                                                   .kv_heads = KV_HEADS,
                                                   .head_dim = head_dim,
                                                   .scale = scale,
                                                   .causal = causal};
    const struct attention_backward_args backward = {.q = forward.q,
                                                     .k = forward.k,
                                                     .v = forward.v,
                                                     .o = o,
                                                     .lse = lse,
                                                     .d_o = shaped(numbers, all, q),
                                                     .dq = tensor_columns(&fused_gradient, 0, q),
                                                     .dk = tensor_columns(&fused_gradient, q, kv),
                                                     .dv = tensor_columns(&fused_gradient, q + kv, kv),
                                                     .segments = segments,
                                                     .heads = HEADS,
                                                     .kv_heads = KV_HEADS,
                                                     .head_dim = head_dim,
                                                     .scale = scale,
                                                     .causal = causal};
    const double keys = causal ? ((double)length + 1) / 2 : (double)length, pairs = 2 * keys * (double)(all * q);
    struct machine_rate rate = {.kind = RATE_ATTENTION_FORWARD,
                                .type = causal ? RATE_CAUSAL : RATE_FULL,
                                .size = {(double)head_dim, (double)length}};
    rate.per_second = 2 * pairs / time_on(b, STREAM_COMPUTE, OP_ATTENTION_FORWARD, &forward);
    add(b, rate);
    rate.kind = RATE_ATTENTION_BACKWARD;
    rate.per_second = 5 * pairs / time_on(b, STREAM_COMPUTE, OP_ATTENTION_BACKWARD, &backward);
    add(b, rate);
    void *const allocated[] = {starts.data, lengths.data, offsets.data, o.data, fused_gradient.data, lse.data};
    for (size_t i = 0; i < sizeof allocated / sizeof allocated[0]; i++)
        release(b, allocated[i]);
}

static void measure_attentions(struct bench *b, enum dtype dtype)
{
    const int64_t all = b->device ? b->largest : 2 * b->largest, long_row = 4 * all;
    for (int64_t head_dim = 64; head_dim <= 128; head_dim *= 2) {
        const struct tensor numbers = random_numbers(b, dtype, long_row * (HEADS + 2 * KV_HEADS) * head_dim);
        if (b->device && !b->settings->quick) /* the rate still grows there */
            measure_attention(b, &numbers, long_row, long_row, head_dim, true);
        for (int causal = 0; causal <= 1; causal++)
            for (int64_t length = all; length >= all / 16; length /= b->settings->quick ? 4 : 2)
                measure_attention(b, &numbers, all, length, head_dim, causal);
        release(b, numbers.data);
    }
}

/* -- Memory ------------------------------------------------------------------------------------------------------- */

/* Measures memory with an op that reads rows once and writes as many. */
static void measure_memory(struct bench *b, enum dtype dtype)
{
    const int64_t width = 1024, most = b->largest * 4;
    const struct tensor x = random_numbers(b, dtype, most * width);
    const struct tensor y = tensor_vector(allocate(b, most * width * dtype_size(dtype)), dtype, most * width);
    const struct tensor rstd = tensor_vector(allocate(b, most * 4), DTYPE_F32, most);
    for (int64_t rows = most; rows >= 16; rows /= 8) {
        const struct rmsnorm_forward_args args = {.x = shaped(&x, rows, width),
                                                  .weight = shaped(&x, 1, width),
                                                  .y = shaped(&y, rows, width),
                                                  .rstd = tensor_columns(&rstd, 0, rows),
                                                  .eps = 1e-5f};
        const double bytes = (double)op_bytes(OP_RMSNORM_FORWARD, &args);
        add(b, (struct machine_rate){.kind = RATE_MEMORY,
                                     .size = {bytes},
                                     .per_second = bytes / time_on(b, STREAM_COMPUTE, OP_RMSNORM_FORWARD, &args)});
    }
    release(b, x.data);
    release(b, y.data);
    release(b, rstd.data);
}

static void measure_host(struct bench *b)
{
    const int64_t most = 256 << 20;
    const struct tensor from = random_numbers(b, DTYPE_F32, most / 4);
    void *host = b->executor->class->allocate(b->executor, most, MEMORY_HOST);
    for (int64_t count = most / 4; count >= most / 4 / 64; count /= 8) {
        const struct copy_args args = {.from = tensor_columns(&from, 0, count),
                                       .to = tensor_vector(host, DTYPE_F32, count)};
        const double bytes = (double)(4 * count);
        add(b, (struct machine_rate){.kind = RATE_HOST,
                                     .size = {bytes},
                                     .per_second = bytes / time_on(b, STREAM_OFFLOAD, OP_COPY, &args)});
    }
    b->executor->class->release(b->executor, host, MEMORY_HOST);
    release(b, from.data);
}

/* -- Collectives -------------------------------------------------------------------------------------------------- */

/* Allocates from the group if it allocates memory, as a weight store does, else from the executor. */
static void *allocate_in(const struct bench *b, struct group *group, int64_t bytes)
{
    const bool gives = group->class->allocate != NULL;
    return gives ? group->class->allocate(group, bytes) : allocate(b, bytes);
}

static void release_in(const struct bench *b, struct group *group, void *memory)
{
    if (group->class->allocate != NULL)
        group->class->release(group, memory);
    else
        release(b, memory);
}

static void add_collective(struct bench *b, const struct group *group, enum rate_kind kind, enum op op,
                           const void *args, double received)
{
    const double seconds = time_on(b, STREAM_COMPUTE, op, args);
    add(b,
        (struct machine_rate){.kind = kind, .size = {(double)group->size, received}, .per_second = received / seconds});
}

/* all: bytes of the whole tensor. */
static void measure_size(struct bench *b, struct group *group, char *memory, char *scratch, int64_t all)
{
    const int64_t size = group->size, part = all / size;
    const double received = (double)(all - part);
    const struct tensor absent = {0};
    const struct tensor whole = tensor_matrix(memory, DTYPE_F32, size, part / 4);
    const struct tensor own = tensor_rows(&whole, group->rank, 1);
    const struct tensor copies = group->copies ? tensor_matrix(scratch, DTYPE_F32, size, part / 4) : absent;
    const struct all_reduce_args reduce = {
        .group = group, .x = tensor_vector(memory, DTYPE_F32, all / 4), .scratch = copies};
    const struct reduce_scatter_args scatter = {.group = group, .in = whole, .out = own, .scratch = copies};
    const struct all_gather_args gather = {.group = group, .in = own, .out = whole};
    const struct all_to_all_args exchange = {
        .group = group, .in = whole, .out = tensor_matrix(scratch, DTYPE_F32, size, part / 4)};
    const struct shift_args shift = {.group = group,
                                     .in = tensor_vector(memory, DTYPE_F32, all / 4),
                                     .out = tensor_vector(scratch, DTYPE_F32, all / 4)};
    add_collective(b, group, RATE_ALL_REDUCE, OP_ALL_REDUCE, &reduce, 2 * received);
    add_collective(b, group, RATE_REDUCE_SCATTER, OP_REDUCE_SCATTER, &scatter, received);
    add_collective(b, group, RATE_ALL_GATHER, OP_ALL_GATHER, &gather, received);
    add_collective(b, group, RATE_ALL_TO_ALL, OP_ALL_TO_ALL, &exchange, received);
    add_collective(b, group, RATE_SHIFT, OP_SHIFT, &shift, (double)all);
}

static void measure_group(struct bench *b, int size)
{
    enum { PART = 512 }; /* a rank's part is a multiple of this many bytes */
    const int64_t most = b->device ? 512 << 20 : 1 << 20, fewest = b->device ? 512 << 10 : 16 << 10;
    struct comm *comm = comm_divide(b->world, 1, size);
    struct group *group = comm_group_create(comm, b->executor, "measure");
    const int block = b->executor->node_block;
    group->copies = b->executor->copies && (block == 0 || block % size == 0);
    char *memory = allocate_in(b, group, most), *scratch = allocate_in(b, group, most);
    for (int64_t all = most; all >= fewest && all >= (int64_t)size * PART; all /= 8)
        measure_size(b, group, memory, scratch, all / size / PART * PART * size);
    release_in(b, group, scratch);
    release_in(b, group, memory);
    comm_group_destroy(group);
    comm_destroy(comm);
}

/* Returns how many consecutive ranks are on a node; the world's size if all are, or if no two are. */
static int ranks_of_node(const struct bench *b)
{
    const int block = b->executor->node_block;
    return block > 1 ? block : b->world->size;
}

/* Each rank receives from the rank at its place on another node, all at the same time. */
static void measure_between_nodes(struct bench *b)
{
    const int64_t bytes = b->device ? 256 << 20 : 1 << 20;
    struct comm *comm = comm_split(b->world, b->world->rank % b->executor->node_block);
    struct group *group = comm_group_create(comm, b->executor, "between");
    char *sent = allocate(b, bytes), *received = allocate(b, bytes);
    const struct shift_args shift = {.group = group,
                                     .in = tensor_vector(sent, DTYPE_F32, bytes / 4),
                                     .out = tensor_vector(received, DTYPE_F32, bytes / 4)};
    b->rates->between_nodes = (double)bytes / time_on(b, STREAM_COMPUTE, OP_SHIFT, &shift);
    release(b, received);
    release(b, sent);
    comm_group_destroy(group);
    comm_destroy(comm);
}

/* -- Machine profile ---------------------------------------------------------------------------------------------- */

static void name_device(struct bench *b)
{
    char *name = device_name(b->executor);
    snprintf(b->rates->device, sizeof b->rates->device, "%s", name);
    free(name);
}

void measure_rates(struct machine_rates *rates, struct comm *world, struct executor *executor,
                   const struct measure_settings *settings)
{
    enum { DEVICE_LARGEST = 16384, HOST_LARGEST = 512 };
    const bool device = executor->device != NULL;
    struct bench b = {.world = world,
                      .executor = executor,
                      .settings = settings,
                      .rates = rates,
                      .device = device,
                      .largest = settings->largest > 0 ? settings->largest
                                 : device              ? DEVICE_LARGEST
                                                       : HOST_LARGEST,
                      .seconds = device ? 0.03 : 0.002};
    const enum dtype value = device ? DTYPE_BF16 : DTYPE_F32;
    name_device(&b);
    measure_gemms(&b, value);
    if (device && executor->class->lacks_products(executor, SCALING_TENSOR) == NULL)
        measure_gemms(&b, DTYPE_E4M3);
    measure_attentions(&b, value);
    measure_memory(&b, value);
    if (device)
        measure_host(&b);
    for (int size = ranks_of_node(&b); size > 1; size = size % 2 == 0 ? size / 2 : 1)
        measure_group(&b, size);
    if (executor->node_block > 0 && executor->node_block < world->size)
        measure_between_nodes(&b);
}
