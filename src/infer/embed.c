#include "infer/embed.h"
#include "base/available.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/clones.h"
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
#include "infer/contacts.h"
#include "infer/inference.h"
#include "infer/output.h"
#include "infer/sequences.h"
#include "infer/embed_choices.h"
#include "estimate/fit.h"
#include "records/record_reader.h"
#include "tokenizer/strand.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Tokens of a batch of short records: what a GPU computes well, and what a CPU does in a moment. */
enum { DEVICE_TOKENS = 4096, HOST_TOKENS = 512 };
enum { TOKENS_PER_RECORD = 8, MOST_TOKENS = 1 << 28, SENT_BYTES = 4 << 20 };

/* One batch for each team. Rank 0 reads the file and sends the round to all ranks; the tokens of all batches are
 * contiguous. */
struct embed_round {
    int64_t *counts;  /* [teams]: records of each batch */
    int64_t *lengths; /* [teams * most_records] tokens of each record; batch t begins at t * most_records */
    int32_t *tokens;  /* [teams * batch_tokens] */
    char **names;     /* [teams * most_records] as lengths; rank 0 */
};

struct embed_command {
    const struct embed_settings *settings;
    struct inference *inference;
    struct comm *world;
    struct embed_choices choices;
    int64_t width;                      /* numbers of a token's vectors: hidden for each layer */
    int64_t strands;                    /* 1 or 2: sequences that are computed of a record */
    int64_t begin, end;                 /* special tokens before and after a record */
    int64_t longest;                    /* tokens of the longest record */
    int64_t short_tokens;               /* tokens of a batch of short records */
    int64_t batch_tokens, most_records; /* maxima of a batch */
    struct record_sequences sequences;  /* rank 0 */
    struct atomic_file output, table;   /* rank 0; the table is open beside an .npy file only */
    char *table_path;                   /* rank 0 */
    struct embeddings *file;            /* rank 0 */
    struct spool_record waiting;        /* rank 0: the next record, not yet in a batch */
    int more;                           /* waiting is valid */
    struct embed_round round;
    struct batch batch;       /* this team's batch */
    int32_t *tokens;          /* [batch_tokens] tokens of one record */
    float *vectors;           /* [batch_tokens][width] for this team's batch */
    float *sent;              /* [SENT_BYTES] piece of a rank's vectors */
    struct contact_maps maps; /* with settings->contacts */
};

/* Returns whether a record has one row. */
static bool embed_pools(const struct embed_command *e)
{
    return e->choices.pool != EMBEDDINGS_NONE;
}

/* -- Before computing --------------------------------------------------------------------------------------------- */

static int check_settings(struct embed_command *e)
{
    const struct embed_settings *s = e->settings;
    const int64_t most = s->max_length;
    if (s->both_strands && !e->inference->tokenizer->bases)
        return inference_refuse_strands(e->inference);
    int code = embed_choices_read(&e->choices, s->pool, s->dtype, s->layers, e->inference->setup.model.layers);
    if (code != ERROR_NONE)
        return code;
    if (s->contacts && s->tensor > 1)
        return error_user("--contacts: does not work with --tensor, which splits the heads over ranks");
    if (s->contacts && s->context_parallel > 1)
        return error_user("--contacts: does not work with --context-parallel, which splits the tokens over ranks");
    e->width = e->choices.layer_count * e->inference->setup.model.hidden;
    if (most != 0 && (most <= e->begin + e->end || most > MOST_TOKENS))
        return error_user("--max-length %lld: must be %lld, the special tokens and one more, to %d, or 0 for no limit",
                          (long long)most, (long long)(e->begin + e->end + 1), MOST_TOKENS);
    return ERROR_NONE;
}

/* Checks and opens an output. Rank 0. */
static int open_output(const struct embed_command *e, struct atomic_file *output, const char *path)
{
    int code = output_check(path, e->settings->replace ? DISK_REPLACE : 0, e->settings->input, e->inference->path);
    return code == ERROR_NONE ? output_open(output, path) : code;
}

