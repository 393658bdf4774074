#include "infer/forward.h"
#include "base/memory.h"
#include "base/progress.h"
#include "base/range.h"
#include "data/batch.h"
#include "loader/masking.h"

#include <math.h>
#include <string.h>

/* Sizes of a batch. */
struct forward_size {
    int64_t items, tokens, wanted;
};

/* One batch for each team. Rank 0 fills the arrays and sends them to all ranks; the batches follow each other without
 * gaps. */
struct forward_rounds {
    struct forward_size *sizes;  /* [teams] */
    int32_t *lengths;            /* [items of all batches] tokens of each item */
    int32_t *counts;             /* as lengths: requested rows of each item */
    int32_t *tokens;             /* [tokens of all batches] */
    int32_t *rows, *targets;     /* [requested rows of all batches]; rows are indices in their batch */
    struct forward_item waiting; /* rank 0: the next item, not in a batch yet */
    bool has_waiting, ended;
    struct batch batch; /* this team's batch */
    float *logits;      /* [batch_tokens, vocabulary] of this team's batch */
    double *chosen;     /* [batch_tokens] FORWARD_TARGETS: log-probabilities of this team's batch */
    char *results;      /* rank 0: results of all ranks, grown as needed */
    int64_t results_bytes;
};

void forward_create(struct forward_pass *f, struct inference *inference)
{
    const int64_t teams = inference->teams, tokens = inference->shape.tokens, items = inference->shape.segments;
    struct forward_rounds *r = memory_allocate(sizeof *r);
    *f = (struct forward_pass){.inference = inference, .batch_tokens = tokens, .items = items, .round = r};
    r->sizes = memory_allocate(teams * (int64_t)sizeof *r->sizes);
    r->lengths = memory_allocate(teams * items * (int64_t)sizeof *r->lengths);
    r->counts = memory_allocate(teams * items * (int64_t)sizeof *r->counts);
    r->tokens = memory_allocate(teams * tokens * (int64_t)sizeof *r->tokens);
    r->rows = memory_allocate(teams * tokens * (int64_t)sizeof *r->rows);
    r->targets = memory_allocate(teams * tokens * (int64_t)sizeof *r->targets);
    batch_create(&r->batch, 1, tokens, items);
    r->logits = memory_allocate(tokens * inference->setup.model.vocabulary * (int64_t)sizeof *r->logits);
    r->chosen = memory_allocate(tokens * (int64_t)sizeof *r->chosen);
}

void forward_destroy(struct forward_pass *f)
{
    struct forward_rounds *r = f->round;
    if (r == NULL)
        return;
    memory_free(r->sizes);
    memory_free(r->lengths);
    memory_free(r->counts);
    memory_free(r->tokens);
    memory_free(r->rows);
    memory_free(r->targets);
    batch_destroy(&r->batch);
    memory_free(r->logits);
    memory_free(r->chosen);
    memory_free(r->results);
    memory_free(r);
    f->round = NULL;
}

/* -- A round ------------------------------------------------------------------------------------------------------- */

/* Makes sure that an item waits, unless the source has ended. */
static bool item_waits(struct forward_rounds *r, const struct forward_source *source)
{
    if (!r->has_waiting && !r->ended) {
        r->has_waiting = source->next(source->self, &r->waiting);
        r->ended = !r->has_waiting;
    }
    return r->has_waiting;
}

/* Rank 0: appends whole items to a batch until the next one does not fit. before: sizes of the round's batches so far.
 */
static void fill_batch(struct forward_pass *f, const struct forward_source *source, const struct forward_size *before,
                       struct forward_size *size)
{
    struct forward_rounds *r = f->round;
    *size = (struct forward_size){0};
    while (size->items < f->items && item_waits(r, source) && size->tokens + r->waiting.count <= f->batch_tokens &&
           size->wanted + r->waiting.wanted <= f->batch_tokens) {
        const struct forward_item *item = &r->waiting;
        const int64_t at = before->wanted + size->wanted;
        memcpy(r->tokens + before->tokens + size->tokens, item->tokens, (size_t)item->count * sizeof *item->tokens);
        for (int64_t i = 0; i < item->wanted; i++) {
            r->rows[at + i] = (int32_t)(size->tokens + item->rows[i]);
            r->targets[at + i] = item->targets != NULL ? item->targets[i] : 0;
        }
        r->lengths[before->items + size->items] = (int32_t)item->count;
        r->counts[before->items + size->items++] = (int32_t)item->wanted;
        size->tokens += item->count;
        size->wanted += item->wanted;
        r->has_waiting = false;
    }
}

static void add_size(struct forward_size *sum, const struct forward_size *size)
{
    sum->items += size->items;
    sum->tokens += size->tokens;
    sum->wanted += size->wanted;
}

/* Rank 0 makes the batches of a round; all ranks receive them. *whole: the sum of their sizes. */
static void share_round(struct forward_pass *f, const struct forward_source *source, struct forward_size *whole)
{
    struct comm *world = f->inference->world;
    struct forward_rounds *r = f->round;
    *whole = (struct forward_size){0};
    for (int t = 0; t < f->inference->teams && world->rank == 0; t++) {
        fill_batch(f, source, whole, &r->sizes[t]);
        add_size(whole, &r->sizes[t]);
    }
    comm_broadcast(world, r->sizes, f->inference->teams * (int64_t)sizeof *r->sizes, 0);
    comm_broadcast(world, whole, sizeof *whole, 0);
    if (whole->items == 0)
        return;
    comm_broadcast(world, r->lengths, whole->items * (int64_t)sizeof *r->lengths, 0);
    comm_broadcast(world, r->tokens, whole->tokens * (int64_t)sizeof *r->tokens, 0);
    comm_broadcast(world, r->rows, whole->wanted * (int64_t)sizeof *r->rows, 0);
    comm_broadcast(world, r->targets, whole->wanted * (int64_t)sizeof *r->targets, 0);
}

