#include "comm/counting.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/range.h"

#include <string.h>

static const struct counting_settings *settings_of(const struct comm *comm)
{
    return comm->self;
}

/* -- Counting ---------------------------------------------------------------------------------------------------- */

static void count(struct comm *comm, int64_t rounds, int64_t messages, int64_t bytes, int64_t world_messages)
{
    struct comm_traffic *t = settings_of(comm)->traffic;
    t->collectives++;
    t->rounds += rounds;
    t->messages += messages;
    t->bytes += bytes;
    t->world_messages += world_messages;
}

/* Returns the rounds of a tree: the logarithm of the size to base 2, rounded up. */
static int tree_rounds(int size)
{
    int rounds = 0;
    while (rounds < 31 && (int64_t)1 << rounds < size)
        rounds++;
    return rounds;
}

/* Returns the neighbours of a rank in a binomial tree: the ranks below it, and the one above it. */
static int tree_degree(int rank, int size)
{
    int degree = rank > 0;
    for (int64_t step = 1; step < size && (rank & step) == 0; step *= 2)
        degree += rank + step < size;
    return degree;
}

/* Counts a tree from or to rank `root`. */
static void count_tree(struct comm *comm, int64_t bytes, int root)
{
    const int degree = tree_degree((comm->rank - root + comm->size) % comm->size, comm->size);
    count(comm, tree_rounds(comm->size), degree, degree * bytes, comm->size - 1);
}

static void count_gather(struct comm *comm, int64_t bytes)
{
    const int64_t messages = comm->rank == 0 ? comm->size - 1 : 1;
    count(comm, comm->size > 1, comm->size > 1 ? messages : 0, comm->size > 1 ? messages * bytes : 0, comm->size - 1);
}

/* Counts a collective in which each rank sends to each other. */
static void count_direct(struct comm *comm, int64_t bytes)
{
    const int64_t others = comm->size - 1;
    count(comm, others > 0, 2 * others, 2 * others * bytes, others * comm->size);
}

/* -- Collectives ------------------------------------------------------------------------------------------------- */

static void apply_rule(struct comm *comm, enum counting_call call, void *out, int64_t bytes, int root)
{
    const struct counting_settings *s = settings_of(comm);
    if (s->rule != NULL)
        s->rule(s->self, comm, call, out, bytes, root);
}

static void counting_barrier(struct comm *comm)
{
    const int rounds = tree_rounds(comm->size); /* each rank sends and receives in each */
    count(comm, rounds, 2 * rounds, 0, (int64_t)rounds * comm->size);
}

static void counting_broadcast(struct comm *comm, void *data, int64_t bytes, int root)
{
    count_tree(comm, bytes, root);
    apply_rule(comm, COUNTING_BROADCAST, data, bytes, root);
}

static void copy_to_all(const struct comm *comm, const void *in, void *out, int64_t bytes)
{
    for (int r = 0; r < comm->size; r++)
        memmove((char *)out + r * bytes, in, (size_t)bytes);
}

static void counting_gather(struct comm *comm, const void *in, void *out, int64_t bytes)
{
    count_gather(comm, bytes);
    if (comm->rank != 0)
        return;
    copy_to_all(comm, in, out, bytes);
    apply_rule(comm, COUNTING_GATHER, out, bytes, 0);
}

static void counting_all_gather(struct comm *comm, const void *in, void *out, int64_t bytes)
{
    if (comm_gathers_first(comm->size, bytes)) {
        count_gather(comm, bytes);
        count_tree(comm, bytes * comm->size, 0);
    } else {
        count_direct(comm, bytes);
    }
    char *own = memory_allocate(bytes); /* `in` may be a part of `out` */
    memcpy(own, in, (size_t)bytes);
    copy_to_all(comm, own, out, bytes);
    memory_free(own);
    apply_rule(comm, COUNTING_ALL_GATHER, out, bytes, 0);
}

static void counting_reduce(struct comm *comm, int64_t *values, int64_t n, enum comm_reduction reduction)
{
    const int64_t bytes = n * (int64_t)sizeof *values;
    count_tree(comm, bytes, 0); /* to rank 0, and from there */
    count_tree(comm, bytes, 0);
    for (int64_t i = 0; i < n && reduction == COMM_SUM; i++)
        values[i] = (int64_t)((uint64_t)values[i] * (uint64_t)comm->size);
    apply_rule(comm, COUNTING_REDUCE, values, bytes, 0);
}

