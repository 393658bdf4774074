/* Finds stragglers: ranks that slow down the others. Each rank reports how long it worked in each phase since the last
 * look, without waiting for other ranks. A rank that is repeatedly and clearly slower than the others is reported. */
#ifndef MONITOR_STRAGGLER_H
#define MONITOR_STRAGGLER_H

#include <stdbool.h>

enum straggler_phase {
    STRAGGLER_DATA,      /* waiting for the loader */
    STRAGGLER_COMPUTE,   /* forward and backward; also the optimizer, if launches return before they have run */
    STRAGGLER_OPTIMIZER, /* the update, if launches have finished when they return */
    STRAGGLER_VALIDATION,
    STRAGGLER_SAVE,
    STRAGGLER_PHASES
};

/* Returns the name of a phase: "forward and backward", ... */
const char *straggler_phase_name(enum straggler_phase phase);

/* The work of one rank since the last look. */
struct straggler_rank {
    int stage;      /* stage of the rank; ranks of a stage have equal work, and are compared */
    double seconds; /* elapsed seconds */
    double work[STRAGGLER_PHASES];
};

struct straggler {
    struct straggler_seen {
        int rank, looks; /* the slowest rank, and in how many consecutive looks; looks = 0: no rank is slow */
        bool reported;
    } phases[STRAGGLER_PHASES];
};

/* A straggler to report. */
struct straggler_found {
    int rank;
    enum straggler_phase phase;
    double excess;  /* seconds above the median of the ranks of its stage */
    double seconds; /* elapsed seconds of the look */
};

/* Takes one look at ranks[count]. Returns true if a rank was the slowest of a phase in five consecutive looks, each
 * time by more than 5 % of the elapsed time. It is not reported again while the following looks find the same. A look
 * in which no rank worked in a phase is ignored for that phase. Local. */
bool straggler_look(struct straggler *straggler, const struct straggler_rank *ranks, int count,
                    struct straggler_found *found);

#endif
