#include "infer/variant_run.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/quantile.h"
#include "base/range.h"
#include "base/ranking.h"
#include "base/thousands.h"
#include "estimate/fit.h"
#include "file/disk.h"
#include "file/temporary.h"
#include "infer/output.h"
#include "infer/score_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CPU_TOKENS = 4096, GPU_TOKENS = 32768, TOKENS_PER_ITEM = 8, MOST_TOKENS = 1 << 28, ALIGNMENT = 64 };

struct variant_run {
    const struct variant_settings *settings;
    struct inference *inference;
    struct comm *world;
    struct variant_scoring scoring;
    struct reference_list references; /* rank 0, as all below */
    struct variant_list variants;
    bool has_variants;
    double *scores[SCORE_METHODS];
    struct site_logits sites;
    struct atomic_file output, positions;
    bool catches; /* signals remove the outputs */
};

/* -- Settings -------------------------------------------------------------------------------------------------------
 */

static int method_named(const char *name, int length)
{
    for (int m = 0; m < SCORE_METHODS; m++)
        if ((int)strlen(score_method_names[m]) == length && strncmp(name, score_method_names[m], (size_t)length) == 0)
            return m;
    return -1;
}

static int refuse_method(const char *name, int length, bool masked)
{
    char *names = memory_string("");
    for (int m = 0; m < SCORE_METHODS; m++)
        if (score_method_masked((enum score_method)m) == masked) {
            char *longer = memory_format("%s%s%s", names, *names != '\0' ? ", " : "", score_method_names[m]);
            free(names);
            names = longer;
        }
    const char *why = method_named(name, length) >= 0 ? "needs another kind of model" : "unknown";
    const int code = error_user("--method %.*s: %s; %s models have: %s", MIN(length, 40), name, why,
                                masked ? "masked" : "causal", names);
    free(names);
    return code;
}

static int choose_methods(struct variant_scoring *scoring, const char *names, bool masked)
{
    if (names == NULL)
        names = score_method_names[masked ? SCORE_MASKED_MARGINALS : SCORE_LOG_LIKELIHOOD_RATIO];
    for (const char *at = names;; at++) {
        const int length = (int)strcspn(at, ","), method = method_named(at, length);
        if (method < 0 || score_method_masked((enum score_method)method) != masked)
            return refuse_method(at, length, masked);
        for (int i = 0; i < scoring->count; i++)
            if ((int)scoring->methods[i] == method)
                return error_user("--method %s: names %s twice", names, score_method_names[method]);
        scoring->methods[scoring->count++] = (enum score_method)method;
        at += length;
        if (*at == '\0')
            return ERROR_NONE;
    }
}

static int check_settings(struct variant_run *r)
{
    const struct variant_settings *s = r->settings;
    struct inference *inference = r->inference;
    const struct tokenizer *tokenizer = inference->tokenizer;
    const bool masked = !model_causal(&inference->setup.model);
    struct site_tokens *how = &r->scoring.tokens;
    if (tokenizer_is_text(tokenizer))
        return error_user("%s: is a model of text (%s), and variants are changes of bases or residues; --input FILE "
                          "scores whole records",
                          inference->path, tokenizer->name);
    int code = choose_methods(&r->scoring, s->methods, masked);
    if (code == ERROR_NONE)
        code = inference_choose_precision(inference, s->precision);
    if (code != ERROR_NONE)
        return code;
    *how = (struct site_tokens){.references = &r->references,
                                .tokenizer = tokenizer,
                                .context = s->context != 0 ? s->context : inference->context,
                                .begins = masked || inference_begins(inference),
                                .ends = masked};
    r->scoring.both_strands = s->both_strands;
    r->scoring.positions = s->positions != NULL;
    if (s->both_strands && (masked || !tokenizer->bases))
        return error_user("--both-strands: applies to causal models of bases only");
    if (s->context != 0)
        code = inference_check_context(inference, s->context, 4);
    if (code != ERROR_NONE)
        return code;
    if (s->batch < 0 || s->batch > MOST_TOKENS)
        return error_user("--batch %lld: must be 1 to %d tokens", (long long)s->batch, MOST_TOKENS);
    return ERROR_NONE;
}