static void counting_all_to_all(struct comm *comm, const void *in, void *out, int64_t bytes)
{
    count_direct(comm, bytes);
    if (settings_of(comm)->empty)
        return;
    copy_to_all(comm, (const char *)in + comm->rank * bytes, out, bytes);
    apply_rule(comm, COUNTING_EXCHANGE, out, bytes, 0);
}

static void counting_shift(struct comm *comm, const void *in, void *out, int64_t bytes)
{
    count(comm, 1, 2, 2 * bytes, comm->size);
    if (!settings_of(comm)->empty)
        memmove(out, in, (size_t)bytes);
}

static void counting_send_receive(struct comm *comm, void *const data[TRANSFER_DIRECTIONS],
                                  const int64_t bytes[TRANSFER_DIRECTIONS])
{
    int64_t messages = 0, all = 0;
    for (int i = 0; i < TRANSFER_DIRECTIONS; i++) {
        messages += bytes[i] > 0;
        all += bytes[i];
        if (bytes[i] > 0 && (i == RECEIVE_FROM_PREVIOUS || i == RECEIVE_FROM_NEXT))
            memset(data[i], 0, (size_t)bytes[i]);
    }
    count(comm, 1, messages, all, messages * comm->size / 2);
}

/* -- Making ------------------------------------------------------------------------------------------------------ */

static struct comm *make(const struct counting_settings *settings, int rank, int size);

/* As MPI: a barrier, and two reductions that agree on the new communicator's number. */
static struct comm *make_part(struct comm *comm, int rank, int size)
{
    counting_barrier(comm);
    for (int i = 0; i < 2; i++) {
        count_tree(comm, sizeof(int), 0);
        count_tree(comm, sizeof(int), 0);
    }
    settings_of(comm)->traffic->communicators++;
    return make(settings_of(comm), rank, size);
}

static struct comm *counting_split(struct comm *comm, int color)
{
    (void)comm;
    error_fatal("bug: a counting communicator is split by color %d", color);
}

static struct comm *counting_divide(struct comm *comm, int stride, int n)
{
    const struct comm_part part = comm_part(comm->rank, comm->size, stride, n);
    return make_part(comm, part.rank, part.size);
}

static struct comm *counting_split_node(struct comm *comm)
{
    const struct comm_part part = comm_part(comm->rank, comm->size, 1, settings_of(comm)->node);
    return make_part(comm, part.rank, part.size);
}

static void counting_destroy(struct comm *comm)
{
    counting_barrier(comm);
    memory_free(comm->self);
}

static const struct comm_class counting_class = {.barrier = counting_barrier,
                                                 .broadcast = counting_broadcast,
                                                 .all_gather = counting_all_gather,
                                                 .gather = counting_gather,
                                                 .reduce = counting_reduce,
                                                 .all_to_all = counting_all_to_all,
                                                 .shift = counting_shift,
                                                 .send_receive = counting_send_receive,
                                                 .split = counting_split,
                                                 .divide = counting_divide,
                                                 .split_node = counting_split_node,
                                                 .destroy = counting_destroy};

static struct comm *make(const struct counting_settings *settings, int rank, int size)
{
    struct comm *comm = memory_allocate(sizeof *comm);
    struct counting_settings *own = memory_allocate(sizeof *own);
    *own = *settings;
    *comm = (struct comm){rank, size, &counting_class, own};
    return comm;
}

struct comm *comm_counting(const struct counting_settings *settings)
{
    return make(settings, settings->rank, settings->size);
}

struct comm_traffic comm_traffic_since(const struct comm_traffic *now, const struct comm_traffic *before)
{
    return (struct comm_traffic){.collectives = now->collectives - before->collectives,
                                 .rounds = now->rounds - before->rounds,
                                 .messages = now->messages - before->messages,
                                 .bytes = now->bytes - before->bytes,
                                 .world_messages = now->world_messages - before->world_messages,
                                 .communicators = now->communicators - before->communicators};
}
