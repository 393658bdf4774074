#include "infer/embed.h"
#include "base/available.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "file/disk.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/progress.h"
#include "base/range.h"
#include "base/text.h"
#include "base/thousands.h"
#include "data/batch.h"
#include "loader/masking.h"
#include "infer/inference.h"
#include "infer/output.h"
#include "infer/sequences.h"
#include "infer/embeddings.h"
#include "estimate/fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH_TOKENS = 4096, TOKENS_PER_RECORD = 8, MOST_TOKENS = 1 << 28, SENT_BYTES = 4 << 20 };

/* One batch for each team. Rank 0 reads the file and sends the round to all ranks; the tokens of all batches are
 * contiguous. */
struct embed_round {
    int64_t *counts;  /* [teams]: records of each batch */
    int64_t *lengths; /* [teams * most_records] tokens of each record; batch t begins at t * most_records */
    uint8_t *tokens;  /* [teams * batch_tokens] */
    char **names;     /* [teams * most_records] as lengths; rank 0 */
};

struct embedder {
    const struct embed_settings *settings;
    struct inference *inference;
    struct comm *world;
    enum embeddings_pool pool;
    bool masked;
    int64_t begin, end;                 /* special tokens before and after a record */
    int64_t longest;                    /* tokens of the longest record */
    int64_t batch_tokens, most_records; /* maxima of a batch */
    struct record_sequences sequences;  /* rank 0 */
    struct atomic_file output;          /* rank 0 */
    struct embeddings *file;            /* rank 0 */
    struct spool_record waiting;        /* rank 0: the next record, not yet in a batch */
    int more;                           /* waiting is valid */
    struct embed_round round;
    struct batch batch; /* this team's batch */
    int32_t *tokens;    /* [batch_tokens] tokens of one record */
    float *vectors;     /* [batch_tokens][hidden] for this team's batch */
    float *sent;        /* [SENT_BYTES] piece of a rank's vectors */
    double *sum;        /* [hidden] sum for the mean */
};

/* -- Before computing --------------------------------------------------------------------------------------------- */

static int choose_pool(enum embeddings_pool *pool, const char *name)
{
    for (int i = 0; i < EMBEDDINGS_POOLS; i++)
        if (strcmp(name, embeddings_pool_names[i]) == 0) {
            *pool = (enum embeddings_pool)i;
            return ERROR_NONE;
        }
    return error_user("--pool %s: must be mean (over the residues), last (the last token) or none (every token)", name);
}

static int check_settings(struct embedder *e)
{
    const int64_t most = e->settings->max_length;
    int code = choose_pool(&e->pool, e->settings->pool);
    if (code != ERROR_NONE)
        return code;
    if (most != 0 && (most <= e->begin + e->end || most > MOST_TOKENS))
        return error_user("--max-length %lld: must be %lld, the special tokens and one more, to %d, or 0 for no limit",
                          (long long)most, (long long)(e->begin + e->end + 1), MOST_TOKENS);
    return ERROR_NONE;
}

/* Rank 0. */
static int read_input(struct embedder *e)
{
    const struct embed_settings *s = e->settings;
    const struct sequences_settings settings = {.fasta = s->fasta,
                                                .output = s->output,
                                                .tokenizer = e->inference->tokenizer,
                                                .end = e->masked,
                                                .letter_case = s->letter_case,
                                                .most = s->max_length};
    int code = output_check(s->output, s->replace ? DISK_REPLACE : 0, s->fasta, e->inference->path);
    if (code == ERROR_NONE)
        code = output_open(&e->output, s->output);
    if (code == ERROR_NONE)
        code = sequences_read(&e->sequences, &settings);
    if (code == ERROR_NONE && e->sequences.longest > MOST_TOKENS)
        code = error_user("%s: record %s has %lld tokens, more than the %d that a model can process at once; "
                          "--max-length truncates records",
                          s->fasta, text_short((char[TEXT_SHORT]){0}, e->sequences.longest_name),
                          (long long)e->sequences.longest, MOST_TOKENS);
    return code;
}