/* -- Before computing -----------------------------------------------------------------------------------------------
 */

static int check_output(const struct variant_run *r, const char *path)
{
    const struct variant_settings *s = r->settings;
    const int how = (s->replace ? DISK_REPLACE : 0) | (score_file_is_hdf5(path) ? 0 : DISK_STREAM);
    int code = output_check(path, how, s->fasta, r->inference->path);
    if (code == ERROR_NONE && s->mutations != NULL)
        code = output_check(path, how, s->mutations, r->inference->path);
    return code;
}

static int check_columns(const struct variant_run *r)
{
    const struct variant_list *v = &r->variants;
    for (int m = 0; m < r->scoring.count; m++) {
        const char *name = r->scoring.count == 1 ? "score" : score_method_names[r->scoring.methods[m]];
        if (variants_has_column(v, name))
            return error_user("%s:1: has a column \"%s\" already, the name of a column of the result", v->path, name);
    }
    return ERROR_NONE;
}

/* Rank 0 reads everything before the model is loaded, so that mistakes are found early. */
static int read_input(struct variant_run *r)
{
    const struct variant_settings *s = r->settings;
    int code = s->output != NULL ? check_output(r, s->output) : ERROR_NONE;
    if (code == ERROR_NONE && s->positions != NULL)
        code = check_output(r, s->positions);
    if (code == ERROR_NONE)
        code = references_read(&r->references, s->fasta, r->inference->tokenizer, s->letter_case);
    if (code == ERROR_NONE && s->mutations != NULL)
        code = variants_read(&r->variants, &r->references, s->mutations, s->measured);
    if (code == ERROR_NONE && s->scan)
        code = variants_scan(&r->variants, &r->references);
    r->has_variants = s->mutations != NULL || s->scan;
    if (code == ERROR_NONE && r->has_variants)
        code = variant_score_check(&r->scoring, &r->variants);
    if (code == ERROR_NONE && r->has_variants && !score_file_is_hdf5(s->output))
        code = check_columns(r);
    if (s->output != NULL && disk_is_stream(s->output))
        log_to_errors();
    temporary_catch_signals();
    r->catches = true;
    if (code == ERROR_NONE && s->output != NULL)
        code = atomic_file_open_output(&r->output, s->output);
    if (code == ERROR_NONE && s->positions != NULL)
        code = atomic_file_open_output(&r->positions, s->positions);
    return code;
}

/* Chooses the size of a batch: at least the longest sequence, at most all sequences of a pass, and such that all
 * batches are nearly full. It depends on the input only. */
