#include "comm/comm.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/range.h"

#include <stdio.h>
#include <string.h>

/* SLICE_BYTES: bytes reduced at a time; bounds a group's scratch. */
enum { SLICE_BYTES = 4 << 20, MESSAGE_BYTES = 16384 };

/* All-gathers are direct among few ranks, and for blocks whose transfer takes longer than a message. */
enum { DIRECT_RANKS = 32, DIRECT_BYTES = 32 << 10 };

/* The factor of the time limit during long work. */
static const double LONG_WORK = 10;

static double timeout;
static int long_works; /* nesting depth */
static double spent;   /* seconds in collectives */

/* Calls a collective and adds its time to `spent`. */
#define TIMED(call)                                                                                                    \
    do {                                                                                                               \
        const double start = clock_seconds();                                                                          \
        call;                                                                                                          \
        spent += clock_seconds() - start;                                                                              \
    } while (0)

void comm_set_timeout(double seconds)
{
    timeout = seconds;
}

void comm_begin_long_work(void)
{
    long_works++;
}

void comm_end_long_work(void)
{
    long_works--;
}

double comm_limit(void)
{
    return long_works > 0 ? LONG_WORK * timeout : timeout;
}

double comm_seconds(void)
{
    return spent;
}

static void (*attend_ranks)(double waited); /* NULL: no other ranks */

void comm_on_attend(void (*attend)(double waited))
{
    attend_ranks = attend;
}

bool comm_attends(void)
{
    return attend_ranks != NULL;
}

void comm_attend(double waited)
{
    attend_ranks(waited);
}

void comm_missing(struct comm *comm, char *text, int64_t bytes)
{
    comm->class->missing(comm, text, bytes);
}

void comm_destroy(struct comm *comm)
{
    if (comm == NULL)
        return;
    comm->class->destroy(comm);
    memory_free(comm);
}

void comm_barrier(struct comm *comm)
{
    TIMED(comm->class->barrier(comm));
}

void comm_broadcast(struct comm *comm, void *data, int64_t bytes, int root)
{
    TIMED(comm->class->broadcast(comm, data, bytes, root));
}

void comm_all_gather(struct comm *comm, const void *in, void *out, int64_t bytes)
{
    TIMED(comm->class->all_gather(comm, in, out, bytes));
}

void comm_gather(struct comm *comm, const void *in, void *out, int64_t bytes)
{
    TIMED(comm->class->gather(comm, in, out, bytes));
}

void comm_reduce(struct comm *comm, int64_t *values, int64_t count, enum comm_reduction reduction)
{
    TIMED(comm->class->reduce(comm, values, count, reduction));
}

void comm_all_to_all(struct comm *comm, const void *in, void *out, int64_t bytes)
{
    TIMED(comm->class->all_to_all(comm, in, out, bytes));
}

void comm_shift(struct comm *comm, const void *in, void *out, int64_t bytes)
{
    TIMED(comm->class->shift(comm, in, out, bytes));
}

void comm_send_receive(struct comm *comm, void *const data[TRANSFER_DIRECTIONS],
                       const int64_t bytes[TRANSFER_DIRECTIONS])
{
    TIMED(comm->class->send_receive(comm, data, bytes));
}

struct comm *comm_split(struct comm *comm, int color)
{
    return comm->class->split(comm, color);
}

struct comm_part comm_part(int rank, int size, int stride, int count)
{
    const int64_t block = rank / ((int64_t)stride * count) * stride * count;
    const int first = (int)block + (rank - (int)block) % stride;
    return (struct comm_part){first, MIN(count, (size - first + stride - 1) / stride), (rank - first) / stride};
}

bool comm_gathers_first(int size, int64_t bytes)
{
    return size > DIRECT_RANKS && bytes < DIRECT_BYTES;
}

struct comm *comm_divide(struct comm *comm, int stride, int count)
{
    return comm->class->divide(comm, stride, count);
}

struct comm *comm_split_node(struct comm *comm)
{
    return comm->class->split_node(comm);
}

static int64_t reduced(struct comm *comm, int64_t value, enum comm_reduction reduction)
{
    comm_reduce(comm, &value, 1, reduction);
    return value;
}

int64_t comm_max_i64(struct comm *comm, int64_t value)
{
    return reduced(comm, value, COMM_MAXIMUM);
}

int64_t comm_sum_i64(struct comm *comm, int64_t value)
{
    return reduced(comm, value, COMM_SUM);
}

