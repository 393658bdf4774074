/* Attention by our own kernels, which support all arguments, or by cuDNN's, if they support the arguments and are
 * faster. All use the same lse, so forward and backward may use different implementations. */
#include "cuda/attention.h"
#include "base/error.h"
#include "base/log.h"
#include "cuda/attention_packed.h"
#include "cuda/tuned_kernels.h"
#include "cuda/cudnn_attention.h"
#include "cuda/timing.h"

#include <stdio.h>
#include <string.h>

enum { KINDS = 256, ALIGNMENT = 256 };

/* Limit of cuDNN's workspace. For packed rows of long windows cuDNN wants gigabytes; our kernels are as fast there. */
static const int64_t most_workspace = (int64_t)576 << 20;

/* Implementations of a call. ONCE: own kernels, with the backward that computes scores once. */
enum way { BY_CUDNN, BY_OWN, BY_OWN_ONCE, WAYS };

/* Milliseconds of each way; huge if it does not support the call. */
struct times {
    float of[WAYS];
};

/* A choice as stored. No padding; texts are followed by zeros. */
struct kept_times {
    struct times times;
    char program[28]; /* version of this program, whose kernels were timed */
    int64_t cudnn;    /* version of cuDNN */
};
_Static_assert(sizeof(struct kept_times) == sizeof(struct times) + 28 + 8, "no padding");

/* A kind of attention call that has been planned. */
struct kind {
    struct attention_key key;
    struct cudnn_attention *cudnn; /* NULL: not supported by cuDNN */
    bool once;                     /* BY_OWN_ONCE may run */
    struct times times;            /* 0 while unknown */
    bool looked_up;                /* the times have been looked up in the tuned kernels */
};

/* A forward or backward call. */
struct call {
    struct attention_forward_args shared; /* the arguments that forward and backward have in common */
    const struct attention_backward_args *backward;
};

static struct kind kinds[KINDS];
static int kind_count;
static enum attention_taken taken = ATTENTION_FASTEST;
static int64_t by_cudnn, by_once;

void cuda_attention_take(enum attention_taken implementation)
{
    taken = implementation;
}

int64_t cuda_attention_launches(enum attention_taken implementation)
{
    return implementation == ATTENTION_CUDNN ? by_cudnn : by_once;
}

bool cuda_has_cudnn(void)
{
    return cudnn_attention_version() > 0;
}

static struct call forward_call(const struct attention_forward_args *args)
{
    return (struct call){*args, NULL};
}

static struct call backward_call(const struct attention_backward_args *a)
{
    return (struct call){
        {a->q, a->k, a->v, a->o, a->lse, a->segments, a->heads, a->kv_heads, a->head_dim, a->scale, a->causal}, a};
}

/* -- What cuDNN supports ------------------------------------------------------------------------------------------ */

static bool fits(const struct tensor *t, int64_t stride)
{
    return t->dtype == DTYPE_BF16 && t->stride == stride && stride % 8 == 0 && (uintptr_t)t->data % 16 == 0;
}

/* Writes the call's key. Returns false if cuDNN is not considered for the call. Segments must have keys and queries in
 * the same rows, which is so if they use the same tables; a cache has tables of its own. */
static bool key_of(const struct cuda_target *target, const struct call *call, struct attention_key *key)
{
    const struct attention_forward_args *a = &call->shared;
    const struct attention_backward_args *b = call->backward;
    const struct attention_segments *s = &a->segments;
    if (target->deterministic || a->q.rows == 0 || s->q_start.cols == 0 || a->q.rows != a->k.rows ||
        s->q_start.data != s->kv_start.data || s->q_length.data != s->kv_length.data || a->head_dim % 8 != 0 ||
        a->head_dim > 128 || a->lse.dtype != DTYPE_F32)
        return false;
    if (!fits(&a->q, a->q.stride) || !fits(&a->k, a->k.stride) || !fits(&a->v, a->v.stride) ||
        !fits(&a->o, a->o.stride))
        return false;
    if (b != NULL && (b->accumulate_q || b->accumulate_kv))
        return false;
    if (b != NULL && !(fits(&b->d_o, a->o.stride) && fits(&b->dq, a->q.stride) && fits(&b->dk, a->k.stride) &&
                       fits(&b->dv, a->v.stride)))
        return false;
    memset(key, 0, sizeof *key);
    key->rows = a->q.rows;
    key->slots = s->q_start.cols;
    key->longest = s->longest > 0 && s->longest < a->q.rows ? s->longest : a->q.rows;
    key->stride_q = a->q.stride;
    key->stride_k = a->k.stride;
    key->stride_v = a->v.stride;
    key->stride_o = a->o.stride;
    key->scale = a->scale;
    key->heads = (int32_t)a->heads;
    key->kv_heads = (int32_t)a->kv_heads;
    key->head_dim = (int32_t)a->head_dim;
    key->causal = a->causal;
    key->layout = s->full ? ATTENTION_FULL : s->regular ? ATTENTION_REGULAR : ATTENTION_PACKED;
    key->backward = b != NULL;
    key->turned = b != NULL && tensor_present(&b->positions);
    return true;
}

