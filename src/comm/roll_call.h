/* Whose turn it is to call the roll of a hang (comm/mpi.c), and what the calls cost. */
#ifndef COMM_ROLL_CALL_H
#define COMM_ROLL_CALL_H

#include "comm/counting.h"

/* The longest unit of time of the turns; a roll call takes three quarters of it. */
extern const double roll_call_turn_seconds;

/* Seconds for which a caller listens to answers, at most; a rank answers after it has waited for a third of that. */
extern const double roll_call_listening;

/* Returns how much later than rank 0 a rank calls, in the unit of `each`: rank 1 after `each`, then ever closer, but at
 * most 1024 ranks in `each`. A rank that hears a lower one's call does not call, so that however many ranks are
 * missing, as many call as have their turn while a call travels. Local. */
double roll_call_turn(int rank, double each);

/* Returns the cost for the first rank that calls, if the `missing` lowest of `size` ranks are missing: it calls all
 * others, and those that are there answer. heard: seconds until a rank has heard a call; other ranks whose turn comes
 * earlier call too. Local. */
struct comm_traffic roll_call_traffic(int size, int missing, double heard);

#endif