static int open_outputs(struct embed_command *e)
{
    const char *path = e->settings->output, *ending = strrchr(path, '.');
    int code = open_output(e, &e->output, path);
    if (code != ERROR_NONE || ending == NULL || strcmp(ending, ".npy") != 0)
        return code;
    e->table_path = memory_format("%.*s.tsv", (int)(ending - path), path);
    if (e->settings->contacts)
        return error_user("%s: --contacts needs an HDF5 output, OUT.h5", path);
    return open_output(e, &e->table, e->table_path);
}

/* Rank 0. */
static int read_input(struct embed_command *e)
{
    const struct embed_settings *s = e->settings;
    const struct sequences_settings settings = {.path = s->input,
                                                .input_format = s->input_format,
                                                .field = s->field,
                                                .skip_bad = s->skip_bad,
                                                .output = s->output,
                                                .tokenizer = e->inference->tokenizer,
                                                .begin = e->begin > 0,
                                                .end = e->end > 0,
                                                .letter_case = s->letter_case,
                                                .most = s->max_length};
    int code = open_outputs(e);
    if (code == ERROR_NONE)
        code = sequences_read(&e->sequences, &settings);
    if (code == ERROR_NONE && e->sequences.longest > MOST_TOKENS)
        code = error_user("%s: record %s has %lld tokens, more than the %d that a model can process at once; "
                          "--max-length truncates records",
                          s->input, text_short((char[TEXT_SHORT]){0}, e->sequences.longest_name),
                          (long long)e->sequences.longest, MOST_TOKENS);
    if (code == ERROR_NONE)
        code = inference_check_record(e->inference, e->sequences.longest_name, e->sequences.longest);
    return code;
}

static int check_available(const struct embed_command *e, int64_t need, int64_t available, const char *where)
{
    char needs[BYTES_TEXT], has[BYTES_TEXT];
    if (need <= available)
        return ERROR_NONE;
    return error_user("%s: its longest record, of %lld tokens, needs %s on each rank, but %s has %s free for each; "
                      "--max-length truncates records",
                      e->settings->input, (long long)e->longest, bytes_text(needs, (double)need), where,
                      bytes_text(has, (double)available));
}

/* Checks the memory before any rank of the node allocates. The engine is in the device's own memory, if there is one;
 * the vectors are in host memory. */
static int check_memory(const struct embed_command *e)
{
    struct executor *executor = e->inference->executor;
    const bool apart = executor->device != NULL;
    struct comm *node = comm_split_node(e->world);
    int64_t machine = available_memory("") / node->size, free_for_engine = fit_free(executor, node->size);
    comm_destroy(node);
    const int64_t gathered =
        e->settings->context_parallel > 1 ? 2 * e->inference->setup.model.hidden : 0; /* a layer's */
    int64_t vectors = e->batch_tokens * (e->width + gathered) * (int64_t)sizeof(float);
    if (e->settings->contacts)
        vectors += contacts_bytes(e->inference, e->batch_tokens, e->longest);
    int64_t engine = inference_need(e->inference);
    int code = apart ? check_available(e, engine, free_for_engine, "the GPU") : ERROR_NONE;
    if (code == ERROR_NONE && machine > 0) /* 0: the free memory is unknown */
        code = check_available(e, apart ? vectors : engine + vectors, machine, "this machine");
    return code;
}

static int create_file(struct embed_command *e)
{
    const struct inference *inference = e->inference;
    const struct record_sequences *s = &e->sequences;
    const int64_t records = spool_records(s->spool);
    const struct embeddings_settings settings = {.path = e->output.target.temporary,
                                                 .table = e->table.file,
                                                 .checkpoint = inference->path,
                                                 .family = inference->setup.model.family->name,
                                                 .tokenizer = inference->tokenizer->name,
                                                 .step = inference->step,
                                                 .pool = e->choices.pool,
                                                 .dtype = e->choices.dtype,
                                                 .normalized = e->settings->normalize,
                                                 .both_strands = e->settings->both_strands,
                                                 .hidden = inference->setup.model.hidden,
                                                 .layers = e->choices.listed ? e->choices.layers : NULL,
                                                 .layer_count = e->choices.layer_count,
                                                 .records = records,
                                                 .name_bytes = s->name_bytes > 0 ? s->name_bytes : 1,
                                                 .rows = embed_pools(e) ? records : s->tokens,
                                                 .contacts = e->settings->contacts ? s->pairs : 0,
                                                 .begin_tokens = e->begin,
                                                 .end_tokens = e->end,
                                                 .max_length = e->settings->max_length,
                                                 .truncated = s->truncated};
    int code = embeddings_create(&e->file, &settings);
    return code == ERROR_NONE ? spool_next(s->spool, &e->waiting, &e->more) : code;
}

