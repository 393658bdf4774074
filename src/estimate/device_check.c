#include "estimate/device_check.h"
#include "base/available.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/range.h"
#include "estimate/device_name.h"
#include "estimate/device_verdict.h"
#include "estimate/timed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

enum { ROUNDS = 4 /* repetitions of a measurement, of which the fastest counts */ };

struct check {
    struct comm *world, *node;
    struct executor *executor;
    struct stream stream;
    bool device;    /* the executor's device has its own memory */
    double seconds; /* of the products, and limit of the memory test */
    struct device_report *report;
};

/* -- Launches ----------------------------------------------------------------------------------------------------- */

static void *allocate(const struct check *c, int64_t bytes)
{
    return c->executor->class->allocate(c->executor, bytes, MEMORY_DEVICE);
}

static void release(const struct check *c, void *memory)
{
    c->executor->class->release(c->executor, memory, MEMORY_DEVICE);
}

static void reserve(const struct check *c, enum op op, const void *args)
{
    const struct executor_class *class = c->executor->class;
    if (class->workspace != NULL)
        class->reserve(c->executor, c->stream.id, class->workspace(c->executor, op, args));
}

/* Copies between a tensor and host memory, either way, and waits. */
static void copy_now(const struct check *c, struct tensor from, struct tensor to)
{
    struct stream stream = c->stream;
    LAUNCH(&stream, COPY, copy, .from = from, .to = to);
    stream_synchronize(&stream);
}

/* Returns how many launches take `seconds` on the slowest rank of comm. */
static int64_t launches_in(const struct check *c, struct comm *comm, enum op op, const void *args, double seconds)
{
    enum { MOST = 20000 };
    struct stream stream = c->stream;
    timed_launches(&stream, op, args, 1);
    const int64_t nanoseconds = comm_max_i64(comm, (int64_t)(1e9 * timed_launches(&stream, op, args, 1)));
    return (int64_t)fmin(MOST, ceil(seconds / (1e-9 * (double)MAX(nanoseconds, 100))));
}

/* Returns the seconds of a launch in the fastest of ROUNDS repetitions, which take `seconds` together. Collective over
 * comm. */
static double fastest(const struct check *c, struct comm *comm, enum op op, const void *args, double seconds)
{
    const int64_t times = launches_in(c, comm, op, args, seconds / ROUNDS);
    struct stream stream = c->stream;
    double least = INFINITY;
    for (int r = 0; r < ROUNDS; r++)
        least = fmin(least, timed_launches(&stream, op, args, times) / (double)times);
    return least;
}

/* -- Products ----------------------------------------------------------------------------------------------------- */

enum { WHOLE = 63 /* largest magnitude of integers: sums of up to 2^24 / WHOLE^2 = 4227 products are exact in f32 */ };

/* The operands of a GEMM d = a b', n x n each, on the host and the device. */
struct product {
    int64_t n;
    float *a, *b;
    struct tensor on_device[2], d;
    float *result; /* host memory of the executor */
};

static void draw(float *numbers, int64_t count, uint64_t stream, bool integers)
{
    const struct random_key key = {17, RANDOM_TEST, stream};
    if (!integers)
        random_normal_floats(&key, 0, count, 1, numbers);
    for (int64_t i = 0; i < count && integers; i++)
        numbers[i] = (float)((int64_t)(random_bits(&key, (uint64_t)i) % (2 * WHOLE + 1)) - WHOLE);
}

/* Copies numbers[n * n] to the device, rounded to its type. */
static void upload(const struct check *c, const struct product *p, const float *numbers, struct tensor to)
{
    const int64_t count = p->n * p->n;
    char *host = c->executor->class->allocate(c->executor, count * dtype_size(to.dtype), MEMORY_HOST);
    for (int64_t i = 0; i < count; i++)
        if (to.dtype == DTYPE_BF16)
            ((uint16_t *)host)[i] = f32_to_bf16(numbers[i]);
        else
            ((float *)host)[i] = numbers[i];
    copy_now(c, tensor_matrix(host, to.dtype, p->n, p->n), to);
    c->executor->class->release(c->executor, host, MEMORY_HOST);
}

