/* Chooses the kernel of an attention backward: the one that computes scores once, or the one with two passes. If both
 * support the arguments, the tuning pass times them, and the faster one is used for this shape. */
#include "cuda/attention.h"
#include "base/log.h"
#include "cuda/tuned_kernels.h"
#include "cuda/timing.h"

#include <stdio.h>
#include <string.h>

enum { KINDS = 256 };

enum way { TWO_PASSES, ONCE, WAYS };

/* The shape that times belong to. Compared and stored as bytes: no padding. */
struct attention_key {
    int64_t queries, keys, slots; /* rows of q and of k */
    int64_t longest;              /* no segment has more queries */
    int64_t heads, kv_heads, head_dim;
    int32_t mask;   /* 0: full; 1: causal; else the window and 1 */
    int32_t turned; /* the inverse rope is applied to the gradients */
    int32_t adds_q, adds_kv;
};

/* Milliseconds of each way. */
struct times {
    float of[WAYS];
};

/* A choice as stored. No padding; texts are followed by zeros. */
struct kept_times {
    struct times times;
    char program[28]; /* version of this program, whose kernels were timed */
};
_Static_assert(sizeof(struct kept_times) == sizeof(struct times) + 28, "no padding");

/* A shape that has been planned. */
struct kind {
    struct attention_key key;
    bool once;          /* ONCE may run: its scratch is planned */
    struct times times; /* 0 while unknown */
    bool looked_up;     /* the times have been looked up in the tuned kernels */
};

static struct kind kinds[KINDS];
static int kind_count;
static enum attention_taken taken = ATTENTION_FASTEST;
static int64_t once_launches;

void cuda_attention_take(enum attention_taken implementation)
{
    taken = implementation;
}

int64_t cuda_attention_launches(void)
{
    return once_launches;
}

/* -- Kinds ------------------------------------------------------------------------------------------------------- */

static bool takes_once(const struct cuda_target *target, const struct attention_backward_args *a)
{
    return cuda_own_attention_backward_has_once(a) &&
           (!target->deterministic || cuda_own_attention_backward_once_repeats(a));
}

/* Returns whether ONCE is chosen without timing: for tests, or in deterministic runs. */
static bool takes_nothing_but_once(const struct cuda_target *target, const struct attention_backward_args *a)
{
    return (taken == ATTENTION_ONCE || (taken == ATTENTION_FASTEST && target->deterministic)) && takes_once(target, a);
}

/* Writes the key of the arguments. Returns false if ONCE is not considered for them. */
static bool key_of(const struct cuda_target *target, const struct attention_backward_args *a, struct attention_key *key)
{
    const struct attention_segments *s = &a->segments;
    if (taken != ATTENTION_FASTEST || target->deterministic || a->q.rows == 0 || s->q_start.cols == 0 ||
        !takes_once(target, a))
        return false;
    *key = (struct attention_key){.queries = a->q.rows,
                                  .keys = a->k.rows,
                                  .slots = s->q_start.cols,
                                  .longest = s->longest > 0 && s->longest < a->q.rows ? s->longest : a->q.rows,
                                  .heads = a->heads,
                                  .kv_heads = a->kv_heads,
                                  .head_dim = a->head_dim,
                                  .mask = (int32_t)(a->causal + a->window),
                                  .turned = tensor_present(&a->positions),
                                  .adds_q = a->accumulate_q,
                                  .adds_kv = a->accumulate_kv};
    return true;
}

/* Returns the planned kind of a key, or NULL. */
static struct kind *kind_of(const struct attention_key *key)
{
    for (int i = 0; i < kind_count; i++)
        if (memcmp(&kinds[i].key, key, sizeof *key) == 0)
            return &kinds[i];
    return NULL;
}

/* -- Running ----------------------------------------------------------------------------------------------------- */

/* Uses one launch if dk directly follows dq in each row, as in the gradient of a fused projection. */
static void rotate_back(const struct cuda_target *target, const struct attention_backward_args *b)
{
    struct rope_args rope = {.x = b->dq,
                             .positions = b->positions,
                             .table = b->table,
                             .head_dim = b->head_dim,
                             .interleaved = b->interleaved,
                             .inverse = true};
    const bool joined = tensor_at(&b->dq, 0, b->dq.cols) == b->dk.data && b->dq.stride == b->dk.stride;
    if (joined)
        rope.x.cols += b->dk.cols;
    cuda_rope(target, &rope);
    rope.x = b->dk;
    if (!joined)
        cuda_rope(target, &rope);
}

static void run_way(const struct cuda_target *target, const struct attention_backward_args *args, enum way way)
{
    once_launches += way == ONCE;
    cuda_own_attention_backward(target, args, way == ONCE);
    if (tensor_present(&args->positions) && !cuda_own_attention_backward_turns(args))
        rotate_back(target, args);
}

