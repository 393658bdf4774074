#include "train/recheck_verdict.h"
#include "base/memory.h"
#include "base/quantile.h"

#include <math.h>

/* Values that must agree. */
struct peers {
    const struct recheck_value **values; /* [count] */
    int *ranks;                          /* [count] that have found them */
    int count;
    double *scratch; /* [count] */
};

struct recheck_comparison {
    struct recheck_difference *differences;
    const struct recheck_value *values;
    int ranks, passes;
    double *widest; /* [RECHECK_PARTS] */
    struct peers peers;
};

static const struct recheck_value *value_of(const struct recheck_comparison *c, int rank, int pass,
                                            enum recheck_part part)
{
    return &c->values[(rank * c->passes + pass) * RECHECK_PARTS + part];
}

static void add(struct recheck_comparison *c, int rank, int pass, enum recheck_part part)
{
    c->peers.values[c->peers.count] = value_of(c, rank, pass, part);
    c->peers.ranks[c->peers.count++] = rank;
}

/* Returns the bits that more than half of the values have, if there are such bits, else those of any. (Boyer & Moore.)
 */
static uint64_t frequent_bits(const struct peers *p)
{
    uint64_t bits = 0;
    int lead = 0;
    for (int i = 0; i < p->count; i++) {
        if (lead == 0)
            bits = p->values[i]->bits;
        lead += p->values[i]->bits == bits ? 1 : -1;
    }
    return bits;
}

static double median_size(const struct peers *p)
{
    for (int i = 0; i < p->count; i++)
        p->scratch[i] = p->values[i]->size;
    quantile_sort(p->scratch, p->count);
    return quantile(p->scratch, p->count, 0.5);
}

/* Returns how far a size is from the median, as a share of it. */
static double distance(double size, double median)
{
    return size == median ? 0 : fabs(size - median) / fabs(median);
}

static bool agrees(const struct recheck_value *value, uint64_t bits, double size, double bound)
{
    return value->bits == bits && distance(value->size, size) <= bound;
}

/* Marks ranks whose value differs from most of the peers', and forgets the peers. */
static void compare(struct recheck_comparison *c, enum recheck_part part)
{
    struct peers *p = &c->peers;
    const double bound = part == RECHECK_LOSS ? RECHECK_LOSS_BOUND : RECHECK_GRADIENTS_BOUND, size = median_size(p);
    const uint64_t bits = frequent_bits(p);
    int agreeing = 0;
    for (int i = 0; i < p->count; i++)
        if (agrees(p->values[i], bits, size, bound)) {
            agreeing++;
            c->widest[part] = fmax(c->widest[part], distance(p->values[i]->size, size));
        }
    const bool majority = 2 * agreeing > p->count;
    for (int i = 0; i < p->count && agreeing < p->count; i++) {
        struct recheck_difference *d = &c->differences[p->ranks[i]];
        if (!d->differs && (!majority || !agrees(p->values[i], bits, size, bound)))
            *d = (struct recheck_difference){true, part, majority};
    }
    p->count = 0;
}

static void compare_states(struct recheck_comparison *c, const struct grid_shape *shape)
{
    const struct grid_numbers sizes = grid_sizes(shape, c->ranks);
    for (int stage = 0; stage < sizes.stages; stage++)
        for (int tensor = 0; tensor < sizes.tensor; tensor++)
            for (int shard = 0; shard < sizes.shard; shard++) {
                for (int replica = 0; replica < sizes.replicas; replica++)
                    add(c, (stage * sizes.data + replica * sizes.shard + shard) * sizes.tensor + tensor, 0,
                        RECHECK_STATE);
                compare(c, RECHECK_STATE);
            }
}

static void compare_passes(struct recheck_comparison *c, enum recheck_part part)
{
    for (int r = 0; r < c->ranks; r++) {
        for (int pass = 0; pass < c->passes; pass++)
            add(c, r, pass, part);
        compare(c, part);
    }
}

static void compare_ranks(struct recheck_comparison *c, const struct grid_shape *shape, enum recheck_part part)
{
    const struct grid_numbers sizes = grid_sizes(shape, c->ranks);
    const int stage_ranks = c->ranks / sizes.stages;
    for (int stage = 0; stage < sizes.stages; stage++)
        for (int place = 0; place < sizes.model; place++) {
            for (int first = 0; first < stage_ranks; first += sizes.model)
                add(c, stage * stage_ranks + first + place, 0, part);
            compare(c, part);
        }
}

int recheck_compare(struct recheck_difference *differences, const struct grid_shape *shape, int ranks, int passes,
                    const struct recheck_value *values, double *widest)
{
    const int64_t most = (int64_t)ranks * passes;
    struct recheck_comparison c = {
        .differences = differences, .values = values, .ranks = ranks, .passes = passes, .widest = widest};
    c.peers.values = memory_allocate(most * (int64_t)sizeof *c.peers.values);
    c.peers.ranks = memory_allocate(most * (int64_t)sizeof *c.peers.ranks);
    c.peers.scratch = memory_allocate(most * (int64_t)sizeof *c.peers.scratch);
    int count = 0;
    for (int part = 0; part < RECHECK_PARTS; part++)
        widest[part] = 0;
    for (int r = 0; r < ranks; r++)
        differences[r] = (struct recheck_difference){0};
    compare_states(&c, shape);
    for (int part = RECHECK_LOSS; part < RECHECK_PARTS; part++)
        if (passes > 1)
            compare_passes(&c, (enum recheck_part)part);
        else
            compare_ranks(&c, shape, (enum recheck_part)part);
    for (int r = 0; r < ranks; r++)
        count += differences[r].differs;
    memory_free(c.peers.values);
    memory_free(c.peers.ranks);
    memory_free(c.peers.scratch);
    return count;
}