static void set_operands(const struct check *c, struct product *p, bool integers)
{
    draw(p->a, p->n * p->n, 0, integers);
    draw(p->b, p->n * p->n, 1, integers);
    upload(c, p, p->a, p->on_device[0]);
    upload(c, p, p->b, p->on_device[1]);
}

static struct product product_create(const struct check *c)
{
    struct product p = {.n = c->device ? 4096 : 256};
    const int64_t count = p.n * p.n;
    const enum dtype value = c->device ? DTYPE_BF16 : DTYPE_F32;
    p.a = memory_allocate(count * (int64_t)sizeof *p.a);
    p.b = memory_allocate(count * (int64_t)sizeof *p.b);
    for (int i = 0; i < 2; i++)
        p.on_device[i] = tensor_matrix(allocate(c, count * dtype_size(value)), value, p.n, p.n);
    p.d = tensor_matrix(allocate(c, count * (int64_t)sizeof(float)), DTYPE_F32, p.n, p.n);
    p.result = c->executor->class->allocate(c->executor, count * (int64_t)sizeof(float), MEMORY_HOST);
    return p;
}

static void product_destroy(const struct check *c, struct product *p)
{
    memory_free(p->a);
    memory_free(p->b);
    release(c, p->on_device[0].data);
    release(c, p->on_device[1].data);
    release(c, p->d.data);
    c->executor->class->release(c->executor, p->result, MEMORY_HOST);
}

static void fetch_result(const struct check *c, struct product *p)
{
    copy_now(c, p->d, tensor_matrix(p->result, DTYPE_F32, p->n, p->n));
}

static uint64_t hash_of_result(const struct check *c, struct product *p)
{
    fetch_result(c, p);
    return XXH3_64bits(p->result, (size_t)(p->n * p->n) * sizeof(float));
}

/* Returns whether d = a b' for integers, by comparing d x with a (b' x) for a vector x of odd integers, so that one
 * wrong element cannot go unnoticed (Freivalds 1979). No sum exceeds 2^52. */
static bool is_exact(const struct product *p)
{
    const struct random_key key = {17, RANDOM_TEST, 2};
    int64_t *x = memory_allocate(p->n * (int64_t)sizeof *x), *y = memory_allocate(p->n * (int64_t)sizeof *y);
    bool exact = true;
    for (int64_t j = 0; j < p->n; j++)
        x[j] = (int64_t)(random_bits(&key, (uint64_t)j) & 0x7fff) | 1;
    for (int64_t j = 0; j < p->n; j++)
        for (int64_t k = 0; k < p->n; k++)
            y[k] += (int64_t)p->b[j * p->n + k] * x[j];
    for (int64_t i = 0; i < p->n; i++) {
        int64_t expected = 0, found = 0;
        for (int64_t k = 0; k < p->n; k++)
            expected += (int64_t)p->a[i * p->n + k] * y[k];
        for (int64_t j = 0; j < p->n; j++) {
            const float element = p->result[i * p->n + j];
            exact = exact && fabsf(element) <= 0x1p24F && element == truncf(element);
            found += exact ? (int64_t)element * x[j] : 0;
        }
        exact = exact && found == expected;
    }
    memory_free(x);
    memory_free(y);
    return exact;
}

