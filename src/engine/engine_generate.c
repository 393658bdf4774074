/* Generation: keys and values of sequences stay in a cache, and each call appends tokens to some of the sequences. */
#include "base/error.h"
#include "base/memory.h"
#include "base/range.h"
#include "model/lm_head.h"
#include "engine/engine_private.h"

/* -- Tables and sequences ------------------------------------------------------------------------------------------ */

/* Returns the maximum number of logit rows of a call. */
static int64_t most_ends(const struct engine *e)
{
    return MAX(e->settings.sequences, e->settings.least_rows);
}

int64_t engine_cache_bytes(const struct engine *e)
{
    const struct memory_settings *m = &e->settings.memory;
    if (m->use == MEMORY_LOGITS)
        return m->row_tokens * dtype_size(DTYPE_I32);
    return engine_generates(e) ? (m->row_tokens + 3 * m->max_segments + most_ends(e)) * dtype_size(DTYPE_I32) : 0;
}

static struct tensor table(struct engine *e, int64_t count)
{
    return tensor_vector(budget_allocate(&e->budget, count * dtype_size(DTYPE_I32), BUDGET_BATCH), DTYPE_I32, count);
}

void engine_create_cache_tables(struct engine *e, struct batch_tensors *batch)
{
    const struct memory_settings *m = &e->settings.memory;
    batch->segments.kv_start = table(e, m->max_segments);
    batch->segments.kv_length = table(e, m->max_segments);
    batch->places = table(e, m->row_tokens);
    batch->ends = table(e, most_ends(e));
}

static int ranks_of(const struct engine *e)
{
    return group_size(e->groups.context);
}

/* Returns how many of a sequence's first `count` tokens this rank has in the cache. */
static int64_t own_tokens(const struct engine *e, int64_t count)
{
    const int64_t period = ENGINE_CACHE_BLOCK * (int64_t)ranks_of(e);
    const int64_t rest = count % period - ENGINE_CACHE_BLOCK * (int64_t)group_rank(e->groups.context);
    return ranks_of(e) == 1 ? count : count / period * ENGINE_CACHE_BLOCK + MAX(0, MIN(rest, ENGINE_CACHE_BLOCK));
}

/* Returns the cache's rows of a sequence, the same on all ranks. */
static int64_t sequence_rows(const struct engine *e)
{
    const int64_t period = ENGINE_CACHE_BLOCK * (int64_t)ranks_of(e), positions = e->settings.positions;
    return ranks_of(e) == 1 ? positions : (positions + period - 1) / period * ENGINE_CACHE_BLOCK;
}

int64_t engine_call_segments(int64_t sequences, int64_t tokens, int context_ranks)
{
    return context_ranks == 1 ? sequences : 2 * sequences + tokens / ENGINE_CACHE_BLOCK;
}

void engine_create_sequences(struct engine *e)
{
    const struct model_settings *s = &e->model->settings;
    const struct memory_settings *m = &e->settings.memory;
    const int64_t sequences = e->settings.sequences;
    /* with several ranks also rows for the tokens of a call that other ranks have, which are never read */
    const int64_t layer_rows = sequences * sequence_rows(e) + (ranks_of(e) > 1 ? m->row_tokens : 0);
    const int64_t rows = s->layers * layer_rows;
    const int64_t width = 2 * model_kv_heads(s) * s->head_dim, size = dtype_size(m->compute);
    if (layer_rows > INT32_MAX)
        error_fatal("%lld sequences of %lld tokens are more than a cache can have", (long long)sequences,
                    (long long)e->settings.positions);
    e->execution.cache = (struct kv_cache){
        tensor_matrix(budget_allocate(&e->budget, rows * width * size, BUDGET_ACTIVATIONS), m->compute, rows, width),
        layer_rows};
    e->lengths = memory_allocate((int64_t)sizeof *e->lengths * sequences);
    void *host = e->executor->class->allocate(e->executor, sequences * s->vocabulary * size, MEMORY_HOST);
    e->logits = tensor_matrix(host, m->compute, sequences, s->vocabulary);
}

void engine_destroy_sequences(struct engine *e)
{
    if (!engine_generates(e))
        return;
    memory_free(e->lengths);
    e->executor->class->release(e->executor, e->logits.data, MEMORY_HOST);
}

/* -- A call ------------------------------------------------------------------------------------------------------ */

/* The tables of a call that are copied to the device. */
struct call {
    struct batch batch;
    int32_t *kv_start, *kv_length, *q_offset; /* [segments] */
    int32_t *places;                          /* [tokens] */
    int32_t *ends;                            /* [most_ends] */
    int64_t tokens, wanted;                   /* tokens in all pieces; number of ends */
};

static int64_t tokens_of(const struct engine_piece *pieces, int64_t count)
{
    int64_t tokens = 0;
    for (int64_t i = 0; i < count; i++)
        tokens += pieces[i].count;
    return tokens;
}

static void check_piece(const struct engine *e, const struct engine_piece *piece)
{
    const int64_t length = e->lengths[piece->sequence] + piece->count;
    if (length > e->settings.positions)
        error_fatal("a sequence of %lld tokens does not fit in this engine's cache of %lld", (long long)length,
                    (long long)e->settings.positions);
}

/* Adds a segment: `count` tokens of a sequence, after the `before` tokens that it has, whose keys and values belong to
 * one rank. On the other ranks all of these tokens see the same keys. */