static int check_available(const struct embedder *e, int64_t need, int64_t available, const char *where)
{
    char needs[BYTES_TEXT], has[BYTES_TEXT];
    if (need <= available)
        return ERROR_NONE;
    return error_user("%s: its longest record, of %lld tokens, needs %s on each rank, but %s has %s free for each; "
                      "--max-length truncates records",
                      e->settings->fasta, (long long)e->longest, bytes_text(needs, (double)need), where,
                      bytes_text(has, (double)available));
}

/* Checks the memory before any rank of the node allocates. The engine is in the device's own memory, if there is one;
 * the vectors are in host memory. */
static int check_memory(const struct embedder *e)
{
    struct executor *executor = e->inference->executor;
    const bool apart = executor->device != NULL;
    struct comm *node = comm_split_node(e->world);
    int64_t machine = available_memory("") / node->size, free_for_engine = fit_free(executor, node->size);
    comm_destroy(node);
    /* twice, since engine_embed copies them */
    int64_t vectors = 2 * e->batch_tokens * e->inference->setup.model.hidden * (int64_t)sizeof(float);
    int64_t engine = inference_need(e->inference);
    int code = apart ? check_available(e, engine, free_for_engine, "the GPU") : ERROR_NONE;
    if (code == ERROR_NONE && machine > 0) /* 0: the free memory is unknown */
        code = check_available(e, apart ? vectors : engine + vectors, machine, "this machine");
    return code;
}

static int create_file(struct embedder *e)
{
    const struct inference *inference = e->inference;
    const struct record_sequences *s = &e->sequences;
    const int64_t records = spool_records(s->spool);
    const struct embeddings_settings settings = {.path = e->output.target.temporary,
                                                 .checkpoint = inference->path,
                                                 .family = inference->setup.model.family->name,
                                                 .tokenizer = inference->tokenizer->name,
                                                 .step = inference->step,
                                                 .pool = e->pool,
                                                 .hidden = inference->setup.model.hidden,
                                                 .records = records,
                                                 .name_bytes = s->name_bytes > 0 ? s->name_bytes : 1,
                                                 .rows = e->pool == EMBEDDINGS_NONE ? s->tokens : records,
                                                 .begin_tokens = e->begin,
                                                 .end_tokens = e->end,
                                                 .max_length = e->settings->max_length,
                                                 .truncated = s->truncated};
    int code = embeddings_create(&e->file, &settings);
    return code == ERROR_NONE ? spool_next(s->spool, &e->waiting, &e->more) : code;
}

static int close_file(struct embedder *e)
{
    int code = embeddings_close(e->file, ERROR_NONE);
    e->file = NULL;
    return output_close(&e->output, code);
}

/* -- A round ------------------------------------------------------------------------------------------------------ */

/* Appends whole records to a batch until the next one does not fit. */
static int fill_batch(struct embedder *e, int rank, uint8_t *tokens, int64_t *used)
{
    int64_t count = 0, left = e->batch_tokens;
    int code = ERROR_NONE;
    while (code == ERROR_NONE && e->more && e->waiting.length <= left && count < e->most_records) {
        int64_t at = rank * e->most_records + count++;
        e->round.lengths[at] = e->waiting.length;
        e->round.names[at] = memory_string(e->waiting.name);
        code = spool_read(e->sequences.spool, tokens + *used, e->waiting.length);
        *used += e->waiting.length;
        left -= e->waiting.length;
        if (code == ERROR_NONE)
            code = spool_next(e->sequences.spool, &e->waiting, &e->more);
    }
    e->round.counts[rank] = count;
    return code;
}

static int share_round(struct embedder *e)
{
    const int teams = e->inference->teams;
    struct embed_round *round = &e->round;
    int64_t used = 0;
    int code = ERROR_NONE;
    for (int r = 0; r < teams && e->world->rank == 0 && code == ERROR_NONE; r++)
        code = fill_batch(e, r, round->tokens, &used);
    code = comm_agree(e->world, code);
    if (code != ERROR_NONE)
        return code;
    comm_broadcast(e->world, &used, sizeof used, 0);
    comm_broadcast(e->world, round->counts, teams * (int64_t)sizeof *round->counts, 0);
    comm_broadcast(e->world, round->lengths, teams * e->most_records * (int64_t)sizeof *round->lengths, 0);
    comm_broadcast(e->world, round->tokens, used, 0);
    return ERROR_NONE;
}