static void check_products(struct check *c)
{
    struct product p = product_create(c);
    struct stream stream = c->stream;
    const struct gemm_args args = {.a = p.on_device[0], .b = p.on_device[1], .d = p.d, .transpose_b = true};
    reserve(c, OP_GEMM, &args);
    set_operands(c, &p, true);
    launch(&stream, OP_GEMM, &args);
    fetch_result(c, &p);
    c->report->miscounts = !is_exact(&p);
    set_operands(c, &p, false);
    launch(&stream, OP_GEMM, &args);
    c->report->product = hash_of_result(c, &p);
    const int64_t times = launches_in(c, c->world, OP_GEMM, &args, c->seconds / ROUNDS);
    double least = INFINITY;
    for (int r = 0; r < ROUNDS; r++) {
        least = fmin(least, timed_launches(&stream, OP_GEMM, &args, times) / (double)times);
        c->report->varies |= hash_of_result(c, &p) != c->report->product;
    }
    const double n = (double)p.n;
    c->report->flops = 2 * n * n * n / least;
    product_destroy(c, &p);
}

/* -- Patterns ----------------------------------------------------------------------------------------------------- */

/* Random floats of all signs and mantissas, with exponents near 1, whose complement, bit for bit, is another such
 * float. Adding the negative of what memory should hold makes it 0, so the device can compare. */
enum { PATTERN, COMPLEMENT, PATTERNS };

struct patterns {
    int64_t count;                                   /* of elements */
    struct tensor bits[PATTERNS], negated[PATTERNS]; /* f32 [1, count] */
    struct tensor sum, on_host;                      /* f64 [1, 1], and its copy in host memory */
};

static struct tensor upload_words(const struct check *c, uint32_t *host, int64_t count, uint32_t flipped)
{
    const int64_t bytes = count * (int64_t)sizeof *host;
    const struct tensor to = tensor_vector(allocate(c, bytes), DTYPE_F32, count);
    for (int64_t i = 0; i < count; i++)
        host[i] ^= flipped;
    copy_now(c, tensor_vector(host, DTYPE_F32, count), to);
    for (int64_t i = 0; i < count; i++)
        host[i] ^= flipped;
    return to;
}

static struct patterns patterns_create(const struct check *c)
{
    static const uint32_t sign = UINT32_C(1) << 31;
    const struct random_key key = {17, RANDOM_TEST, 3};
    struct patterns p = {.count = c->device ? 16 << 20 : 1 << 18};
    const int64_t bytes = p.count * (int64_t)sizeof(uint32_t);
    uint32_t *host = c->executor->class->allocate(c->executor, bytes, MEMORY_HOST);
    for (int64_t i = 0; i < p.count; i++) {
        const uint32_t word = (uint32_t)random_bits(&key, (uint64_t)i);
        const uint32_t exponent = (word >> 30 & 1) != 0 ? 0x70 : 0x80;
        host[i] = (word & ~(UINT32_C(0xf0) << 23)) | exponent << 23;
    }
    for (int k = 0; k < PATTERNS; k++) {
        const uint32_t flipped = k == COMPLEMENT ? UINT32_MAX : 0;
        p.bits[k] = upload_words(c, host, p.count, flipped);
        p.negated[k] = upload_words(c, host, p.count, flipped ^ sign);
    }
    c->executor->class->release(c->executor, host, MEMORY_HOST);
    p.sum = tensor_vector(allocate(c, sizeof(double)), DTYPE_F64, 1);
    p.on_host = tensor_vector(c->executor->class->allocate(c->executor, sizeof(double), MEMORY_HOST), DTYPE_F64, 1);
    reserve(c, OP_SUM_SQUARES, &(struct sum_squares_args){.x = p.bits[0], .sum = p.sum});
    return p;
}

static void patterns_destroy(const struct check *c, struct patterns *p)
{
    for (int k = 0; k < PATTERNS; k++) {
        release(c, p->bits[k].data);
        release(c, p->negated[k].data);
    }
    release(c, p->sum.data);
    c->executor->class->release(c->executor, p->on_host.data, MEMORY_HOST);
}