static struct inference_shape choose_shape(const struct variant_run *r)
{
    const struct site_tokens *how = &r->scoring.tokens;
    const bool gpu = r->inference->executor->device != NULL;
    const int64_t wish = r->settings->batch != 0 ? r->settings->batch : gpu ? GPU_TOKENS : CPU_TOKENS;
    const int64_t whole = r->references.longest + how->begins + how->ends;
    const bool grows = r->has_variants && r->variants.first_resized >= 0;
    const int64_t longest = grows ? how->context : MIN(whole, how->context);
    const int64_t items = MAX(variant_score_items(&r->scoring, r->has_variants ? &r->variants : NULL), 1);
    const int64_t most = MAX(wish / longest, 1), batches = (items + most - 1) / most;
    const int64_t each = (items + batches - 1) / batches * longest;
    const int64_t tokens = (each + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return (struct inference_shape){.use = MEMORY_LOGITS,
                                    .tokens = tokens,
                                    .segments = 1 + tokens / TOKENS_PER_ITEM,
                                    .longest = longest,
                                    .shard = r->settings->shard,
                                    .tensor = r->settings->tensor,
                                    .context = r->settings->context_parallel};
}

static int check_memory(const struct variant_run *r)
{
    char needs[BYTES_TEXT], has[BYTES_TEXT];
    struct comm *node = comm_split_node(r->world);
    const int64_t unused = fit_free(r->inference->executor, node->size), need = inference_need(r->inference);
    comm_destroy(node);
    if (unused == 0 || need <= unused) /* 0: the free memory is unknown */
        return ERROR_NONE;
    return error_user(
        "%s: batches of %lld tokens need %s on each rank, but %s is free for each; choose a smaller --batch "
        "or --context, or --shard",
        r->settings->fasta, (long long)r->inference->shape.tokens, bytes_text(needs, (double)need),
        bytes_text(has, (double)unused));
}

static void report_input(const struct variant_run *r)
{
    census_report(&r->references.census, r->references.stops);
    if (r->variants.skipped > 0)
        log_warn("%s: %lld %s without a standard letter are not changed by the scan", r->settings->fasta,
                 (long long)r->variants.skipped, tokenizer_token_noun(r->inference->tokenizer));
    const int64_t room = site_letters(&r->scoring.tokens);
    if (r->references.longest > room)
        log_info("records of more than %lld %s are scored in windows centred on the change", (long long)room,
                 tokenizer_token_noun(r->inference->tokenizer));
}

static int prepare(struct variant_run *r)
{
    const bool reads = r->world->rank == 0;
    struct inference_shape shape = {0};
    int code = comm_agree(r->world, check_settings(r));
    if (code == ERROR_NONE)
        code = comm_agree(r->world, reads ? read_input(r) : ERROR_NONE);
    if (code != ERROR_NONE)
        return code;
    if (reads) {
        report_input(r);
        shape = choose_shape(r);
    }
    comm_broadcast(r->world, &shape, sizeof shape, 0);
    code = inference_lay_out(r->inference, &shape);
    if (code == ERROR_NONE)
        code = comm_agree(r->world, check_memory(r));
    return code == ERROR_NONE ? inference_start(r->inference) : code;
}

/* -- Results --------------------------------------------------------------------------------------------------------
 */

/* The scores and measured values of variants with both. */
struct measured_pairs {
    double *scores, *values; /* [count] */
    int64_t count;
};

/* record: -1: all records. */
static struct measured_pairs pairs_of(const struct variant_list *v, const double *scores, int64_t record)
{
    struct measured_pairs pairs = {memory_allocate(v->count * (int64_t)sizeof(double)),
                                   memory_allocate(v->count * (int64_t)sizeof(double)), 0};
    for (int64_t i = 0; i < v->count; i++)
        if (!isnan(v->list[i].measured) && (record < 0 || v->list[i].record == record)) {
            pairs.scores[pairs.count] = scores[i];
            pairs.values[pairs.count++] = v->list[i].measured;
        }
    return pairs;
}

static void pairs_free(struct measured_pairs *pairs)
{
    memory_free(pairs->scores);
    memory_free(pairs->values);
}

/* The value above which variants count as positive: the lower one if there are only two, else the median. */
static double threshold_of(const struct measured_pairs *pairs, bool *two)
{
    double *sorted = memory_allocate(pairs->count * (int64_t)sizeof *sorted);
    memcpy(sorted, pairs->values, (size_t)pairs->count * sizeof *sorted);
    quantile_sort(sorted, pairs->count);
    const double least = sorted[0], most = sorted[pairs->count - 1], median = quantile(sorted, pairs->count, 0.5);
    *two = true;
    for (int64_t i = 0; i < pairs->count; i++)
        *two &= sorted[i] == least || sorted[i] == most;
    memory_free(sorted);
    return *two ? least : median;
}

/* Logs Spearman's correlation and the AUC of all variants and, with several records, the mean correlation of records.
 */
static void report_measured(const struct variant_run *r, int column)
{
    const struct variant_list *v = &r->variants;
    const char *method = score_method_names[r->scoring.methods[column]];
    struct measured_pairs all = pairs_of(v, r->scores[column], -1);
    bool two = false;
    if (all.count > 1) {
        const double threshold = threshold_of(&all, &two);
        log_info("%s: Spearman %.4f, AUC %.4f (%s above %g) of %lld variants with %s", method,
                 ranking_spearman(all.scores, all.values, all.count),
                 ranking_auc(all.scores, all.values, all.count, threshold), two ? "values" : "median,", threshold,
                 (long long)all.count, v->measured);
    }
    pairs_free(&all);
    double sum = 0;
    int64_t records = 0;
    for (int64_t record = 0; record < r->references.count && r->references.count > 1; record++) {
        struct measured_pairs own = pairs_of(v, r->scores[column], record);
        const double correlation = own.count > 1 ? ranking_spearman(own.scores, own.values, own.count) : NAN;
        pairs_free(&own);
        if (!isnan(correlation)) {
            sum += correlation;
            records++;
        }
    }
    if (records > 1)
        log_info("%s: mean Spearman of %lld records %.4f", method, (long long)records, sum / (double)records);
}

static int write_outputs(struct variant_run *r)
{
    int code = ERROR_NONE;
    if (r->output.file != NULL)
        code = score_file_write(&r->output, r->settings->output, r->inference, &r->scoring, &r->variants, r->scores);
    code = atomic_file_close(&r->output, code);
    if (code == ERROR_NONE && r->positions.file != NULL)
        code = score_file_write_positions(&r->positions, r->settings->positions, r->inference, &r->scoring, &r->sites);
    return atomic_file_close(&r->positions, code);
}

static void report(const struct variant_run *r, const struct forward_pass *forward, double seconds)
{
    for (int m = 0; m < r->scoring.count && r->variants.measured != NULL; m++)
        report_measured(r, m);
    if (r->has_variants)
        log_info("%s: %lld variant%s of %lld record%s", r->settings->output, (long long)r->variants.count,
                 plural(r->variants.count), (long long)r->references.count, plural(r->references.count));
    if (r->settings->positions != NULL)
        log_info("%s: %lld position%s", r->settings->positions, (long long)r->sites.count, plural(r->sites.count));
    log_info("%lld sequence%s of %lld tokens computed (%.2f s, %.0f tokens/s)", (long long)forward->sequences,
             plural(forward->sequences), (long long)forward->computed, seconds, (double)forward->computed / seconds);
}

static int score(struct variant_run *r)
{
    const bool reads = r->world->rank == 0;
    struct forward_pass forward;
    int code = prepare(r);
    if (code != ERROR_NONE)
        return code;
    for (int m = 0; m < r->scoring.count && r->has_variants; m++)
        r->scores[m] = memory_allocate(r->variants.count * (int64_t)sizeof *r->scores[m]);
    forward_create(&forward, r->inference);
    const double start = clock_seconds();
    code = variant_score(&forward, &r->scoring, r->has_variants ? &r->variants : NULL, r->scores, &r->sites);
    const double seconds = clock_seconds() - start;
    if (code == ERROR_NONE)
        code = comm_agree(r->world, reads ? write_outputs(r) : ERROR_NONE);
    if (code == ERROR_NONE && reads)
        report(r, &forward, seconds);
    forward_destroy(&forward);
    return code;
}

int variant_run(struct comm *world, const struct variant_settings *settings, device_make *make_executor)
{
    struct inference *inference = memory_allocate(sizeof *inference);
    struct variant_run *r = memory_allocate(sizeof *r);
    *r = (struct variant_run){.settings = settings, .inference = inference, .world = world};
    int code = inference_open(inference, world, settings->checkpoint, make_executor);
    if (code == ERROR_NONE)
        code = score(r);
    code = atomic_file_close(&r->output, code); /* still open only after a failure */
    code = atomic_file_close(&r->positions, code);
    if (r->catches)
        temporary_release_signals();
    for (int m = 0; m < SCORE_METHODS; m++)
        memory_free(r->scores[m]);
    sites_destroy(&r->sites);
    variants_destroy(&r->variants);
    references_destroy(&r->references);
    inference_close(inference);
    memory_free(r);
    memory_free(inference);
    return code;
}
