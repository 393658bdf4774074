/* Checks of variants, sums over single sites (masked-marginals, wt-marginals), and the choice of what is computed. */
#include "base/error.h"
#include "base/memory.h"
#include "base/range.h"
#include "infer/variant_score_private.h"

#include <stdlib.h>

const char *const score_method_names[SCORE_METHODS] = {"masked-marginals",  "masked-together",
                                                       "wt-marginals",      "pseudo-log-likelihood",
                                                       "pseudo-perplexity", "log-likelihood-ratio"};

int score_column(const struct variant_scoring *s, enum score_method method)
{
    for (int i = 0; i < s->count; i++)
        if (s->methods[i] == method)
            return i;
    return -1;
}

/* -- Checks and sizes -----------------------------------------------------------------------------------------------
 */

static int refuse(const struct variant_list *v, int64_t variant, const char *why)
{
    char *text;
    size_t bytes;
    FILE *name = memory_stream(&text, &bytes);
    variants_name(v, variant, name);
    memory_stream_end(name);
    const int code = error_user("%s: record %.80s, variant %.80s: %s", v->path != NULL ? v->path : v->references->path,
                                v->references->list[v->list[variant].record].name, text, why);
    free(text);
    return code;
}

int variant_score_check(const struct variant_scoring *s, const struct variant_list *v)
{
    const bool whole = score_column(s, SCORE_MASKED_TOGETHER) >= 0 || score_column(s, SCORE_LOG_LIKELIHOOD_RATIO) >= 0;
    const bool masked = score_method_masked(s->methods[0]);
    if (masked && v->first_resized >= 0)
        return refuse(v, v->first_resized, "changes the length; masked models score substitutions only");
    for (int64_t i = 0; i < v->count && whole; i++)
        if (v->list[i].count > 0 && variant_window_of(v, &v->list[i], site_letters(&s->tokens)).first < 0) {
            char *why = memory_format("its changes do not fit into one window of %lld tokens (--context)%s",
                                      (long long)s->tokens.context,
                                      masked ? "; masked-marginals scores each position in its own window" : "");
            const int code = refuse(v, i, why);
            free(why);
            return code;
        }
    return ERROR_NONE;
}

int64_t variant_score_items(const struct variant_scoring *s, const struct variant_list *v)
{
    const struct reference_list *references = s->tokens.references;
    int64_t sites = 0, together = 0, pseudo = 0, ratios = 0;
    for (int64_t i = 0; v != NULL && i < v->count; i++) {
        sites += v->list[i].count;
        together += v->list[i].count > 1;
        pseudo += references->list[v->list[i].record].length;
        ratios += 2 * (1 + s->both_strands); /* a variant and its window */
    }
    /* variants share sites, of which there are at most as many as letters */
    int64_t most = s->positions || sites > references->letters ? references->letters : sites;
    if (score_column(s, SCORE_MASKED_TOGETHER) >= 0)
        most = MAX(most, together);
    if (score_column(s, SCORE_PSEUDO_LOG_LIKELIHOOD) >= 0 || score_column(s, SCORE_PSEUDO_PERPLEXITY) >= 0)
        most = MAX(most, pseudo);
    return score_column(s, SCORE_LOG_LIKELIHOOD_RATIO) >= 0 ? MAX(most, ratios) : most;
}

/* -- Sums over single sites -----------------------------------------------------------------------------------------
 */

static void list_sites(const struct variant_scoring *s, const struct variant_list *v, bool all,
                       struct site_logits *sites)
{
    const struct reference_list *references = s->tokens.references;
    int64_t capacity = 0;
    for (int64_t r = 0; r < references->count && all; r++)
        for (int64_t p = 0; p < references->list[r].length; p++)
            sites_add(sites, &capacity, r, p);
    for (int64_t i = 0; v != NULL && i < v->count && !all; i++)
        for (int64_t e = 0; e < v->list[i].count; e++)
            sites_add(sites, &capacity, v->list[i].record, variant_edits(v, &v->list[i])[e].position);
    sites_sort(sites);
}