/* -- Choosing ---------------------------------------------------------------------------------------------------- */

/* Returns the faster way; two passes while the times are unknown. */
static enum way faster(const struct times *times)
{
    return times->of[ONCE] < times->of[TWO_PASSES] ? ONCE : TWO_PASSES;
}

/* Launches a way for timing. Inputs do not change, so a call can be repeated; what it adds to gradients is discarded
 * with the tuning pass. */
static bool launch_rival(const struct cuda_target *target, const void *self, int way)
{
    run_way(target, self, (enum way)way);
    return true;
}

static struct kept_times kept_times(struct times times)
{
    struct kept_times kept = {.times = times};
    snprintf(kept.program, sizeof kept.program, "%s", PACKAGE_VERSION);
    return kept;
}

/* Finds stored times; those of other versions are ignored. */
static bool find_times(const struct attention_key *key, struct times *times)
{
    struct kept_times found;
    if (!tuned_kernel_find(TUNED_ATTENTION, key, sizeof *key, &found, sizeof found))
        return false;
    const struct kept_times now = kept_times(found.times);
    const bool same = memcmp(found.program, now.program, sizeof now.program) == 0;
    if (same)
        *times = found.times;
    return same;
}

static const char *mask_name(int32_t mask)
{
    return mask == 0 ? "full" : mask == 1 ? "causal" : "sliding window";
}

static void measure(const struct cuda_target *target, struct kind *kind, const struct attention_backward_args *args)
{
    const struct attention_key *key = &kind->key;
    struct attention_backward_args alone = *args;
    alone.segments.again = 0; /* each launch makes its own work lists */
    timing_compare(target, launch_rival, &alone, WAYS, kind->times.of);
    const struct kept_times kept = kept_times(kind->times);
    tuned_kernel_keep(TUNED_ATTENTION, key, sizeof *key, &kept, sizeof kept);
    log_info("# attention backward, %s, %d heads (%d) of %d, %lld queries, %lld keys, %lld slots: two passes %.3f ms, "
             "scores once %.3f ms",
             mask_name(key->mask), (int)key->heads, (int)key->kv_heads, (int)key->head_dim, (long long)key->queries,
             (long long)key->keys, (long long)key->slots, (double)kind->times.of[TWO_PASSES],
             (double)kind->times.of[ONCE]);
}

static bool has_times(struct kind *kind)
{
    if (!kind->looked_up)
        find_times(&kind->key, &kind->times);
    kind->looked_up = true;
    return kind->times.of[TWO_PASSES] > 0;
}

static enum way way_of(const struct cuda_target *target, const struct attention_backward_args *args)
{
    struct attention_key key;
    if (takes_nothing_but_once(target, args))
        return ONCE;
    struct kind *kind = key_of(target, args, &key) ? kind_of(&key) : NULL;
    if (kind == NULL || !kind->once)
        return TWO_PASSES;
    if (!has_times(kind) && target->tuning_pass &&
        tuning_share_has(&target->share, TUNED_ATTENTION, &kind->key, sizeof kind->key))
        measure(target, kind, args);
    return faster(&kind->times);
}

void cuda_attention_reconsider(void)
{
    for (int i = 0; i < kind_count; i++) {
        kinds[i].times = (struct times){0};
        kinds[i].looked_up = false;
    }
}

void cuda_attention_backward(const struct cuda_target *target, const struct attention_backward_args *args)
{
    run_way(target, args, way_of(target, args));
}

/* -- Planning ---------------------------------------------------------------------------------------------------- */

void cuda_attention_backward_plan(const struct cuda_target *target, const struct attention_backward_args *args)
{
    struct attention_key key;
    if (!key_of(target, args, &key) || kind_count == KINDS || kind_of(&key) != NULL)
        return;
    struct kind *kind = &kinds[kind_count++];
    *kind = (struct kind){.key = key};
    kind->once = !find_times(&key, &kind->times) || faster(&kind->times) == ONCE;
}

/* Returns the scratch of the way that needs most: either may run. */
int64_t cuda_attention_backward_workspace(const struct cuda_target *target, const struct attention_backward_args *args)
{
    struct attention_key key;
    const struct kind *kind = key_of(target, args, &key) ? kind_of(&key) : NULL;
    const int64_t two = cuda_own_attention_backward_workspace(target, args, false);
    if (!takes_nothing_but_once(target, args) && (kind == NULL || !kind->once))
        return two;
    const int64_t once = cuda_own_attention_backward_workspace(target, args, true);
    return once > two ? once : two;
}
