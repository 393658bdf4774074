/* A round of `cistron embed`: rank 0 reads a batch for each team, each team computes its own, and rank 0 writes all. */
#include "base/error.h"
#include "base/memory.h"
#include "base/progress.h"
#include "base/range.h"
#include "infer/embed_private.h"
#include "loader/masking.h"
#include "tokenizer/strand.h"

#include <stdlib.h>
#include <string.h>

bool embed_pools(const struct embed_command *e)
{
    return e->choices.pool != EMBEDDINGS_NONE;
}

int64_t embed_batch_size(const struct embed_command *e, int64_t length)
{
    int64_t size = e->short_tokens;
    while (size < e->strands * length)
        size *= 2;
    return size;
}

/* Appends whole records to a batch until the next one does not fit, or belongs in a batch of another size. */
static int fill_batch(struct embed_command *e, int rank, int32_t *tokens, int64_t *used)
{
    const int64_t size = e->more ? embed_batch_size(e, e->waiting.length) : 0;
    int64_t count = 0, left = size;
    int code = ERROR_NONE;
    while (code == ERROR_NONE && e->more && e->strands * e->waiting.length <= left && count < e->most_records &&
           embed_batch_size(e, e->waiting.length) == size) {
        int64_t at = rank * e->most_records + count++;
        e->round.lengths[at] = e->waiting.length;
        e->round.names[at] = memory_string(e->waiting.name);
        code = spool_read(e->sequences.spool, tokens + *used, e->waiting.length);
        *used += e->waiting.length;
        left -= e->strands * e->waiting.length;
        if (code == ERROR_NONE)
            code = spool_next(e->sequences.spool, &e->waiting, &e->more);
    }
    e->round.counts[rank] = count;
    return code;
}

static int share_round(struct embed_command *e)
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
    comm_broadcast(e->world, round->tokens, used * (int64_t)sizeof *round->tokens, 0);
    return ERROR_NONE;
}

const int64_t *embed_lengths(const struct embed_command *e, int rank)
{
    return e->round.lengths + rank * e->most_records;
}

int64_t embed_tokens(const struct embed_command *e, int rank)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < e->round.counts[rank]; i++)
        sum += embed_lengths(e, rank)[i];
    return sum;
}

int64_t embed_rows(const struct embed_command *e, int rank)
{
    return embed_pools(e) ? e->round.counts[rank] : embed_tokens(e, rank);
}

/* Makes this team's batch, with padding to its size. */
static void fill_own(struct embed_command *e)
{
    const int own = e->inference->team;
    const int32_t pad = tokenizer_padding(e->inference->tokenizer);
    const int64_t size = e->round.counts[own] > 0 ? embed_batch_size(e, embed_lengths(e, own)[0]) : 1;
    const int32_t *from = e->round.tokens;
    for (int r = 0; r < own; r++)
        from += embed_tokens(e, r);
    batch_restart(&e->batch);
    for (int64_t i = 0; i < e->round.counts[own]; i++) {
        const int64_t length = embed_lengths(e, own)[i];
        for (int64_t t = 0; t < length; t++)
            e->tokens[t] = from[t];
        for (int64_t strand = 0; strand < e->strands; strand++) {
            if (strand == 1)
                strand_reverse(e->tokens + e->begin, length - e->begin - e->end);
            const int64_t first = batch_append(&e->batch, e->tokens, length);
            if (e->inference->setup.model.token_dropout)
                masking_scale(e->inference->tokenizer, e->tokens, length, e->batch.scale + first);
        }
        from += length;
    }
    if (e->round.counts[own] == 0)
        batch_append(&e->batch, &pad, 1); /* the forward pass is collective */
    batch_pad(&e->batch, pad, size);
}