static const int64_t *lengths_of(const struct embedder *e, int rank)
{
    return e->round.lengths + rank * e->most_records;
}

static int64_t tokens_of(const struct embedder *e, int rank)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < e->round.counts[rank]; i++)
        sum += lengths_of(e, rank)[i];
    return sum;
}

/* Returns the number of rows of /vectors that a batch makes. */
static int64_t rows_of(const struct embedder *e, int rank)
{
    return e->pool == EMBEDDINGS_NONE ? tokens_of(e, rank) : e->round.counts[rank];
}

/* Pools a record's states into its row, which may overlap the states: it begins at or before them. */
static void pool_record(struct embedder *e, const float *states, int64_t tokens, float *row)
{
    const int64_t hidden = e->inference->setup.model.hidden, residues = tokens - e->begin - e->end;
    if (e->pool == EMBEDDINGS_LAST) {
        memmove(row, states + (tokens - 1) * hidden, (size_t)hidden * sizeof *row);
        return;
    }
    for (int64_t i = 0; i < hidden; i++)
        e->sum[i] = 0;
    for (int64_t t = e->begin; t < e->begin + residues; t++)
        for (int64_t i = 0; i < hidden; i++)
            e->sum[i] += states[t * hidden + i];
    for (int64_t i = 0; i < hidden; i++)
        row[i] = residues > 0 ? (float)(e->sum[i] / (double)residues) : NAN;
}

static void fill_own(struct embedder *e)
{
    const int own = e->inference->team;
    const uint8_t *from = e->round.tokens;
    for (int r = 0; r < own; r++)
        from += tokens_of(e, r);
    batch_restart(&e->batch);
    for (int64_t i = 0; i < e->round.counts[own]; i++) {
        const int64_t length = lengths_of(e, own)[i];
        for (int64_t t = 0; t < length; t++)
            e->tokens[t] = from[t];
        int64_t first = batch_append(&e->batch, e->tokens, length);
        if (e->inference->setup.model.token_dropout)
            masking_scale(e->inference->tokenizer, e->tokens, length, e->batch.scale + first);
        from += length;
    }
}

static int compute(struct embedder *e)
{
    const int own = e->inference->team;
    const int64_t hidden = e->inference->setup.model.hidden;
    if (e->round.counts[own] == 0 && !e->inference->shares)
        return ERROR_NONE;
    fill_own(e);
    if (e->round.counts[own] == 0)
        batch_append(&e->batch, &e->inference->tokenizer->bos, 1); /* empty batch: the forward pass is collective */
    engine_embed(&e->inference->engine, &e->batch, e->vectors);
    for (int64_t i = 0; i < e->batch.row_tokens * hidden; i++)
        if (!isfinite(e->vectors[i]))
            return inference_diverged(e->inference->path);
    const float *states = e->vectors;
    for (int64_t i = 0; i < e->round.counts[own] && e->pool != EMBEDDINGS_NONE; i++) {
        const int64_t length = lengths_of(e, own)[i];
        pool_record(e, states, length, e->vectors + i * hidden);
        states += length * hidden;
    }
    return ERROR_NONE;
}

/* Rank 0. */
static int write_records(struct embedder *e, int rank)
{
    const int64_t count = e->round.counts[rank];
    char **names = e->round.names + rank * e->most_records;
    int64_t *residues = memory_allocate((int64_t)sizeof *residues * count);
    for (int64_t i = 0; i < count; i++)
        residues[i] = lengths_of(e, rank)[i] - e->begin - e->end;
    int code = embeddings_put_records(e->file, names, residues, count);
    memory_free(residues);
    for (int64_t i = 0; i < count; i++) {
        free(names[i]);
        names[i] = NULL;
    }
    return code;
}

