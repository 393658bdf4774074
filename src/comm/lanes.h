/* The order in which the stages of a pipeline open their lanes, which are one-way connections between neighbours on a
 * ring (cuda/nccl_group.c). Opening blocks until both ends open. In a round each stage opens one lane at most, so all
 * lanes of a round are opened at the same time, and any number of stages takes as many rounds. */
#ifndef COMM_LANES_H
#define COMM_LANES_H

#include "core/op.h"

/* Each way: lanes from even stages, from odd stages, and from the last stage if their number is odd. */
enum { LANE_WAYS = 2, LANE_COLORS = 3, LANE_ROUNDS = LANE_WAYS * LANE_COLORS };

/* Returns which of its lanes stage `rank` of `size` >= 2 opens in a round; TRANSFER_DIRECTIONS: none. */
enum transfer_direction lane_in_round(int rank, int size, int round);

/* Returns the number of the lane among all, below LANE_WAYS * size: both ends return the same. */
int lane_number(int rank, int size, enum transfer_direction lane);

#endif