static int compute(struct embed_command *e)
{
    const int own = e->inference->team;
    if (e->round.counts[own] == 0 && !e->inference->shares)
        return ERROR_NONE;
    fill_own(e);
    struct engine_states wanted = {
        .layers = e->choices.layers, .count = e->choices.layer_count, .vectors = e->vectors, .self = &e->maps};
    if (e->settings->contacts) {
        contacts_begin(&e->maps, embed_lengths(e, own), e->round.counts[own]);
        wanted.attended = contacts_add_layer;
    }
    engine_embed(&e->inference->engine, &e->batch, &wanted);
    if (!e->inference->has_results)
        return ERROR_NONE;
    const int64_t tokens = e->strands * embed_tokens(e, own), rows = embed_rows(e, own);
    if (!embed_is_finite(e, tokens))
        return inference_diverged(e->inference->path);
    if (embed_pools(e) || e->strands == 2)
        embed_pool_batch(e, tokens);
    if (e->settings->normalize)
        embed_normalize_rows(e, rows);
    return ERROR_NONE;
}

/* Rank 0. */
static int write_records(struct embed_command *e, int rank)
{
    const int64_t count = e->round.counts[rank];
    char **names = e->round.names + rank * e->most_records;
    int64_t *residues = memory_allocate((int64_t)sizeof *residues * count);
    for (int64_t i = 0; i < count; i++)
        residues[i] = embed_lengths(e, rank)[i] - e->begin - e->end;
    int code = embeddings_put_records(e->file, names, residues, count);
    memory_free(residues);
    for (int64_t i = 0; i < count; i++) {
        free(names[i]);
        names[i] = NULL;
    }
    return code;
}

/* Rank 0 receives and writes the contacts of a batch, which first_rank has. */
static int write_contacts(struct embed_command *e, int team, int first_rank, int code)
{
    const int64_t at_once = SENT_BYTES / (int64_t)sizeof *e->sent;
    int64_t contacts = 0;
    for (int64_t i = 0; i < e->round.counts[team]; i++)
        contacts += contacts_of(embed_lengths(e, team)[i]);
    for (int64_t first = 0; first < contacts; first += at_once) {
        const int64_t count = MIN(contacts - first, at_once);
        if (e->world->rank == first_rank)
            contacts_copy(&e->maps, first, count, e->sent);
        comm_broadcast(e->world, e->sent, count * (int64_t)sizeof *e->sent, first_rank);
        if (e->world->rank == 0 && code == ERROR_NONE)
            code = embeddings_put_contacts(e->file, e->sent, count);
    }
    return code;
}

/* Rank 0 receives and writes the vectors batch by batch. */
static int write_round(struct embed_command *e)
{
    const int64_t row_bytes = e->width * (int64_t)sizeof *e->vectors;
    const int64_t rows_at_once = MAX(SENT_BYTES / row_bytes, 1);
    int code = ERROR_NONE;
    for (int r = 0; r < e->inference->teams; r++) {
        const int first_rank = r * (e->world->size / e->inference->teams);
        const int64_t rows = embed_rows(e, r);
        for (int64_t first = 0; first < rows; first += rows_at_once) {
            int64_t count = MIN(rows - first, rows_at_once);
            if (e->world->rank == first_rank)
                memcpy(e->sent, e->vectors + first * e->width, (size_t)(count * row_bytes));
            comm_broadcast(e->world, e->sent, count * row_bytes, first_rank);
            if (e->world->rank == 0 && code == ERROR_NONE)
                code = embeddings_put_vectors(e->file, e->sent, count);
        }
        if (e->settings->contacts)
            code = write_contacts(e, r, first_rank, code);
        if (e->world->rank == 0 && code == ERROR_NONE)
            code = write_records(e, r);
    }
    return code;
}

static int run_round(struct embed_command *e, bool *more)
{
    int code = share_round(e);
    *more = code == ERROR_NONE && e->round.counts[0] > 0;
    if (!*more)
        return code;
    code = comm_agree(e->world, compute(e));
    return code == ERROR_NONE ? comm_agree(e->world, write_round(e)) : code;
}

int embed_rounds(struct embed_command *e)
{
    struct progress_line progress;
    int code = ERROR_NONE;
    progress_start(&progress, "embedding", "tokens", (double)e->sequences.tokens);
    for (bool more = true; more && code == ERROR_NONE;) {
        code = run_round(e, &more);
        for (int r = 0; r < e->inference->teams && more; r++)
            progress_add(&progress, (double)embed_tokens(e, r));
    }
    progress_end(&progress);
    return code;
}