/* Rank 0 receives and writes the vectors batch by batch. */
static int write_round(struct embedder *e)
{
    const int64_t hidden = e->inference->setup.model.hidden;
    const int64_t row_bytes = hidden * (int64_t)sizeof *e->vectors;
    const int64_t rows_at_once = MAX(SENT_BYTES / row_bytes, 1);
    int code = ERROR_NONE;
    for (int r = 0; r < e->inference->teams; r++) {
        const int first_rank = r * (e->world->size / e->inference->teams);
        const int64_t rows = rows_of(e, r);
        for (int64_t first = 0; first < rows; first += rows_at_once) {
            int64_t count = MIN(rows - first, rows_at_once);
            if (e->world->rank == first_rank)
                memcpy(e->sent, e->vectors + first * hidden, (size_t)(count * row_bytes));
            comm_broadcast(e->world, e->sent, count * row_bytes, first_rank);
            if (e->world->rank == 0 && code == ERROR_NONE)
                code = embeddings_put_vectors(e->file, e->sent, count);
        }
        if (e->world->rank == 0 && code == ERROR_NONE)
            code = write_records(e, r);
    }
    return code;
}

static int run_round(struct embedder *e, bool *more)
{
    int code = share_round(e);
    *more = code == ERROR_NONE && e->round.counts[0] > 0;
    if (!*more)
        return code;
    code = comm_agree(e->world, compute(e));
    return code == ERROR_NONE ? comm_agree(e->world, write_round(e)) : code;
}

static int run_rounds(struct embedder *e)
{
    struct progress_line progress;
    int code = ERROR_NONE;
    progress_start(&progress, "embedding", "tokens", (double)e->sequences.tokens);
    for (bool more = true; more && code == ERROR_NONE;) {
        code = run_round(e, &more);
        for (int r = 0; r < e->inference->teams && more; r++)
            progress_add(&progress, (double)tokens_of(e, r));
    }
    progress_end(&progress);
    return code;
}

/* -- The whole command -------------------------------------------------------------------------------------------- */

static void allocate(struct embedder *e)
{
    const int64_t teams = e->inference->teams, hidden = e->inference->setup.model.hidden;
    const int64_t row_bytes = hidden * (int64_t)sizeof *e->vectors;
    batch_create(&e->batch, 1, e->batch_tokens, e->most_records);
    e->round.counts = memory_allocate((int64_t)sizeof *e->round.counts * teams);
    e->round.lengths = memory_allocate((int64_t)sizeof *e->round.lengths * teams * e->most_records);
    e->round.names = memory_allocate((int64_t)sizeof *e->round.names * teams * e->most_records);
    e->round.tokens = memory_allocate(teams * e->batch_tokens);
    e->tokens = memory_allocate((int64_t)sizeof *e->tokens * e->batch_tokens);
    e->vectors = memory_allocate(row_bytes * e->batch_tokens);
    e->sent = memory_allocate(MAX(row_bytes, SENT_BYTES));
    e->sum = memory_allocate((int64_t)sizeof *e->sum * hidden);
}

static void release(struct embedder *e)
{
    batch_destroy(&e->batch);
    for (int64_t i = 0; e->round.names != NULL && i < e->inference->teams * e->most_records; i++)
        free(e->round.names[i]); /* names left by a failed round */
    memory_free(e->round.counts);
    memory_free(e->round.lengths);
    memory_free(e->round.names);
    memory_free(e->round.tokens);
    memory_free(e->tokens);
    memory_free(e->vectors);
    memory_free(e->sent);
    memory_free(e->sum);
    sequences_destroy(&e->sequences);
}

static void report_input(const struct embedder *e)
{
    const struct record_sequences *s = &e->sequences;
    const char *unit = tokenizer_token_noun(e->inference->tokenizer);
    census_report(&s->census, s->stops);
    if (s->empty > 0)
        log_warn("%lld record%s without %s; the vectors of their special tokens alone are stored%s",
                 (long long)s->empty, plural(s->empty), unit,
                 e->pool == EMBEDDINGS_MEAN ? ", and NaN as their mean" : "");
    if (s->longest > e->inference->context)
        log_warn("record %s has %lld tokens, more than the context of %lld that the model was trained with; its "
                 "vectors may make little sense",
                 text_short((char[TEXT_SHORT]){0}, s->longest_name), (long long)s->longest,
                 (long long)e->inference->context);
}

