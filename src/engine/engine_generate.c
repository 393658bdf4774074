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
    const int64_t sequences = e->settings.memory.max_segments, least = e->settings.least_rows;
    return MAX(sequences, least);
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

void engine_create_sequences(struct engine *e)
{
    const struct model_settings *s = &e->model->settings;
    const struct memory_settings *m = &e->settings.memory;
    const int64_t layer_rows = m->max_segments * e->settings.positions, rows = s->layers * layer_rows;
    const int64_t width = 2 * model_kv_heads(s) * s->head_dim, size = dtype_size(m->compute);
    if (layer_rows > INT32_MAX)
        error_fatal("%lld sequences of %lld tokens are more than a cache can have", (long long)m->max_segments,
                    (long long)e->settings.positions);
    e->execution.cache = (struct kv_cache){
        tensor_matrix(budget_allocate(&e->budget, rows * width * size, BUDGET_ACTIVATIONS), m->compute, rows, width),
        layer_rows};
    e->lengths = memory_allocate((int64_t)sizeof *e->lengths * m->max_segments);
    void *host = e->executor->class->allocate(e->executor, m->max_segments * s->vocabulary * size, MEMORY_HOST);
    e->logits = tensor_matrix(host, m->compute, m->max_segments, s->vocabulary);
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
    int32_t *kv_start, *kv_length, *q_offset; /* [pieces] */
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
        error_fatal("a sequence of %lld tokens has no room in this engine's cache of %lld", (long long)length,
                    (long long)e->settings.positions);
}

/* Makes the tables of a call. Tokens are padded by rows without a segment, logits by rows that nobody reads. */
static void call_create(struct call *c, struct engine *e, const struct engine_piece *pieces, int64_t count)
{
    const int64_t least = e->settings.least_rows, tokens = tokens_of(pieces, count);
    const int64_t rows = MAX(tokens, least), positions = e->settings.positions;
    *c = (struct call){.tokens = tokens};
    batch_create(&c->batch, 1, rows, count);
    batch_restart(&c->batch);
    c->kv_start = memory_allocate((3 * count + tokens + most_ends(e)) * (int64_t)sizeof *c->kv_start);
    c->kv_length = c->kv_start + count;
    c->q_offset = c->kv_length + count;
    c->places = c->q_offset + count;
    c->ends = c->places + tokens;
    for (int64_t i = 0; i < count; i++) {
        const struct engine_piece *piece = &pieces[i];
        const int64_t before = e->lengths[piece->sequence], start = piece->sequence * positions;
        check_piece(e, piece);
        const int64_t first = batch_append(&c->batch, piece->tokens, piece->count);
        for (int64_t t = 0; t < piece->count; t++) {
            c->batch.positions[first + t] = (int32_t)(before + t);
            c->places[first + t] = (int32_t)(start + before + t);
        }
        c->kv_start[i] = (int32_t)start;
        c->kv_length[i] = (int32_t)(before + piece->count);
        c->q_offset[i] = (int32_t)before;
        if (piece->ends)
            c->ends[c->wanted++] = (int32_t)(first + piece->count - 1);
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
