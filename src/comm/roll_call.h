/* Roll calls: in a hang, a waiting rank asks all others whether they wait too, and those that do not answer are
 * reported as missing (comm/mpi.c). Ranks call at different times, lower ranks first, so that few of them call. This
 * file has the times, and the cost in messages. */
#ifndef COMM_ROLL_CALL_H
#define COMM_ROLL_CALL_H

#include "comm/counting.h"

/* Upper limit of `each` in roll_call_turn, in seconds; a roll call takes three quarters of it. */
extern const double roll_call_turn_seconds;

/* The longest time for which a caller listens to answers, in seconds; a rank answers after it has waited for a third of
 * this time. */
extern const double roll_call_listening;

/* Returns how much later than rank 0 a rank calls: each * (log2(rank + 1) + rank / 1024), in the unit of `each`. So
 * rank 1 calls after `each`, and later ranks follow in ever shorter intervals, but at most 1024 ranks in `each`. A rank
 * that hears the call of a lower rank does not call. So only the ranks call whose time comes while the first call
 * travels, however many ranks are missing. Local. */
double roll_call_turn(int rank, double each);

/* Returns the cost for the first rank that calls, if the `missing` lowest of `size` ranks are missing: it calls all
 * others, and those that wait answer. heard: seconds until a rank has heard a call; ranks whose time comes earlier call
 * too, and count in world_messages. Local. */
struct comm_traffic roll_call_traffic(int size, int missing, double heard);

#endif