static void add_segment(struct call *c, const struct engine *e, int64_t sequence, int64_t before, const int32_t *tokens,
                        int64_t count)
{
    const int64_t start = sequence * sequence_rows(e), spare = e->settings.sequences * sequence_rows(e);
    const int64_t own_before = own_tokens(e, before), own = own_tokens(e, before + count) - own_before;
    const int64_t first = batch_append(&c->batch, tokens, count), segment = c->batch.max_segments - 1;
    for (int64_t t = 0; t < count; t++) {
        c->batch.positions[first + t] = (int32_t)(before + t);
        c->places[first + t] = (int32_t)(own > 0 ? start + own_before + t : spare + first + t);
    }
    c->kv_start[segment] = (int32_t)start;
    c->kv_length[segment] = (int32_t)(own_before + own);
    c->q_offset[segment] = (int32_t)own_before; /* with own == 0 there are no more keys */
}

/* Returns how many of the next `count` tokens of a sequence of `before` tokens belong to one rank. */
static int64_t one_owner(const struct engine *e, int64_t before, int64_t count)
{
    const int64_t left = ENGINE_CACHE_BLOCK - before % ENGINE_CACHE_BLOCK;
    return ranks_of(e) == 1 ? count : MIN(count, left);
}

/* Makes the tables of a call. Tokens are padded by rows without a segment, logits by rows that nobody reads. */
static void call_create(struct call *c, struct engine *e, const struct engine_piece *pieces, int64_t count)
{
    const int64_t least = e->settings.least_rows, tokens = tokens_of(pieces, count), rows = MAX(tokens, least);
    const int64_t segments = engine_call_segments(count, tokens, ranks_of(e));
    *c = (struct call){.tokens = tokens};
    batch_create(&c->batch, 1, rows, segments);
    batch_restart(&c->batch);
    c->kv_start = memory_allocate((3 * segments + tokens + most_ends(e)) * (int64_t)sizeof *c->kv_start);
    c->kv_length = c->kv_start + segments;
    c->q_offset = c->kv_length + segments;
    c->places = c->q_offset + segments;
    c->ends = c->places + tokens;
    for (int64_t i = 0; i < count; i++) {
        const struct engine_piece *piece = &pieces[i];
        const int64_t before = e->lengths[piece->sequence];
        check_piece(e, piece);
        for (int64_t done = 0, part; done < piece->count; done += part) {
            part = one_owner(e, before + done, piece->count - done);
            add_segment(c, e, piece->sequence, before + done, piece->tokens + done, part);
        }
        if (piece->ends)
            c->ends[c->wanted++] = (int32_t)(c->batch.row_tokens - 1);
    }
    c->batch.row_tokens = rows;
}

static void call_destroy(struct call *c)
{
    memory_free(c->kv_start);
    batch_destroy(&c->batch);
}

/* Returns whether the call is a decoding step: one token for each of its sequences, without padding. */
static bool is_step(const struct call *c)
{
    return c->tokens == c->batch.max_segments && c->tokens == c->wanted && c->tokens == c->batch.row_tokens;
}

static void send(struct engine *e, const struct call *c)
{
    struct batch_tensors *to = &e->batches[0];
    const int64_t segments = c->batch.max_segments, least = e->settings.least_rows;
    staging_next(&e->staging);
    engine_stage_batch(e, &c->batch, to);
    to->segments.longest = is_step(c); /* maximum number of queries in a segment; it has more keys */
    to->segments.full = is_step(c);
    engine_load_numbers(e, c->kv_start, segments, &to->segments.kv_start);
    engine_load_numbers(e, c->kv_length, segments, &to->segments.kv_length);
    engine_load_numbers(e, c->q_offset, segments, &to->segments.q_offset);
    engine_load_numbers(e, c->places, c->tokens, &to->places);
    engine_load_numbers(e, c->ends, c->wanted > 0 && c->wanted < least ? least : c->wanted, &to->ends);
    staging_end(&e->staging, &e->streams[STREAM_COMPUTE]);
}

static void run(void *self)
{
    engine_run_forward(self, PASS_GENERATE, 0, 0);
}

static void forward(struct engine *e, const struct call *c)
{
    const int64_t segments = c->batch.max_segments;
    const struct replay_key key = {
        .part = REPLAY_GENERATE, .written = e->written[0], .tokens = c->tokens, .segments = segments};
    if (is_step(c))
        replay_run(&e->replay, &key, &e->streams[STREAM_COMPUTE], run, e);
    else
        run(e);
}

/* Copies the requested logits, without padding, to the host. */
static struct tensor fetch(struct engine *e, int64_t count)
{
    const struct tensor host = tensor_rows(&e->logits, 0, count);
    if (count > 0) {
        const struct tensor made = lm_head_end_logits(&e->execution, model_head(e->model));
        LAUNCH(&e->streams[STREAM_COMPUTE], COPY, copy, .from = tensor_rows(&made, 0, count), .to = host);
    }
    engine_synchronize(e);
    return host;
}

struct tensor engine_extend(struct engine *e, const struct engine_piece *pieces, int64_t count)
{
    struct call call;
    call_create(&call, e, pieces, count);
    send(e, &call);
    forward(e, &call);
    for (int64_t i = 0; i < count; i++)
        e->lengths[pieces[i].sequence] += pieces[i].count;
    const int64_t wanted = call.wanted;
    call_destroy(&call);
    return fetch(e, wanted);
}

int64_t engine_length(const struct engine *e, int64_t sequence)
{
    return e->lengths[sequence];
}

void engine_truncate(struct engine *e, int64_t sequence, int64_t length)
{
    if (length < e->lengths[sequence])
        e->lengths[sequence] = length;
}
