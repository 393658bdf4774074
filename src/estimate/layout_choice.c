#include "estimate/layout_choice.h"
#include "deck/fields.h"
#include "base/error.h"
#include "base/memory.h"
#include "estimate/fit.h"
#include "estimate/fit_choice.h"
#include "estimate/estimate.h"
#include "setup/layout.h"
#include "setup/setup.h"

#include <stdlib.h>
#include <string.h>

/* -- One layout --------------------------------------------------------------------------------------------------- */

static struct layout_candidate judge(const struct setup *setup, const struct layout_place *place)
{
    struct setup fitted;
    setup_copy(&fitted, setup);
    fit_choose(&fitted, place->limit, place->host, place->target);
    const struct estimate_rank rank = estimate_step(&fitted, place->target, place->rates);
    struct layout_candidate candidate = {.shard = fitted.deck->parallel.shard,
                                         .shard_size = fitted.deck->parallel.shard_size,
                                         .context = fitted.deck->parallel.context,
                                         .need = rank.need,
                                         .seconds = (float)rank.seconds,
                                         .fits = rank.need <= fit_usable(setup, place->limit, place->target)};
    for (int g = 0; g < rank.groups; g++)
        candidate.moved += rank.traffic[g].bytes;
    setup_destroy(&fitted);
    return candidate;
}

/* -- All layouts -------------------------------------------------------------------------------------------------- */

static bool better(const struct layout_candidate *a, const struct layout_candidate *b)
{
    if (a->fits != b->fits)
        return a->fits;
    return a->fits ? a->seconds < b->seconds : a->need < b->need;
}

/* Inserts the layout into the sorted list, after candidates that are as good. */
static void add(struct layout_choice *choice, const struct setup *setup, const struct layout_place *place)
{
    const struct layout_candidate own = judge(setup, place);
    int at = choice->count++;
    choice->candidates = memory_grow(choice->candidates, (int64_t)sizeof own * choice->count);
    for (; at > 0 && better(&own, &choice->candidates[at - 1]); at--)
        choice->candidates[at] = choice->candidates[at - 1];
    choice->candidates[at] = own;
}

/* Adds one sharding group of all ranks, and groups that divide a node or consist of whole nodes. */
static void add_sizes(struct layout_choice *choice, struct setup *setup, const struct layout_place *place)
{
    struct deck *deck = setup->deck;
    const int64_t ranks = place->ranks / deck->parallel.tensor / deck->parallel.pipeline;
    add(choice, setup, place);
    for (int64_t groups = 2; groups < ranks && deck->parallel.shard != DECK_SHARD_NONE; groups++) {
        const int64_t size = ranks / groups;
        if (ranks % groups != 0 || (place->rates->node % size != 0 && size % place->rates->node != 0))
            continue;
        deck->parallel.shard_size = size;
        add(choice, setup, place);
    }
}

static void add_levels(struct layout_choice *choice, const struct setup *setup, const struct layout_place *place)
{
    const struct deck *deck = setup->deck;
    struct setup other;
    setup_copy(&other, setup);
    const int most = layout_most_shared(deck, place->ranks);
    if (deck->parallel.shard != DECK_SHARD_AUTO)
        add(choice, &other, place);
    for (int shard = DECK_SHARD_NONE; shard <= most && deck->parallel.shard == DECK_SHARD_AUTO; shard++) {
        other.deck->parallel.shard = shard;
        other.deck->parallel.shard_size = shard == DECK_SHARD_NONE ? 0 : deck->parallel.shard_size;
        if (deck->parallel.shard_size > 0)
            add(choice, &other, place);
        else
            add_sizes(choice, &other, place);
    }
    setup_destroy(&other);
}

int layout_choose(struct layout_choice *choice, struct deck *deck, int64_t vocabulary, const struct layout_place *place)
{
    struct deck *other = deck_copy(deck);
    const int64_t first = deck->parallel.context > 0 ? deck->parallel.context : 1;
    const int64_t last = deck->parallel.context > 0 ? first : place->ranks;
    *choice = (struct layout_choice){NULL, 0};
    for (int64_t context = first; context <= last; context++) {
        struct setup setup;
        other->parallel.context = context;
        int code = setup_create(&setup, other, place->ranks);
        if (code == ERROR_NONE)
            code = setup_complete(&setup, vocabulary, place->target);
        if (code == ERROR_NONE)
            add_levels(choice, &setup, place);
        setup_destroy(&setup);
        if (code != ERROR_NONE && context == first) {
            memory_free(other);
            return code;
        }
        error_clear(); /* rows or heads cannot be divided by this number */
        if (choice->candidates[0].fits)
            break;
    }
    memory_free(other);
    deck->parallel.shard = choice->candidates[0].shard;
    deck->parallel.shard_size = choice->candidates[0].shard_size;
    deck->parallel.context = choice->candidates[0].context;
    if (deck->parallel.shard < DECK_SHARD_GRADIENTS) /* parallel.reduce does not apply to these levels */
        deck->parallel.reduce = DECK_REDUCE_AUTO;
    return ERROR_NONE;
}

void layout_choice_destroy(struct layout_choice *choice)
{
    free(choice->candidates);
    *choice = (struct layout_choice){NULL, 0};
}

char *layout_candidate_text(const struct layout_candidate *candidate)
{
    char size[32] = "", context[32] = "";
    if (candidate->shard_size > 0)
        snprintf(size, sizeof size, " of %lld", (long long)candidate->shard_size);
    if (candidate->context > 1)
        snprintf(context, sizeof context, ", context %lld", (long long)candidate->context);
    return memory_format("%s%s%s", layout_level(candidate->shard), size, context);
}
