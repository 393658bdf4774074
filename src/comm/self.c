/* A communicator of one process: every collective is a copy. */
#include "base/memory.h"
#include "comm/comm.h"

#include <string.h>

static void self_barrier(struct comm *comm)
{
    (void)comm;
}

static void self_broadcast(struct comm *comm, void *data, int64_t bytes, int root)
{
    (void)comm, (void)data, (void)bytes, (void)root;
}

static void self_exchange(struct comm *comm, const void *in, void *out, int64_t bytes)
{
    (void)comm;
    memmove(out, in, (size_t)bytes);
}

static void self_reduce(struct comm *comm, int64_t *values, int64_t count, enum comm_reduction reduction)
{
    (void)comm, (void)values, (void)count, (void)reduction;
}

static void self_send_receive(struct comm *comm, void *const data[TRANSFER_DIRECTIONS],
                              const int64_t bytes[TRANSFER_DIRECTIONS])
{
    (void)comm;
    if (bytes[SEND_TO_NEXT] > 0)
        memmove(data[RECEIVE_FROM_PREVIOUS], data[SEND_TO_NEXT], (size_t)bytes[SEND_TO_NEXT]);
    if (bytes[SEND_TO_PREVIOUS] > 0)
        memmove(data[RECEIVE_FROM_NEXT], data[SEND_TO_PREVIOUS], (size_t)bytes[SEND_TO_PREVIOUS]);
}

static struct comm *self_split(struct comm *comm, int color)
{
    (void)comm, (void)color;
    return comm_self();
}

static struct comm *self_divide(struct comm *comm, int stride, int count)
{
    (void)comm, (void)stride, (void)count;
    return comm_self();
}

static struct comm *self_split_node(struct comm *comm)
{
    (void)comm;
    return comm_self();
}

static void self_destroy(struct comm *comm)
{
    (void)comm;
}

static const struct comm_class self_class = {.barrier = self_barrier,
                                             .broadcast = self_broadcast,
                                             .all_gather = self_exchange,
                                             .gather = self_exchange,
                                             .reduce = self_reduce,
                                             .all_to_all = self_exchange,
                                             .shift = self_exchange,
                                             .send_receive = self_send_receive,
                                             .split = self_split,
                                             .divide = self_divide,
                                             .split_node = self_split_node,
                                             .destroy = self_destroy};

struct comm *comm_self(void)
{
    struct comm *comm = memory_allocate(sizeof *comm);
    *comm = (struct comm){0, 1, &self_class, NULL};
    return comm;
}
