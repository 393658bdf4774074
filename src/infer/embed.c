/* The command `cistron embed`: checks, files, memory and reports. */
#include "base/available.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "file/disk.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/range.h"
#include "base/text.h"
#include "base/thousands.h"
#include "infer/embed_private.h"
#include "infer/output.h"
#include "estimate/fit.h"
#include "records/record_reader.h"

#include <stdlib.h>
#include <string.h>

/* Tokens of a batch of short records: what a GPU computes well, and what a CPU does in a moment. */
enum { DEVICE_TOKENS = 4096, HOST_TOKENS = 512 };
enum { TOKENS_PER_RECORD = 8, MOST_TOKENS = 1 << 28 };

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
