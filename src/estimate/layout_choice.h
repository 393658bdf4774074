/* Resolves parallel.shard = "auto" and parallel.context = 0 to the fastest layout that fits into memory. */
#ifndef ESTIMATE_LAYOUT_CHOICE_H
#define ESTIMATE_LAYOUT_CHOICE_H

#include "core/executor.h"
#include "deck/deck.h"
#include "estimate/rates.h"

struct layout_candidate {
    int shard;                   /* enum deck_shard */
    int64_t shard_size, context; /* as the deck's keys */
    int64_t need;                /* bytes of the rank that needs the most */
    int64_t moved;               /* bytes that this rank receives in a step */
    /* Seconds of a step (estimate/estimate.h). A float has few digits, so layouts of the same cost compare equal, and
     * the simplest is chosen. */
    float seconds;
    bool fits;
};

struct layout_choice {
    struct layout_candidate *candidates; /* the chosen one, then the others from best to worst; owned */
    int count;
};

/* The ranks and the machine that a deck is to run on. */
struct layout_place {
    int64_t ranks;
    int64_t limit; /* bytes of memory that a rank may use */
    int64_t host;  /* bytes of host memory that a rank may offload to (estimate/fit.h) */
    struct executor *target;
    const struct machine_rates *rates;
};

/* Writes the chosen layout into deck->parallel: the level; for parallel.shard = "auto" without parallel.shard_size also
 * the size of the sharding groups; and for parallel.context = 0 the smallest number, from 1 on, with which any layout
 * fits. If none fits, the layout that needs the least memory is chosen. With memory.recompute = "fit", a layout is
 * judged with the recompute policies that fit_choose chooses for it. parallel.reduce becomes "auto" if the chosen level
 * allows nothing else. vocabulary: of the data. Local; the result is the same on all ranks with equal targets. The
 * caller destroys the choice also after an error. ERROR_USER: keys are out of range or do not fit each other. */
int layout_choose(struct layout_choice *choice, struct deck *deck, int64_t vocabulary,
                  const struct layout_place *place);
void layout_choice_destroy(struct layout_choice *choice);

/* Returns a description such as "full of 4, context 2" (sharding groups of 4 ranks), freed with free(). */
char *layout_candidate_text(const struct layout_candidate *candidate);

#endif