static bool takes_once(const struct cuda_target *target, const struct call *call)
{
    const struct attention_backward_args *b = call->backward;
    return b != NULL && cuda_own_attention_backward_has_once(b) &&
           (!target->deterministic || cuda_own_attention_backward_once_repeats(b));
}

/* Returns whether BY_OWN_ONCE is chosen without timing: for tests, or in deterministic runs. */
static bool takes_nothing_but_once(const struct cuda_target *target, const struct call *call)
{
    return (taken == ATTENTION_ONCE || (taken == ATTENTION_FASTEST && target->deterministic)) &&
           takes_once(target, call);
}

/* Returns the planned kind of a key, or NULL. */
static struct kind *kind_of(const struct attention_key *key)
{
    for (int i = 0; i < kind_count; i++)
        if (memcmp(&kinds[i].key, key, sizeof *key) == 0)
            return &kinds[i];
    return NULL;
}

/* Returns the kind with the same segments, full instead of regular or the reverse, or NULL. If only one has been timed,
 * both use its choice. */
static struct kind *twin_of(const struct kind *kind)
{
    struct attention_key key = kind->key;
    if (key.layout == ATTENTION_PACKED)
        return NULL;
    key.layout = key.layout == ATTENTION_FULL ? ATTENTION_REGULAR : ATTENTION_FULL;
    return kind_of(&key);
}

/* -- Scratch of cuDNN --------------------------------------------------------------------------------------------- */

static void *place(char *base, int64_t *used, int64_t bytes)
{
    char *at = base + *used;
    *used += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return at;
}

/* Sets the addresses of all parts of the scratch at `base`, and returns its bytes. */
static int64_t lay_out(const struct kind *kind, char *base, struct cudnn_attention_addresses *at)
{
    const struct attention_key *key = &kind->key;
    int64_t used = 0, table = key->layout == ATTENTION_PACKED ? (key->slots + 1) * (int64_t)sizeof(int64_t) : 0;
    int64_t **starts[] = {&at->q_start, &at->k_start, &at->v_start, &at->o_start, &at->statistics_start};
    at->lengths = place(base, &used, key->slots * (int64_t)sizeof(int32_t));
    for (int i = 0; i < PACKED_TABLES; i++)
        *starts[i] = place(base, &used, table);
    at->statistics = place(base, &used, key->rows * key->heads * (int64_t)sizeof(float));
    at->workspace = place(base, &used, cudnn_attention_workspace(kind->cudnn));
    return used;
}

/* -- Running ----------------------------------------------------------------------------------------------------- */

static void run_own(const struct cuda_target *target, const struct call *call, bool once)
{
    by_once += once;
    if (call->backward != NULL)
        cuda_own_attention_backward(target, call->backward, once);
    else
        cuda_own_attention_forward(target, &call->shared);
}

static void run_cudnn(const struct cuda_target *target, const struct kind *kind, const struct call *call)
{
    const struct attention_forward_args *a = &call->shared;
    const struct attention_key *key = &kind->key;
    struct cudnn_attention_addresses at = {.q = a->q.data, .k = a->k.data, .v = a->v.data, .o = a->o.data};
    lay_out(kind, target->workspace, &at);
    struct packed_tables tables = {.lengths = at.lengths};
    if (key->layout == ATTENTION_PACKED)
        tables = (struct packed_tables){at.lengths,
                                        {at.q_start, at.k_start, at.v_start, at.o_start, at.statistics_start},
                                        {key->stride_q, key->stride_k, key->stride_v, key->stride_o, key->heads}};
    if (key->layout != ATTENTION_FULL)
        attention_packed_tables(target, &a->segments, &tables);
    if (call->backward != NULL) {
        const struct attention_backward_args *b = call->backward;
        at.d_o = b->d_o.data, at.dq = b->dq.data, at.dk = b->dk.data, at.dv = b->dv.data;
        attention_packed_statistics(target, a->lse, &a->segments, at.statistics, false);
        cudnn_attention_run(kind->cudnn, target->stream, &at);
        if (key->layout != ATTENTION_FULL)
            attention_packed_clear_backward(target, b);
    } else {
        cudnn_attention_run(kind->cudnn, target->stream, &at);
        attention_packed_statistics(target, a->lse, &a->segments, at.statistics, true);
        if (key->layout != ATTENTION_FULL)
            attention_packed_clear_forward(target, a);
    }
    by_cudnn++;
}

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