int comm_share(struct comm *comm, int code)
{
    const int64_t none = comm->size, first = reduced(comm, code != ERROR_NONE ? comm->rank : none, COMM_MINIMUM);
    if (first == none)
        return ERROR_NONE;
    int shared = code;
    comm_broadcast(comm, &shared, sizeof shared, (int)first);
    char message[MESSAGE_BYTES] = "";
    if (comm->rank > 0) /* name the rank: a single node may not see a file */
        snprintf(message, sizeof message, "rank %d: %s", comm->rank, error_message());
    else
        snprintf(message, sizeof message, "%s", error_message());
    comm_broadcast(comm, message, sizeof message, (int)first);
    error_clear();
    return error_restate(shared, message);
}

int comm_agree(struct comm *comm, int code)
{
    code = comm_share(comm, code);
    if (code != ERROR_NONE && comm->rank == 0)
        error_print();
    error_clear();
    return code;
}

struct comm_spread comm_spread(struct comm *comm, double value)
{
    const int ranks = comm->rank == 0 ? comm->size : 0; /* rank 0 adds, in rank order */
    double *all = memory_allocate((int64_t)sizeof *all * (ranks + 1));
    struct comm_spread spread = {value, 0, value};
    comm_gather(comm, &value, all, sizeof value);
    for (int r = 0; r < ranks; r++) {
        spread.minimum = all[r] < spread.minimum ? all[r] : spread.minimum;
        spread.maximum = all[r] > spread.maximum ? all[r] : spread.maximum;
        spread.mean += all[r] / comm->size;
    }
    memory_free(all);
    comm_broadcast(comm, &spread, sizeof spread, 0);
    return spread;
}

/* -- Collectives for executors ----------------------------------------------------------------------------------- */

/* Reductions exchange slices and reduce them in rank order, so results are the same in every run and on every rank. */
struct host_group {
    struct group group;
    struct comm *comm;
    char *sent, *received;
    int64_t capacity; /* bytes of each buffer, which grows on demand up to SLICE_BYTES */
};

static void reserve(struct host_group *host, int64_t bytes)
{
    if (bytes <= host->capacity)
        return;
    host->sent = memory_extend(host->sent, 0, bytes);
    host->received = memory_extend(host->received, 0, bytes);
    host->capacity = bytes;
}

typedef void reduction(void *result, const void *term, int64_t count, enum dtype dtype);

static void add(void *sum, const void *term, int64_t count, enum dtype dtype)
{
    if (dtype == DTYPE_F64) {
        double *s = sum;
        const double *t = term;
        for (int64_t i = 0; i < count; i++)
            s[i] += t[i];
    } else {
        float *s = sum;
        const float *t = term;
        for (int64_t i = 0; i < count; i++)
            s[i] += t[i];
    }
}

static void raise_to(void *largest, const void *term, int64_t count, enum dtype dtype)
{
    if (dtype == DTYPE_F64) {
        double *l = largest;
        const double *t = term;
        for (int64_t i = 0; i < count; i++)
            l[i] = MAX(t[i], l[i]);
    } else {
        float *l = largest;
        const float *t = term;
        for (int64_t i = 0; i < count; i++)
            l[i] = MAX(t[i], l[i]);
    }
}

/* Adds `size` slices of bf16 into the first. Each element is summed in f32 and rounded once. */
static void add_halves(uint16_t *slices, int size, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        float sum = bf16_to_f32(slices[i]);
        for (int r = 1; r < size; r++)
            sum += bf16_to_f32(slices[r * count + i]);
        slices[i] = f32_to_bf16(sum);
    }
}

/* Reduces the group's slices of `count` elements in `received`, in rank order, into the first slice. */
static void reduce_slices(struct host_group *host, int64_t count, enum dtype dtype, reduction *reduce)
{
    int64_t bytes = count * dtype_size(dtype);
    if (dtype == DTYPE_BF16) {
        add_halves((uint16_t *)host->received, host->comm->size, count);
        return;
    }
    for (int r = 1; r < host->comm->size; r++)
        reduce(host->received, host->received + r * bytes, count, dtype);
}