/* The ratio of a variant's letters at one site each. */
static double marginal(const struct variant_list *v, const struct sequence_variant *variant,
                       const struct site_logits *sites)
{
    double sum = 0;
    for (int64_t e = 0; e < variant->count; e++) {
        const struct variant_edit *edit = &variant_edits(v, variant)[e];
        const int64_t site = sites_find(sites, variant->record, edit->position);
        const uint8_t own = reference_ids(v->references, variant->record)[edit->position];
        sum += sites_log_probability(sites, site, v->ids[edit->added]) - sites_log_probability(sites, site, own);
    }
    return sum;
}

static void put_marginals(const struct variant_scoring *s, const struct variant_list *v,
                          const struct site_logits *sites, enum score_method method, double *const *scores)
{
    const int column = score_column(s, method);
    for (int64_t i = 0; column >= 0 && v != NULL && i < v->count; i++)
        if (method != SCORE_MASKED_TOGETHER || v->list[i].count < 2)
            scores[column][i] = marginal(v, &v->list[i], sites);
}

/* Computes the sites of one kind, for the methods that need them. keeps: leave them in *sites for the caller. */
static int score_sites(struct forward_pass *f, const struct variant_scoring *s, const struct variant_list *v,
                       enum site_kind kind, bool keeps, double *const *scores, struct site_logits *sites)
{
    const bool reads = f->inference->world->rank == 0;
    struct site_logits own = {0};
    if (reads)
        list_sites(s, v, keeps, &own);
    int code = sites_compute(&own, f, kind, &s->tokens);
    if (code == ERROR_NONE && reads && kind == SITE_MASKED) {
        put_marginals(s, v, &own, SCORE_MASKED_MARGINALS, scores);
        put_marginals(s, v, &own, SCORE_MASKED_TOGETHER, scores);
    }
    if (code == ERROR_NONE && reads && kind == SITE_VISIBLE)
        put_marginals(s, v, &own, SCORE_WT_MARGINALS, scores);
    if (keeps)
        *sites = own;
    else
        sites_destroy(&own);
    return code;
}

/* -- All methods ----------------------------------------------------------------------------------------------------
 */

static enum site_kind kind_of(enum score_method method)
{
    return method == SCORE_WT_MARGINALS           ? SITE_VISIBLE
           : method == SCORE_LOG_LIKELIHOOD_RATIO ? SITE_CAUSAL
                                                  : SITE_MASKED;
}

int variant_score(struct forward_pass *f, const struct variant_scoring *s, const struct variant_list *v,
                  double *const *scores, struct site_logits *sites)
{
    const bool scores_variants = comm_max_i64(f->inference->world, v != NULL) > 0;
    const enum site_kind kept = kind_of(s->methods[0]);
    int code = ERROR_NONE;
    for (int i = 0; i < s->count && scores_variants && code == ERROR_NONE; i++)
        if (s->methods[i] == SCORE_MASKED_TOGETHER)
            code = variant_score_together(f, s, v, scores);
    const bool needed[] = {[SITE_MASKED] = scores_variants && (score_column(s, SCORE_MASKED_MARGINALS) >= 0 ||
                                                               score_column(s, SCORE_MASKED_TOGETHER) >= 0),
                           [SITE_VISIBLE] = scores_variants && score_column(s, SCORE_WT_MARGINALS) >= 0,
                           [SITE_CAUSAL] = false};
    for (int kind = SITE_MASKED; kind <= SITE_CAUSAL && code == ERROR_NONE; kind++) {
        const bool keeps = s->positions && kind == (int)kept;
        if (needed[kind] || keeps)
            code = score_sites(f, s, v, (enum site_kind)kind, keeps, scores, sites);
    }
    if (code == ERROR_NONE && scores_variants &&
        (score_column(s, SCORE_PSEUDO_LOG_LIKELIHOOD) >= 0 || score_column(s, SCORE_PSEUDO_PERPLEXITY) >= 0))
        code = variant_score_pseudo(f, s, v, scores);
    if (code == ERROR_NONE && scores_variants && score_column(s, SCORE_LOG_LIKELIHOOD_RATIO) >= 0)
        code = variant_score_ratios(f, s, v, scores);
    return code;
}