static void run_way(const struct cuda_target *target, const struct kind *kind, const struct call *call, enum way way)
{
    if (way == BY_CUDNN)
        run_cudnn(target, kind, call);
    else
        run_own(target, call, way == BY_OWN_ONCE);
    const struct attention_backward_args *b = call->backward;
    if (b != NULL && tensor_present(&b->positions) && (way == BY_CUDNN || !cuda_own_attention_backward_turns(b)))
        rotate_back(target, b);
}

/* -- Choosing ---------------------------------------------------------------------------------------------------- */

static bool takes(const struct kind *kind, enum way way)
{
    return way == BY_OWN || (way == BY_CUDNN && kind->cudnn != NULL) || (way == BY_OWN_ONCE && kind->once);
}

/* Returns the fastest way; own kernels with two passes while times are unknown. */
static enum way least(const struct times *times)
{
    enum way best = BY_OWN;
    for (enum way way = 0; way < WAYS; way++)
        if (times->of[way] < times->of[best])
            best = way;
    return best;
}

struct rivals {
    const struct kind *kind;
    const struct call *call;
};

/* Launches a way for timing. Inputs do not change, so a call can be repeated. */
static bool launch_rival(const struct cuda_target *target, const void *self, int way)
{
    const struct rivals *rivals = self;
    if (!takes(rivals->kind, way))
        return false;
    run_way(target, rivals->kind, rivals->call, way);
    return true;
}

static void describe(char *out, size_t bytes, const struct attention_key *key)
{
    static const char *const slots[] = {"slots", "segments", "full segments"}; /* by enum attention_layout */
    snprintf(out, bytes, "attention %s, %s, %d heads (%d) of %d, %lld rows in %lld %s",
             key->backward ? "backward" : "forward", key->causal ? "causal" : "full", (int)key->heads,
             (int)key->kv_heads, (int)key->head_dim, (long long)key->rows, (long long)key->slots, slots[key->layout]);
}

static struct kept_times kept_times(struct times times)
{
    struct kept_times kept = {.times = times, .cudnn = cudnn_attention_version()};
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
    const bool same = found.cudnn == now.cudnn && memcmp(found.program, now.program, sizeof now.program) == 0;
    if (same)
        *times = found.times;
    return same;
}

static void measure(const struct cuda_target *target, struct kind *kind, const struct call *call)
{
    static const char *const names[WAYS] = {"cuDNN", "own kernels", "own kernels, scores once"};
    char what[128], times[128] = "";
    int used = 0;
    struct call alone = *call; /* each launch makes its own work lists */
    struct attention_backward_args backward;
    alone.shared.segments.again = 0;
    if (call->backward != NULL) {
        backward = *call->backward;
        backward.segments.again = 0;
        alone.backward = &backward;
    }
    timing_compare(target, launch_rival, &(struct rivals){kind, &alone}, WAYS, kind->times.of);
    const struct kept_times kept = kept_times(kind->times);
    tuned_kernel_keep(TUNED_ATTENTION, &kind->key, sizeof kind->key, &kept, sizeof kept);
    describe(what, sizeof what, &kind->key);
    for (enum way way = 0; way < WAYS; way++)
        if (takes(kind, way) && used < (int)sizeof times)
            used += snprintf(times + used, sizeof times - (size_t)used, "%s %s %.3f ms", used > 0 ? "," : "",
                             names[way], (double)kind->times.of[way]);
    log_info("# %s:%s", what, times);
}

static bool has_times(struct kind *kind)
{
    if (!kind->looked_up)
        find_times(&kind->key, &kind->times);
    kind->looked_up = true;
    return kind->times.of[BY_OWN] > 0;
}

