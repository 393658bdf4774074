/* What a deck's parallel.shard = "auto" and parallel.context = 0 come to: of the layouts that fit, that with which a
 * step takes the least. */
#ifndef ESTIMATE_LAYOUT_CHOICE_H
#define ESTIMATE_LAYOUT_CHOICE_H

#include "core/executor.h"
#include "deck/deck.h"
#include "estimate/rates.h"

struct layout_candidate {
    int shard;                   /* enum deck_shard */
    int64_t shard_size, context; /* as keys of a deck have them */
    int64_t need;                /* bytes of the rank that needs the most */
    int64_t moved;               /* bytes that it receives in a step */
    float seconds; /* of a step (estimate/forecast.h); in few digits, so that layouts that cost the same are
                      equal, and the simplest is taken */
    bool fits;
};

struct layout_choice {
    struct layout_candidate *candidates; /* owned: the chosen one, then from better to worse */
    int count;
};

/* Where a deck is to run. */
struct layout_place {
    int64_t ranks;
    int64_t limit; /* bytes that a rank may use */
    int64_t host;  /* bytes that it may offload (estimate/fit.h) */
    struct executor *target;
    const struct machine_rates *rates;
};

/* Writes what is chosen into deck->parallel: parallel.shard and, where that is "auto" and the deck gives no
 * parallel.shard_size, its size; and where parallel.context is 0, 1 or the smallest number with which any layout fits.
 * Where none does, the one that needs the least. With memory.recompute = "fit" each is judged with what layers would
 * make again then. parallel.reduce becomes "auto" where the level has no other. vocabulary: of the data. Local; the
 * same on all ranks whose targets are alike. ERROR_USER: keys that are out of range or do not fit each other. Destroy
 * the choice in any case. */
int layout_choose(struct layout_choice *choice, struct deck *deck, int64_t vocabulary,
                  const struct layout_place *place);
void layout_choice_destroy(struct layout_choice *choice);

/* "full of 4, context 2": groups of 4 ranks share the state. Freed with free(). */
char *layout_candidate_text(const struct layout_candidate *candidate);

#endif