/* Returns the place in the round's arrays at which the batch of a team begins. */
static struct forward_size begin_of(const struct forward_pass *f, int team)
{
    struct forward_size begin = {0};
    for (int t = 0; t < team; t++)
        add_size(&begin, &f->round->sizes[t]);
    return begin;
}

/* Makes this team's batch, with padding to the fixed number of tokens. */
static void fill_own(struct forward_pass *f, const struct forward_size *begin, const struct forward_size *size)
{
    const struct inference *inference = f->inference;
    struct forward_rounds *r = f->round;
    const int32_t *tokens = r->tokens + begin->tokens;
    batch_restart(&r->batch);
    for (int64_t i = 0; i < size->items; i++) {
        const int64_t count = r->lengths[begin->items + i], first = batch_append(&r->batch, tokens, count);
        if (inference->setup.model.token_dropout)
            masking_scale(inference->tokenizer, tokens, count, r->batch.scale + first);
        tokens += count;
    }
    if (size->items == 0) /* the pass is collective over teams */
        batch_append(&r->batch, &(int32_t){tokenizer_padding(inference->tokenizer)}, 1);
    batch_pad(&r->batch, tokenizer_padding(inference->tokenizer), f->batch_tokens);
}

double forward_log_sum(const float *logits, int64_t vocabulary)
{
    double most = logits[0], sum = 0;
    for (int64_t v = 1; v < vocabulary; v++)
        most = MAX(most, (double)logits[v]);
    for (int64_t v = 0; v < vocabulary; v++)
        sum += exp(logits[v] - most);
    return most + log(sum);
}

/* Computes this team's batch; its results are in logits or chosen. */
static int compute(struct forward_pass *f, enum forward_result result)
{
    const struct inference *inference = f->inference;
    struct forward_rounds *r = f->round;
    const int64_t vocabulary = inference->setup.model.vocabulary;
    const struct forward_size begin = begin_of(f, inference->team), *size = &r->sizes[inference->team];
    if (size->items == 0 && !inference->shares)
        return ERROR_NONE;
    fill_own(f, &begin, size);
    engine_logits(&f->inference->engine, &r->batch, r->rows + begin.wanted, size->wanted, r->logits);
    if (!inference->has_results)
        return ERROR_NONE;
    for (int64_t i = 0; i < size->wanted * vocabulary; i++)
        if (!isfinite(r->logits[i]))
            return inference_diverged(inference->path);
    if (result == FORWARD_LOGITS)
        return ERROR_NONE;
#pragma omp parallel for num_threads(inference->threads) if (size->wanted * vocabulary > 1 << 14)
    for (int64_t i = 0; i < size->wanted; i++) {
        const float *row = r->logits + i * vocabulary;
        r->chosen[i] = row[r->targets[begin.wanted + i]] - forward_log_sum(row, vocabulary);
    }
    return ERROR_NONE;
}

/* Rank 0 gets the results of all teams and hands them to the source, in the order of the items. */
static void return_results(struct forward_pass *f, enum forward_result result, const struct forward_source *source)
{
    struct comm *world = f->inference->world;
    struct forward_rounds *r = f->round;
    const int64_t row_bytes = result == FORWARD_LOGITS
                                  ? f->inference->setup.model.vocabulary * (int64_t)sizeof *r->logits
                                  : (int64_t)sizeof *r->chosen;
    int64_t most = 0;
    for (int t = 0; t < f->inference->teams; t++)
        most = MAX(most, r->sizes[t].wanted);
    if (world->rank == 0 && world->size * most * row_bytes > r->results_bytes) {
        r->results_bytes = world->size * most * row_bytes;
        r->results = memory_extend(r->results, 0, r->results_bytes);
    }
    comm_gather(world, result == FORWARD_LOGITS ? (void *)r->logits : (void *)r->chosen, r->results, most * row_bytes);
    const int32_t *counts = r->counts; /* of rank 0, which made them */
    for (int t = 0; t < f->inference->teams && world->rank == 0; t++) {
        const char *values = r->results + t * (world->size / f->inference->teams) * most * row_bytes; /* first rank's */
        for (int64_t i = 0; i < r->sizes[t].items; i++) {
            source->take(source->self, values, *counts);
            values += *counts++ * row_bytes;
        }
    }
}

/* Computes one batch per team; *items is their number of items, 0 after the last item. */
static int run_round(struct forward_pass *f, enum forward_result result, const struct forward_source *source,
                     int64_t *items)
{
    struct forward_size whole;
    share_round(f, source, &whole);
    *items = whole.items;
    if (whole.items == 0)
        return ERROR_NONE;
    int code = comm_agree(f->inference->world, compute(f, result));
    if (code != ERROR_NONE)
        return code;
    return_results(f, result, source);
    f->computed += whole.tokens;
    f->sequences += whole.items;
    return ERROR_NONE;
}

int forward_run(struct forward_pass *f, enum forward_result result, const struct forward_source *source)
{
    struct progress_line progress;
    int64_t items = 1;
    int code = ERROR_NONE;
    f->round->has_waiting = f->round->ended = false;
    progress_start(&progress, "scoring", "sequences", (double)source->items);
    while (code == ERROR_NONE && items > 0) {
        code = run_round(f, result, source, &items);
        progress_add(&progress, (double)items);
    }
    progress_end(&progress);
    return code;
}