/* Returns the way to run a call, after timing the ways if it may. kind: may be NULL. */
static enum way way_of(const struct cuda_target *target, struct kind *kind, const struct call *call)
{
    if (takes_nothing_but_once(target, call))
        return BY_OWN_ONCE;
    if (kind == NULL || taken == ATTENTION_OWN || taken == ATTENTION_ONCE)
        return BY_OWN;
    if (taken == ATTENTION_CUDNN)
        return takes(kind, BY_CUDNN) ? BY_CUDNN : BY_OWN;
    if (!has_times(kind) && (takes(kind, BY_CUDNN) || takes(kind, BY_OWN_ONCE)) && target->tuning_pass &&
        tuning_share_has(&target->share, TUNED_ATTENTION, &kind->key, sizeof kind->key))
        measure(target, kind, call);
    struct kind *twin = has_times(kind) ? NULL : twin_of(kind);
    enum way way = least(twin != NULL && has_times(twin) ? &twin->times : &kind->times);
    return takes(kind, way) ? way : BY_OWN;
}

void cuda_attention_reconsider(void)
{
    for (int i = 0; i < kind_count; i++) {
        kinds[i].times = (struct times){0};
        kinds[i].looked_up = false;
    }
}

static void run(const struct cuda_target *target, const struct call *call)
{
    struct attention_key key;
    struct kind *kind = key_of(target, call, &key) ? kind_of(&key) : NULL;
    run_way(target, kind, call, way_of(target, kind, call));
}

void cuda_attention_forward(const struct cuda_target *target, const struct attention_forward_args *args)
{
    struct call call = forward_call(args);
    run(target, &call);
}

void cuda_attention_backward(const struct cuda_target *target, const struct attention_backward_args *args)
{
    struct call call = backward_call(args);
    run(target, &call);
}

/* -- Planning ---------------------------------------------------------------------------------------------------- */

/* Plans a kind once. Asks cuDNN for a kernel, unless it is known not to be the fastest. */
static void plan_kind(const struct attention_key *key, bool once)
{
    char what[128], why[256] = "";
    if (kind_count == KINDS || kind_of(key) != NULL)
        return;
    struct kind *kind = &kinds[kind_count++];
    *kind = (struct kind){.key = *key};
    bool known = taken == ATTENTION_FASTEST && find_times(key, &kind->times);
    kind->once = once && (!known || least(&kind->times) == BY_OWN_ONCE);
    if (!known || least(&kind->times) == BY_CUDNN)
        kind->cudnn = cudnn_attention_build(key, most_workspace, why, sizeof why);
    if (why[0] != '\0') {
        describe(what, sizeof what, key);
        log_info("# %s: own kernels, not cuDNN: %s", what, why);
    }
}

/* Plans a call, for full and for regular segments: it is not known yet which of them a step has. */
static void plan(const struct cuda_target *target, const struct call *call)
{
    struct attention_key key;
    if (!key_of(target, call, &key) || taken == ATTENTION_OWN || taken == ATTENTION_ONCE)
        return;
    plan_kind(&key, takes_once(target, call));
    if (key.layout == ATTENTION_REGULAR) {
        key.layout = ATTENTION_FULL;
        plan_kind(&key, takes_once(target, call));
    }
}

void cuda_attention_forward_plan(const struct cuda_target *target, const struct attention_forward_args *args)
{
    struct call call = forward_call(args);
    plan(target, &call);
}

void cuda_attention_backward_plan(const struct cuda_target *target, const struct attention_backward_args *args)
{
    struct call call = backward_call(args);
    plan(target, &call);
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Returns the scratch of a kind's ways other than own kernels with two passes. */
static int64_t workspace_of(const struct cuda_target *target, const struct kind *kind, const struct call *call)
{
    struct cudnn_attention_addresses at;
    if (kind == NULL)
        return 0;
    return larger(kind->cudnn != NULL ? lay_out(kind, NULL, &at) : 0,
                  kind->once ? cuda_own_attention_backward_workspace(target, call->backward, true) : 0);
}

/* Returns the scratch of all ways: each may run. */
static int64_t workspace(const struct cuda_target *target, const struct call *call, int64_t own)
{
    struct attention_key key;
    if (takes_nothing_but_once(target, call))
        return larger(own, cuda_own_attention_backward_workspace(target, call->backward, true));
    if (!key_of(target, call, &key))
        return own;
    const struct kind wanted = {.key = key};
    return larger(own, larger(workspace_of(target, kind_of(&key), call), workspace_of(target, twin_of(&wanted), call)));
}

int64_t cuda_attention_forward_workspace(const struct cuda_target *target, const struct attention_forward_args *args)
{
    struct call call = forward_call(args);
    return workspace(target, &call, cuda_own_attention_forward_workspace(target, args));
}

int64_t cuda_attention_backward_workspace(const struct cuda_target *target, const struct attention_backward_args *args)
{
    struct call call = backward_call(args);
    return workspace(target, &call, cuda_own_attention_backward_workspace(target, args, false));
}
