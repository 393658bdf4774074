/* Load balancing: assigns a step's micro-batches to ranks and rounds so that ranks that synchronise have equal work.
 * The content of micro-batches does not change, and neither does any result.
 *
 * Most work of a micro-batch, such as matrix products, does not depend on its content. Its cost is the rest: attention,
 * in proportion to the sum of its segments' squared lengths, or with a sliding window to the pairs of tokens within
 * the window.
 *
 * Ranks that gather weights synchronise after every round of one micro-batch each, other ranks once a step. So
 * micro-batches of similar cost form a round: each round has the most expensive ones that remain. The most expensive of
 * the round goes to the rank with the least work in earlier rounds, the next one to the next rank, and so on. */
#ifndef LOADER_BALANCE_H
#define LOADER_BALANCE_H

#include <stdint.h>

/* Returns the cost of a segment: twice the pairs of tokens that attend to each other, with causal attention. window:
 * sliding window of attention; 0: none. */
int64_t balance_cost(int64_t length, int64_t window);

/* costs[rounds * ranks]: not negative. Assigns micro-batch k to rank places[k] % ranks in round places[k] / ranks. Ties
 * keep the order of micro-batches and ranks: if all costs are equal, or there is one round and one rank,
 * places[k] = k. */
void balance_micro_batches(const int64_t *costs, int64_t rounds, int64_t ranks, int64_t *places);

#endif