/* Copies or adds a pattern to memory, rotated by an offset of its own for each chunk, so that chunks differ. */
static void put(const struct check *c, enum op op, struct tensor pattern, struct tensor memory, int64_t chunk)
{
    enum { STEP = 1009 * 64 /* elements; odd but for the alignment */ };
    struct stream stream = c->stream;
    const int64_t first = chunk * STEP % pattern.cols, rest = pattern.cols - first;
    const struct tensor from[2] = {tensor_columns(&pattern, first, rest), tensor_columns(&pattern, 0, first)};
    const struct tensor to[2] = {tensor_columns(&memory, 0, rest), tensor_columns(&memory, rest, first)};
    for (int i = 0; i < 2 && from[i].cols > 0; i++)
        if (op == OP_COPY)
            LAUNCH(&stream, COPY, copy, .from = from[i], .to = to[i]);
        else
            LAUNCH(&stream, ADD, add, .from = from[i], .to = to[i]);
}

/* Returns whether memory has this pattern, and makes it 0. */
static bool has_pattern(const struct check *c, const struct patterns *p, int pattern, struct tensor memory,
                        int64_t chunk)
{
    struct stream stream = c->stream;
    put(c, OP_ADD, p->negated[pattern], memory, chunk);
    LAUNCH(&stream, SUM_SQUARES, sum_squares, .x = memory, .sum = p->sum);
    copy_now(c, p->sum, p->on_host);
    return tensor_get(&p->on_host, 0, 0) == 0; /* NaN is not */
}

/* -- Memory ------------------------------------------------------------------------------------------------------- */

/* Returns the bytes that the test may allocate. */
static int64_t free_bytes(const struct check *c)
{
    const struct executor_device *device = c->executor->device;
    struct executor *owner = c->executor->owner;
    return device != NULL ? (device->available(owner) - device->margin(owner)) / 16 * 15
                          : available_memory("") / c->node->size / 2;
}

static void check_memory(struct check *c, const struct patterns *p)
{
    const int64_t bytes = p->count * (int64_t)sizeof(float), most = MAX(free_bytes(c) / bytes, 1);
    struct tensor *chunks = memory_allocate(most * (int64_t)sizeof *chunks);
    struct stream stream = c->stream;
    int64_t count = 0;
    for (const double start = clock_seconds(); count < most && (count == 0 || clock_seconds() - start < c->seconds);) {
        chunks[count] = tensor_vector(allocate(c, bytes), DTYPE_F32, p->count);
        put(c, OP_COPY, p->bits[PATTERN], chunks[count], count); /* the time limit counts the writes too */
        stream_synchronize(&stream);
        count++;
    }
    for (int pattern = 0; pattern < PATTERNS; pattern++) {
        for (int64_t i = 0; i < count; i++)
            put(c, OP_COPY, p->bits[pattern], chunks[i], i);
        for (int64_t i = 0; i < count; i++)
            c->report->forgets |= !has_pattern(c, p, pattern, chunks[i], i);
    }
    c->report->tested = count * bytes;
    const struct copy_args copy = {.from = p->bits[0], .to = chunks[0]};
    c->report->memory = 2 * (double)bytes / fastest(c, c->world, OP_COPY, &copy, c->seconds / 4);
    for (int64_t i = 0; i < count; i++)
        release(c, chunks[i].data);
    memory_free(chunks);
}

/* -- Transfers ---------------------------------------------------------------------------------------------------- */

/* A rank's place: the world's rank of the first rank on its node, and its index there. */
struct node_place {
    int first, index;
};

/* Returns the rank at an index of node number `number`, counted by first ranks; -1: there is none. */
static int rank_at(const struct node_place *places, int ranks, int number, int index)
{
    int first = 0;
    while (first < ranks && (places[first].first != first || number-- > 0))
        first++;
    for (int r = first; r < ranks; r++)
        if (places[r].first == first && places[r].index == index)
            return r;
    return -1;
}

static int node_number(const struct node_place *places, int first)
{
    int number = 0;
    for (int r = 0; r < first; r++)
        number += places[r].first == r;
    return number;
}