static void host_all_reduce(struct group *group, struct stream *stream, const struct all_reduce_args *args)
{
    (void)stream;
    struct host_group *host = group->self;
    int size = group->size;
    if (size == 1)
        return;
    int64_t width = dtype_size(args->x.dtype), total = tensor_count(&args->x);
    int64_t slice_limit = SLICE_BYTES / width / size;
    for (int64_t first = 0; first < total; first += slice_limit * size) {
        int64_t left = MIN(total - first, slice_limit * size);
        int64_t slice = (left + size - 1) / size;
        char *data = (char *)args->x.data + first * width;
        reserve(host, slice * size * width);
        memcpy(host->sent, data, (size_t)(left * width)); /* data after `left` is reduced and discarded */
        comm_all_to_all(host->comm, host->sent, host->received, slice * width);
        reduce_slices(host, slice, args->x.dtype, args->maximum ? raise_to : add);
        comm_all_gather(host->comm, host->received, host->sent, slice * width);
        memcpy(data, host->sent, (size_t)(left * width));
    }
}

static void host_reduce_scatter(struct group *group, struct stream *stream, const struct reduce_scatter_args *args)
{
    (void)stream;
    struct host_group *host = group->self;
    int64_t width = dtype_size(args->in.dtype), total = args->in.cols;
    int64_t slice_limit = SLICE_BYTES / width / group->size;
    for (int64_t first = 0; first < total; first += slice_limit) {
        int64_t slice = MIN(total - first, slice_limit);
        reserve(host, slice * group->size * width);
        for (int r = 0; r < group->size; r++)
            memcpy(host->sent + r * slice * width, tensor_at(&args->in, r, first), (size_t)(slice * width));
        comm_all_to_all(host->comm, host->sent, host->received, slice * width);
        reduce_slices(host, slice, args->in.dtype, add);
        memcpy(tensor_at(&args->out, 0, first), host->received, (size_t)(slice * width));
    }
}

static void host_all_gather(struct group *group, struct stream *stream, const struct all_gather_args *args)
{
    (void)stream;
    struct host_group *host = group->self;
    comm_all_gather(host->comm, args->in.data, args->out.data, args->in.cols * dtype_size(args->in.dtype));
}

static void host_broadcast(struct group *group, struct stream *stream, const struct broadcast_args *args)
{
    (void)stream;
    struct host_group *host = group->self;
    comm_broadcast(host->comm, args->x.data, tensor_extent(&args->x), args->root);
}

static void host_all_to_all(struct group *group, struct stream *stream, const struct all_to_all_args *args)
{
    (void)stream;
    struct host_group *host = group->self;
    comm_all_to_all(host->comm, args->in.data, args->out.data, args->in.cols * dtype_size(args->in.dtype));
}

static void host_shift(struct group *group, struct stream *stream, const struct shift_args *args)
{
    (void)stream;
    struct host_group *host = group->self;
    comm_shift(host->comm, args->in.data, args->out.data, tensor_extent(&args->in));
}

static void host_send_receive(struct group *group, struct stream *stream, const struct send_receive_args *args)
{
    (void)stream;
    struct host_group *host = group->self;
    void *data[TRANSFER_DIRECTIONS];
    int64_t bytes[TRANSFER_DIRECTIONS];
    for (int r = 0; r < TRANSFER_DIRECTIONS; r++) {
        const struct tensor *tensor = op_tensor(OP_SEND_RECEIVE, args, r);
        data[r] = tensor->data;
        bytes[r] = tensor_extent(tensor);
    }
    comm_send_receive(host->comm, data, bytes);
}

static void host_destroy(struct group *group)
{
    struct host_group *host = group->self;
    memory_free(host->sent);
    memory_free(host->received);
    memory_free(host);
}

static const struct group_class host_class = {.name = "host",
#define X(NAME, name) .name = host_##name,
                                              OP_COLLECTIVE_TABLE(X)
#undef X
                                                  .destroy = host_destroy};

int comm_node_block(struct comm *world, struct comm *node)
{
    const int64_t first = world->rank - node->rank; /* the node's first rank, if its ranks are consecutive */
    const bool follow = comm_max_i64(node, first) == -comm_max_i64(node, -first);
    const int64_t most = comm_max_i64(world, node->size), fewest = -comm_max_i64(world, -node->size);
    const bool scattered = comm_max_i64(world, !follow) > 0;
    if (fewest == world->size)
        return world->size;
    return !scattered && most == fewest ? (int)most : 1;
}

struct group *comm_group_create(struct comm *comm, struct executor *executor, const char *name)
{
    if (executor != NULL && executor->groups != NULL)
        return executor->groups->make(executor->owner, comm, name);
    struct host_group *host = memory_allocate(sizeof *host);
    host->comm = comm;
    host->group =
        (struct group){.name = name, .rank = comm->rank, .size = comm->size, .class = &host_class, .self = host};
    return &host->group;
}

void comm_group_destroy(struct group *group)
{
    group->class->destroy(group);
}
