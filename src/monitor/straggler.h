/* Does one rank hold up the others? Each rank says how long it was at work in each phase since the last look; what it
 * waited for others is left out. A rank that takes clearly longer than the others, look after look, is named. */
#ifndef MONITOR_STRAGGLER_H
#define MONITOR_STRAGGLER_H

#include <stdbool.h>

enum straggler_phase {
    STRAGGLER_DATA,      /* waiting for the loader */
    STRAGGLER_COMPUTE,   /* forward and backward; where launches return at once, the optimizer too */
    STRAGGLER_OPTIMIZER, /* the update, where launches return when they are done */
    STRAGGLER_VALIDATION,
    STRAGGLER_SAVE,
    STRAGGLER_PHASES
};

/* "forward and backward", ... */
const char *straggler_phase_name(enum straggler_phase phase);

/* Of one rank, since the last look. */
struct straggler_rank {
    int part;       /* ranks of one part of the model (a stage) have the same work, and are compared */
    double seconds; /* that went by */
    double work[STRAGGLER_PHASES];
};

struct straggler {
    struct straggler_seen {
        int rank, looks; /* the slowest, in how many looks in a row; 0: none is slow */
        bool told;
    } phases[STRAGGLER_PHASES];
};

/* A rank that is to be told of. */
struct straggler_found {
    int rank;
    enum straggler_phase phase;
    double excess;  /* seconds beyond the median of the ranks of its part */
    double seconds; /* of the look */
};

/* One look at ranks[count]. True when a rank has been the slowest of a phase in five looks in a row, each time by more
 * than 5 % of the time that went by; it is told of once, until a look finds it otherwise. A look in which no rank was
 * at work in a phase says nothing of that phase. */
bool straggler_look(struct straggler *straggler, const struct straggler_rank *ranks, int count,
                    struct straggler_found *found);

#endif
