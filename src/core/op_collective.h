/* Arguments of ops (core/op.h): collectives. */
#ifndef CORE_OP_COLLECTIVE_H
#define CORE_OP_COLLECTIVE_H

#include "core/tensor.h"

struct group;

/* Collectives over `group`, which has `size` ranks. All ranks launch the same collectives in the same order. f32 and
 * bf16 are summed in f32, f64 in f64. In host memory the sum is in rank order, ((x_0 + x_1) + x_2) + ..., and rounded
 * to bf16 once. Between devices the communication library chooses the order, and may round each partial sum to bf16.
 *
 * With `scratch`, devices sum in rank order as the host does, if `scratch` and the summed tensors are in
 * memory that the group allocated (core/group.h): all contributions are copied to `scratch`, which occupies no SMs, and
 * then added. The content of `scratch` is undefined afterwards. */
struct all_reduce_args {
    struct group *group;
    struct tensor x;       /* f or f64, contiguous; replaced by the sum or maximum over ranks */
    bool maximum;          /* not for bf16; the numbers must not be NaN (NCCL loses NaN) */
    struct tensor scratch; /* optional, for sums: same dtype [size, n], n elements of x */
};

struct reduce_scatter_args {
    struct group *group;
    struct tensor in;      /* f [size, n]: row r is the contribution to rank r */
    struct tensor out;     /* same dtype [1, n]; may be this rank's row of in; other rows of in stay unchanged */
    struct tensor scratch; /* optional: same dtype [size, n] */
};

struct all_gather_args {
    struct group *group;
    struct tensor in;  /* any [1, n]; may be this rank's row of out */
    struct tensor out; /* same dtype [size, n]: row r comes from rank r */
};

struct broadcast_args {
    struct group *group;
    struct tensor x; /* any, contiguous; replaced by root's values on all ranks */
    int root;
};

struct all_to_all_args {
    struct group *group;
    struct tensor in;  /* any [size, n]: row r goes to rank r */
    struct tensor out; /* same dtype [size, n]: row r comes from rank r; does not overlap in */
};

/* Sends around a ring: rank r sends to rank r + 1, and the last rank to the first. */
struct shift_args {
    struct group *group;
    struct tensor in;  /* any [1, n] */
    struct tensor out; /* same dtype [1, n], received from the previous rank; does not overlap in */
};

/* Pipeline send and receive: each rank sends to its two neighbours in the group and receives from them, all at once;
 * the last and the first rank are neighbours. Any of the four tensors may be absent. A send of one rank needs a receive
 * of its neighbour; messages of one direction arrive in order. Collective over neighbouring ranks with data for each
 * other; a group's first send_receive is collective over all its ranks. Transfers of one direction on one stream do not
 * wait for other directions or streams. */
struct send_receive_args {
    struct group *group;
    struct tensor to_next;       /* any, contiguous, as are the others */
    struct tensor from_previous; /* the previous rank's to_next, of the same size */
    struct tensor to_previous;
    struct tensor from_next; /* this and from_previous overlap none of the others */
};
enum transfer_direction {
    SEND_TO_NEXT,
    RECEIVE_FROM_PREVIOUS,
    SEND_TO_PREVIOUS,
    RECEIVE_FROM_NEXT,
    TRANSFER_DIRECTIONS
};

#endif