static int close_file(struct embed_command *e)
{
    int code = embeddings_close(e->file, ERROR_NONE);
    e->file = NULL;
    return output_close(&e->table, output_close(&e->output, code));
}

/* -- A round ------------------------------------------------------------------------------------------------------ */

/* Returns the tokens of a batch for records of this length. */
static int64_t embed_batch_size(const struct embed_command *e, int64_t length)
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

static const int64_t *embed_lengths(const struct embed_command *e, int rank)
{
    return e->round.lengths + rank * e->most_records;
}

static int64_t embed_tokens(const struct embed_command *e, int rank)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < e->round.counts[rank]; i++)
        sum += embed_lengths(e, rank)[i];
    return sum;
}

/* Returns the number of rows of /vectors that a batch makes. */
static int64_t embed_rows(const struct embed_command *e, int rank)
{
    return embed_pools(e) ? e->round.counts[rank] : embed_tokens(e, rank);
}

/* Columns of the states that are pooled at once, and the least number for a thread: a cache line. */
enum { POOLED_COLUMNS = 256, LEAST_COLUMNS = 16, FEW_NUMBERS = 1 << 13 };

/* Writes the mean of one token of each strand, or of all its residues, of `columns` columns of the states. row may
 * overlap the states: it begins at or before them. */
CPU_CLONES static void pool_record(const struct embed_command *e, const float *states, int64_t tokens, float *row,
                                   int64_t columns)
{
    double sum[POOLED_COLUMNS] = {0};
    const bool mean = e->choices.pool == EMBEDDINGS_MEAN;
    const int64_t first = mean ? e->begin : e->choices.pool == EMBEDDINGS_LAST ? tokens - 1 : 0;
    const int64_t count = mean ? tokens - e->begin - e->end : 1;
    for (int64_t s = 0; s < e->strands; s++)
        for (int64_t t = s * tokens + first; t < s * tokens + first + count; t++)
            for (int64_t i = 0; i < columns; i++)
                sum[i] += states[t * e->width + i];
    for (int64_t i = 0; i < columns; i++)
        row[i] = count > 0 ? (float)(sum[i] / (double)(e->strands * count)) : NAN;
}

/* Pool "none" of both strands: writes the mean of each token's state and that of its complement in the other strand to
 * rows [tokens], which begin at or before the states. */
CPU_CLONES static void join_strands(const struct embed_command *e, const float *states, int64_t tokens, float *rows,
                                    int64_t columns)
{
    const int64_t width = e->width, last = tokens - 1 - e->end;
    for (int64_t t = 0; t < tokens; t++) {
        const bool special = t < e->begin || t > last;
        const float *other = states + (tokens + (special ? t : e->begin + last - t)) * width;
        for (int64_t i = 0; i < columns; i++)
            rows[t * width + i] = (states[t * width + i] + other[i]) / 2;
    }
}

/* Pools all records of this team's batch in the columns first .. first + columns - 1, which do not depend on others. */
static void pool_columns(const struct embed_command *e, int64_t first, int64_t columns)
{
    const int own = e->inference->team;
    const float *states = e->vectors + first;
    float *row = e->vectors + first;
    for (int64_t i = 0; i < e->round.counts[own]; i++) {
        const int64_t length = embed_lengths(e, own)[i];
        if (embed_pools(e))
            pool_record(e, states, length, row, columns);
        else
            join_strands(e, states, length, row, columns);
        states += e->strands * length * e->width;
        row += (embed_pools(e) ? 1 : length) * e->width;
    }
}

