/* The meter names the right slow rank and its phase, after the right number of observations, and reports it once. */
#include "check.h"

#include "monitor/straggler.h"

enum { RANKS = 4, SLOW = 2 };

/* A look of 10 seconds, in which SLOW takes so much longer in a phase. */
static bool look(struct straggler *straggler, enum straggler_phase phase, double longer, struct straggler_found *found)
{
    struct straggler_rank ranks[RANKS];
    for (int r = 0; r < RANKS; r++)
        ranks[r] = (struct straggler_rank){.seconds = 10, .work[STRAGGLER_COMPUTE] = 8 + 0.1 * r};
    ranks[SLOW].work[phase] += longer;
    return straggler_look(straggler, ranks, RANKS, found);
}

static int looks_until_reported(struct straggler *straggler, enum straggler_phase phase, struct straggler_found *found)
{
    int looks = 1;
    while (looks < 10 && !look(straggler, phase, 1, found))
        looks++;
    return looks;
}

static void check_stragglers(void)
{
    struct straggler_found found;
    for (int phase = 0; phase < STRAGGLER_PHASES; phase++) {
        struct straggler straggler = {0};
        const enum straggler_phase of = (enum straggler_phase)phase;
        CHECK(looks_until_reported(&straggler, of, &found) == 5);
        CHECK(found.rank == SLOW && found.phase == of && found.seconds == 10);
        CHECK(found.excess > 0.99 && found.excess < 1.2);
        for (int i = 0; i < 6; i++)
            CHECK(!look(&straggler, of, 1, &found)); /* it is known */
        CHECK(!look(&straggler, of, 1e-3, &found));
        CHECK(looks_until_reported(&straggler, of, &found) == 5);
    }
    struct straggler little = {0}, stages = {0}, saves = {0};
    for (int i = 0; i < 12; i++) {
        CHECK(!look(&little, STRAGGLER_DATA, 0.49, &found));
        CHECK(look(&saves, STRAGGLER_SAVE, i % 2 == 0 ? 3 : 0, &found) == (i == 8)); /* looks without a save between */
        const struct straggler_rank two[4] = {{0, 10, {[STRAGGLER_COMPUTE] = 9}},
                                              {0, 10, {[STRAGGLER_COMPUTE] = 9}},
                                              {1, 10, {[STRAGGLER_COMPUTE] = 5}},
                                              {1, 10, {[STRAGGLER_COMPUTE] = 5.2}}};
        CHECK(!straggler_look(&stages, two, 4, &found));
    }
    struct straggler turns = {0};
    for (int i = 0; i < 16; i++) {
        struct straggler_rank ranks[2] = {{0, 10, {1}}, {0, 10, {1}}};
        ranks[i / 4 % 2].work[STRAGGLER_DATA] = 3; /* each four times */
        CHECK(!straggler_look(&turns, ranks, 2, &found));
    }
}

int main(void)
{
    check_stragglers();
    return check_end();
}