static void report(const struct embedder *e, double seconds)
{
    const struct record_sequences *s = &e->sequences;
    const int64_t records = spool_records(s->spool);
    if (s->truncated > 0)
        log_info("%lld of %lld records are longer than --max-length %lld and were truncated", (long long)s->truncated,
                 (long long)records, (long long)e->settings->max_length);
    log_info("%s: %lld record%s, %lld %s: vectors of %lld numbers, pool %s (%.1f s, %.0f tokens/s)",
             e->settings->output, (long long)records, plural(records),
             (long long)(s->tokens - records * (e->begin + e->end)), tokenizer_token_noun(e->inference->tokenizer),
             (long long)e->inference->setup.model.hidden, embeddings_pool_names[e->pool], seconds,
             (double)s->tokens / seconds);
}

/* Chooses the size of a batch: at least the longest record, at most all records. */
static void choose_batch(struct embedder *e)
{
    int64_t sizes[2] = {e->sequences.longest, e->sequences.tokens};
    comm_broadcast(e->world, sizes, sizeof sizes, 0);
    int64_t tokens = MIN(sizes[1], BATCH_TOKENS);
    e->longest = sizes[0];
    e->batch_tokens = MAX(e->longest, tokens);
    e->most_records = 1 + e->batch_tokens / TOKENS_PER_RECORD;
}

static int prepare(struct embedder *e)
{
    const bool reads = e->world->rank == 0;
    int code = comm_agree(e->world, check_settings(e));
    if (code == ERROR_NONE)
        code = comm_agree(e->world, reads ? read_input(e) : ERROR_NONE);
    if (code != ERROR_NONE)
        return code;
    if (reads)
        report_input(e);
    choose_batch(e);
    code = inference_lay_out(e->inference, &(struct inference_shape){.use = MEMORY_EMBED,
                                                                     .tokens = e->batch_tokens,
                                                                     .segments = e->most_records,
                                                                     .shard = e->settings->shard,
                                                                     .tensor = e->settings->tensor});
    if (code == ERROR_NONE)
        code = comm_agree(e->world, check_memory(e));
    if (code == ERROR_NONE)
        code = inference_start(e->inference);
    if (code == ERROR_NONE)
        code = comm_agree(e->world, reads ? create_file(e) : ERROR_NONE);
    return code;
}

static int embed(struct embedder *e)
{
    const struct family *family = e->inference->setup.model.family;
    e->masked = !family->causal;
    e->begin = 1;
    e->end = e->masked;
    int code = prepare(e);
    if (code == ERROR_NONE) {
        double start = clock_seconds();
        allocate(e);
        code = run_rounds(e);
        if (code == ERROR_NONE)
            code = comm_agree(e->world, close_file(e));
        if (code == ERROR_NONE && e->world->rank == 0)
            report(e, clock_seconds() - start);
    }
    embeddings_close(e->file, code); /* still open only after a failure */
    output_close(&e->output, code);
    release(e);
    return code;
}

int embed_run(struct comm *world, const struct embed_settings *settings, device_make *make_executor)
{
    struct inference *inference = memory_allocate(sizeof *inference);
    struct embedder *e = memory_allocate(sizeof *e);
    *e = (struct embedder){.settings = settings, .inference = inference, .world = world};
    int code = inference_open(inference, world, settings->checkpoint, make_executor);
    if (code == ERROR_NONE && tokenizer_is_text(inference->tokenizer))
        code = comm_agree(
            world, error_user("%s: is a model of text (%s); cistron embed supports models of bases and residues only",
                              inference->path, inference->tokenizer->name));
    if (code == ERROR_NONE)
        code = embed(e);
    inference_close(inference);
    memory_free(e);
    memory_free(inference);
    return code;
}