/* Returns the threads for this team's batch. */
static int threads_for(const struct embed_command *e, int64_t tokens)
{
    return tokens * e->width > FEW_NUMBERS ? e->inference->threads : 1;
}

/* Each thread pools some columns of all records, so the order of a column's sum does not depend on their number. */
static void embed_pool_batch(const struct embed_command *e, int64_t tokens)
{
    const int64_t lines = (e->width + LEAST_COLUMNS - 1) / LEAST_COLUMNS, parts = MIN(threads_for(e, tokens), lines);
#pragma omp parallel for num_threads((int)parts) schedule(static)
    for (int64_t part = 0; part < parts; part++) {
        const int64_t end = MIN((part + 1) * lines / parts * LEAST_COLUMNS, e->width);
        for (int64_t first = part * lines / parts * LEAST_COLUMNS; first < end; first += POOLED_COLUMNS)
            pool_columns(e, first, MIN(POOLED_COLUMNS, end - first));
    }
}

CPU_CLONES static bool all_finite(const float *values, int64_t count)
{
    int finite = 1;
    for (int64_t i = 0; i < count; i++)
        finite &= fabsf(values[i]) <= FLT_MAX;
    return finite != 0;
}

static bool embed_is_finite(const struct embed_command *e, int64_t tokens)
{
    int finite = 1;
#pragma omp parallel for num_threads(threads_for(e, tokens)) schedule(static) reduction(& : finite)
    for (int64_t t = 0; t < tokens; t++)
        finite &= all_finite(e->vectors + t * e->width, e->width);
    return finite != 0;
}

/* Divides each layer's part of a row by its L2 norm. */
static void normalize_row(const struct embed_command *e, float *row)
{
    const int64_t hidden = e->inference->setup.model.hidden;
    for (float *part = row; part < row + e->width; part += hidden) {
        double squares = 0;
        for (int64_t i = 0; i < hidden; i++)
            squares += (double)part[i] * part[i];
        for (int64_t i = 0; i < hidden && squares > 0; i++)
            part[i] = (float)(part[i] / sqrt(squares));
    }
}

static void embed_normalize_rows(const struct embed_command *e, int64_t rows)
{
#pragma omp parallel for num_threads(threads_for(e, rows)) schedule(static)
    for (int64_t r = 0; r < rows; r++)
        normalize_row(e, e->vectors + r * e->width);
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

static int embed_rounds(struct embed_command *e)
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

/* -- The whole command -------------------------------------------------------------------------------------------- */

static void allocate(struct embed_command *e)
{
    const int64_t teams = e->inference->teams, row_bytes = e->width * (int64_t)sizeof *e->vectors;
    batch_create(&e->batch, 1, e->batch_tokens, e->strands * e->most_records);
    e->round.counts = memory_allocate((int64_t)sizeof *e->round.counts * teams);
    e->round.lengths = memory_allocate((int64_t)sizeof *e->round.lengths * teams * e->most_records);
    e->round.names = memory_allocate((int64_t)sizeof *e->round.names * teams * e->most_records);
    e->round.tokens = memory_allocate((int64_t)sizeof *e->round.tokens * teams * e->batch_tokens);
    e->tokens = memory_allocate((int64_t)sizeof *e->tokens * e->batch_tokens);
    e->vectors = e->inference->has_results ? memory_allocate(row_bytes * e->batch_tokens) : NULL;
    e->sent = memory_allocate(MAX(row_bytes, SENT_BYTES));
}

static void release(struct embed_command *e)
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
    contacts_destroy(&e->maps);
    free(e->table_path);
    embed_choices_destroy(&e->choices);
    sequences_destroy(&e->sequences);
}

static void report_input(const struct embed_command *e)
{
    const struct record_sequences *s = &e->sequences;
    const char *unit = tokenizer_token_noun(e->inference->tokenizer);
    census_report(&s->census, s->stops);
    record_reader_report(s->skipped, e->settings->field);
    if (s->empty > 0)
        log_warn("%lld record%s without %s; the vectors of their special tokens alone are stored%s",
                 (long long)s->empty, plural(s->empty), unit,
                 e->choices.pool == EMBEDDINGS_MEAN ? ", and NaN as their mean" : "");
    if (s->longest > e->inference->context)
        log_warn("record %s has %lld tokens, more than the context of %lld that the model was trained with; its "
                 "vectors may make little sense",
                 text_short((char[TEXT_SHORT]){0}, s->longest_name), (long long)s->longest,
                 (long long)e->inference->context);
}

