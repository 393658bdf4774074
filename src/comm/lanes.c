#include "comm/lanes.h"

#include <stdbool.h>

enum { WAY_FORWARD, WAY_BACKWARD };

static int color_of(int from, int size)
{
    return from == size - 1 && size % 2 == 1 ? 2 : from % 2;
}

enum transfer_direction lane_in_round(int rank, int size, int round)
{
    const bool forward = round / LANE_COLORS == WAY_FORWARD;
    const int color = round % LANE_COLORS, from = (rank + (forward ? size - 1 : 1)) % size; /* sends to this stage */
    if (color_of(rank, size) == color)
        return forward ? SEND_TO_NEXT : SEND_TO_PREVIOUS;
    if (color_of(from, size) == color)
        return forward ? RECEIVE_FROM_PREVIOUS : RECEIVE_FROM_NEXT;
    return TRANSFER_DIRECTIONS;
}

int lane_number(int rank, int size, enum transfer_direction lane)
{
    const int from = lane == RECEIVE_FROM_PREVIOUS ? (rank + size - 1) % size
                     : lane == RECEIVE_FROM_NEXT   ? (rank + 1) % size
                                                   : rank;
    const bool forward = lane == SEND_TO_NEXT || lane == RECEIVE_FROM_PREVIOUS;
    return from * LANE_WAYS + (forward ? WAY_FORWARD : WAY_BACKWARD);
}
