/* Which rank computes which micro-batch of a step, and when: such that ranks that wait for each other have as much to
 * do as each other. What is in a micro-batch does not change by it, so neither does anything that is computed from it.
 *
 * What takes the same time whatever a micro-batch holds, as matrix products do, is the same on all ranks. Its cost is
 * what comes on top: attention, in proportion to the sum of its segments' squared lengths.
 *
 * Ranks that gather weights wait for each other in every round of one micro-batch each, others once a step. So those of
 * much the same cost are computed at the same time: a round has the dearest that are left. The dearest of them goes to
 * the rank that has least to do in the rounds before, the next one to the next rank, and so on. */
#ifndef LOADER_DEAL_H
#define LOADER_DEAL_H

#include <stdint.h>

/* costs[rounds * ranks]: not negative. Micro-batch k becomes that of round places[k] / ranks on rank places[k] % ranks.
 * Equals, micro-batches and ranks, keep their order: where all cost the same, or there is one round and one rank,
 * places[k] = k. */
void deal_micro_batches(const int64_t *costs, int64_t rounds, int64_t ranks, int64_t *places);

#endif