static void report(const struct embed_command *e, double seconds)
{
    const struct record_sequences *s = &e->sequences;
    const int64_t records = spool_records(s->spool);
    if (s->truncated > 0)
        log_info("%lld of %lld records are longer than --max-length %lld and were truncated", (long long)s->truncated,
                 (long long)records, (long long)e->settings->max_length);
    char layers[32] = "";
    if (e->choices.listed)
        snprintf(layers, sizeof layers, " of %lld layer%s", (long long)e->choices.layer_count,
                 plural(e->choices.layer_count));
    log_info("%s: %lld record%s, %lld %s: vectors of %lld numbers%s, pool %s (%.1f s, %.0f tokens/s)",
             e->settings->output, (long long)records, plural(records),
             (long long)(s->tokens - records * (e->begin + e->end)), tokenizer_token_noun(e->inference->tokenizer),
             (long long)e->inference->setup.model.hidden, layers, embeddings_pool_names[e->choices.pool], seconds,
             (double)s->tokens / seconds);
    if (e->table_path != NULL)
        log_info("%s: names, lengths and rows of the records", e->table_path);
}

static void choose_batch(struct embed_command *e)
{
    e->longest = e->sequences.longest;
    comm_broadcast(e->world, &e->longest, sizeof e->longest, 0);
    e->short_tokens = e->inference->executor->device != NULL ? DEVICE_TOKENS : HOST_TOKENS;
    e->batch_tokens = embed_batch_size(e, e->longest);
    e->most_records = 1 + e->short_tokens / TOKENS_PER_RECORD;
}

static int prepare(struct embed_command *e)
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
                                                                     .segments = e->strands * e->most_records,
                                                                     .shard = e->settings->shard,
                                                                     .tensor = e->settings->tensor,
                                                                     .context = e->settings->context_parallel});
    if (code == ERROR_NONE)
        code = comm_agree(e->world, check_memory(e));
    if (code == ERROR_NONE && e->settings->contacts)
        code = contacts_create(&e->maps, e->inference, e->batch_tokens, e->longest);
    if (code == ERROR_NONE)
        code = inference_start(e->inference);
    if (code == ERROR_NONE)
        code = comm_agree(e->world, reads ? create_file(e) : ERROR_NONE);
    return code;
}

static int embed(struct embed_command *e)
{
    const struct tokenizer *tokenizer = e->inference->tokenizer;
    e->strands = e->settings->both_strands ? 2 : 1;
    e->begin = tokenizer_is_text(tokenizer) ? inference_begins(e->inference) : 1;
    e->end = !model_causal(&e->inference->setup.model) && tokenizer->eos >= 0;
    int code = prepare(e);
    if (code == ERROR_NONE) {
        double start = clock_seconds();
        allocate(e);
        code = embed_rounds(e);
        if (code == ERROR_NONE)
            code = comm_agree(e->world, close_file(e));
        if (code == ERROR_NONE && e->world->rank == 0)
            report(e, clock_seconds() - start);
    }
    embeddings_close(e->file, code); /* still open only after a failure */
    output_close(&e->output, code);
    output_close(&e->table, code);
    release(e);
    return code;
}

int embed_run(struct comm *world, const struct embed_settings *settings, device_make *make_executor)
{
    struct inference *inference = memory_allocate(sizeof *inference);
    struct embed_command *e = memory_allocate(sizeof *e);
    *e = (struct embed_command){.settings = settings, .inference = inference, .world = world};
    int code = inference_open(inference, world, settings->checkpoint, make_executor);
    if (code == ERROR_NONE)
        code = embed(e);
    inference_close(inference);
    memory_free(e);
    memory_free(inference);
    return code;
}