/* Each rank of the pair gathers the other's pattern. */
static void transfer(struct check *c, const struct patterns *p, struct comm *pair, struct link_report link)
{
    struct group *group = comm_group_create(pair, c->executor, "check");
    const bool gives = group->class->allocate != NULL;
    const int64_t bytes = p->count * (int64_t)sizeof(float);
    void *memory = gives ? group->class->allocate(group, 2 * bytes) : allocate(c, 2 * bytes);
    const struct tensor both = tensor_matrix(memory, DTYPE_F32, 2, p->count);
    const int sent = pair->rank == 0 ? PATTERN : COMPLEMENT, received = PATTERN + COMPLEMENT - sent;
    const struct all_gather_args args = {.group = group, .in = p->bits[sent], .out = both};
    const double seconds = fastest(c, pair, OP_ALL_GATHER, &args, c->seconds / 10);
    link.per_second = 1e9 * (double)bytes / (double)comm_max_i64(pair, (int64_t)(1e9 * seconds)); /* as both see it */
    link.wrong = !has_pattern(c, p, received, tensor_rows(&both, 1 - pair->rank, 1), 0);
    if (gives)
        group->class->release(group, memory);
    else
        release(c, memory);
    comm_group_destroy(group);
    c->report->links[c->report->link_count++] = link;
}

/* One round: exchanges with `other`; -1: this rank has no other one. Collective over world. */
static void transfer_round(struct check *c, const struct patterns *p, int other, bool near)
{
    const int rank = c->world->rank;
    struct comm *pair = comm_split(c->world, other >= 0 ? MIN(rank, other) : rank);
    if (pair->size == 2)
        transfer(c, p, pair, (struct link_report){.rank = other, .near = near});
    comm_destroy(pair);
}

static void check_transfers(struct check *c, const struct patterns *p)
{
    const int ranks = c->world->size;
    const struct node_place own = {(int)-comm_max_i64(c->node, -c->world->rank), c->node->rank};
    struct node_place *places = memory_allocate(ranks * (int64_t)sizeof *places);
    comm_all_gather(c->world, &own, places, sizeof own);
    const int number = node_number(places, own.first), nodes = node_number(places, ranks);
    const int64_t most = comm_max_i64(c->world, c->node->size);
    for (int bit = 1; bit < most; bit *= 2)
        transfer_round(c, p, rank_at(places, ranks, number, own.index ^ bit), true);
    for (int bit = 1; bit < nodes; bit *= 2)
        transfer_round(c, p, rank_at(places, ranks, number ^ bit, own.index), false);
    memory_free(places);
}

/* -- All ---------------------------------------------------------------------------------------------------------- */

static void describe(struct check *c)
{
    char *name = device_name(c->executor);
    snprintf(c->report->kind, sizeof c->report->kind, "%s", name);
    device_place_find(&c->report->place, c->executor);
    free(name);
}

int device_check(struct comm *world, struct comm *node, struct executor *executor,
                 const struct device_check_settings *settings)
{
    struct device_report *own = memory_allocate(sizeof *own);
    const bool device = executor->device != NULL;
    struct check c = {.world = world,
                      .node = node,
                      .executor = executor,
                      .stream = {executor, STREAM_COMPUTE, NULL},
                      .device = device,
                      .seconds = settings->seconds > 0 ? settings->seconds
                                 : device              ? 1
                                                       : 0.1,
                      .report = own};
    describe(&c);
    comm_barrier(world);
    check_products(&c);
    struct patterns patterns = patterns_create(&c);
    check_memory(&c, &patterns);
    check_transfers(&c, &patterns);
    patterns_destroy(&c, &patterns);
    struct device_report *all = memory_allocate(world->rank == 0 ? world->size * (int64_t)sizeof *all : 1);
    comm_gather(world, own, all, sizeof *own);
    const int code =
        comm_agree(world, world->rank == 0 ? device_verdict(all, world->size, settings->slow) : ERROR_NONE);
    memory_free(all);
    memory_free(own);
    return code;
}
