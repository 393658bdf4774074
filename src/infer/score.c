#include "infer/score.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/progress.h"
#include "base/range.h"
#include "data/batch.h"
#include "infer/inference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
/* xxhash: see file/block.c */
#include <xxhash.h>

/* The place of a window in its batch. */
struct score_place {
    int64_t record;
    int64_t first, count; /* its tokens in the batch: offset and number */
    int64_t scored;       /* number of scored tokens */
};

struct score_list {
    struct score_place *places; /* [windows_at_once] */
    int64_t count;
    int64_t tokens; /* of the batch, with padding */
};

struct scorer {
    const struct score_settings *settings;
    struct comm *world;
    struct engine *engine;
    struct sliding *windows;
    struct sliding_window waiting; /* the next window, not yet in a batch */
    int32_t *tokens, *labels;      /* [context] tokens and labels of one window */
    struct batch batch;            /* this team's batch */
    struct score_list *lists;      /* [teams]: the batches of one round */
    double *losses;                /* [tokens] */
    double *sums;                  /* [windows_at_once] for this team's batch */
    double *all_sums;              /* [ranks * windows_at_once] */
    double *totals;                /* [records so far] loss */
    int64_t *scored;               /* [records so far] scored tokens */
    int64_t records, computed;
    uint64_t seen;     /* hash of all windows so far; every rank reads them */
    int32_t *label_of; /* label_table of masked models of bases; else NULL */
};

static bool counts(const struct scorer *s, const struct sliding_window *window, int64_t t)
{
    return t >= window->scored && (!s->settings->mask || tokenizer_base(window->tokens[t]) >= 0);
}

/* Sets the label of each token in s->tokens: the next token, if that is scored. Returns the number of labels. */
static int64_t label_next(struct scorer *s, const struct sliding_window *window)
{
    int64_t scored = 0;
    for (int64_t t = 0; t < window->count; t++) {
        bool label = t + 1 < window->count && counts(s, window, t + 1);
        s->labels[t] = label ? window->tokens[t + 1] : BATCH_IGNORED;
        scored += label;
    }
    return scored;
}

/* Masks the one scored token of a window, if it counts. Returns the number of labels. */
static int64_t label_masked(struct scorer *s, const struct sliding_window *window)
{
    const int64_t t = window->scored;
    for (int64_t i = 0; i < window->count; i++)
        s->labels[i] = BATCH_IGNORED;
    if (!counts(s, window, t))
        return 0;
    s->labels[t] = window->tokens[t];
    s->tokens[t] = s->settings->windows.tokenizer->mask;
    return 1;
}

static void put_window(struct scorer *s, const struct sliding_window *window, struct score_list *list, int64_t first,
                       bool own)
{
    const struct score_settings *settings = s->settings;
    const int64_t count = window->count;
    memcpy(s->tokens, window->tokens, (size_t)count * sizeof *s->tokens);
    s->seen = XXH3_64bits_withSeed(s->tokens, (size_t)count * sizeof *s->tokens, s->seen);
    int64_t scored;
    if (settings->windows.each) {
        scored = label_masked(s, window);
    } else if (settings->masking != NULL) {
        struct token_masking masking = *settings->masking;
        masking.label_of = s->label_of;
        scored = masking_apply(&masking, 0, window->record, window->before, count, s->tokens, s->labels);
    } else {
        scored = label_next(s, window);
    }
    list->places[list->count++] = (struct score_place){window->record, first, count, scored};
    if (!own)
        return;
    batch_append(&s->batch, s->tokens, count);
    memcpy(s->batch.labels + first, s->labels, (size_t)count * sizeof *s->labels);
    if (settings->token_dropout)
        masking_scale(settings->windows.tokenizer, s->tokens, count, s->batch.scale + first);
}

/* Returns the tokens of a batch for windows of this length. */
static int64_t batch_size(const struct scorer *s, int64_t length)
{
    int64_t size = s->settings->short_tokens;
    while (size < length)
        size *= 2;
    return MIN(size, s->settings->tokens);
}

/* Appends whole windows to a batch until the next one does not fit, or belongs in a batch of another size. */
static int fill_batch(struct scorer *s, struct score_list *list, bool own)
{
    int64_t used = 0;
    list->count = list->tokens = 0;
    if (own)
        batch_restart(&s->batch);
    for (;;) {
        int code = ERROR_NONE;
        if (s->waiting.count == 0)
            code = sliding_next(s->windows, &s->waiting);
        const struct sliding_window *window = &s->waiting;
        if (code != ERROR_NONE || window->count == 0)
            return code;
        if (list->count == 0)
            list->tokens = batch_size(s, window->count);
        if (batch_size(s, window->count) != list->tokens || used + window->count > list->tokens ||
            list->count == s->settings->windows_at_once)
            return code;
        put_window(s, window, list, used, own);
        used += window->count;
        s->waiting.count = 0;
    }
}

static void compute(struct scorer *s, const struct score_list *list)
{
    if (list->count == 0 && !s->settings->together)
        return;
    if (list->count == 0)
        batch_append(&s->batch, &s->settings->windows.tokenizer->bos, 1); /* the pass is collective */
    else
        batch_pad(&s->batch, tokenizer_padding(s->settings->windows.tokenizer), list->tokens);
    engine_score(s->engine, &s->batch, s->losses);
    for (int64_t i = 0; i < list->count; i++) {
        const struct score_place *place = &list->places[i];
        s->sums[i] = 0;
        for (int64_t t = 0; t < place->count; t++)
            s->sums[i] += s->losses[place->first + t];
    }
}

/* Adds zeros for records that have been read since the last call. */
static void extend_totals(struct scorer *s)
{
    int64_t records = sliding_records(s->windows);
    s->totals = memory_grow(s->totals, (int64_t)sizeof *s->totals * (records + 1));
    s->scored = memory_grow(s->scored, (int64_t)sizeof *s->scored * (records + 1));
    for (; s->records < records; s->records++) {
        s->totals[s->records] = 0;
        s->scored[s->records] = 0;
    }
}

/* Checks that the input is a regular file if there are several ranks, since each reads all records. */
static int check_file(const struct scorer *s)
{
    const char *input = s->settings->windows.input;
    struct stat status;
    if (s->world->size == 1 || (strcmp(input, "-") != 0 && (stat(input, &status) != 0 || S_ISREG(status.st_mode))))
        return ERROR_NONE;
    return error_user("%s: is not a regular file, and each of the %d ranks reads all records: use a file, or one rank",
                      strcmp(input, "-") != 0 ? input : "standard input", s->world->size);
}

/* Checks that all ranks have read the same records. Collective. */
static int compare_seen(const struct scorer *s)
{
    const int64_t own = (int64_t)s->seen, most = comm_max_i64(s->world, own), least = ~comm_max_i64(s->world, ~own);
    if (most == least)
        return ERROR_NONE;
    const int code =
        error_user("%s: ranks have read different records from this file; it must be the same on all nodes",
                   s->settings->windows.input);
    return comm_agree(s->world, code);
}

/* Computes one batch per team; *more is false at the end of the file. */
static int run_round(struct scorer *s, bool *more)
{
    const int64_t most = s->settings->windows_at_once;
    int code = ERROR_NONE;
    for (int t = 0; t < s->settings->teams && code == ERROR_NONE; t++)
        code = fill_batch(s, &s->lists[t], t == s->settings->team);
    code = comm_agree(s->world, code);
    if (code == ERROR_NONE)
        code = compare_seen(s);
    *more = code == ERROR_NONE && s->lists[0].count > 0;
    if (!*more)
        return code;
    compute(s, &s->lists[s->settings->team]);
    comm_all_gather(s->world, s->sums, s->all_sums, most * (int64_t)sizeof *s->sums);
    extend_totals(s);
    for (int t = 0; t < s->settings->teams; t++)
        for (int64_t i = 0; i < s->lists[t].count; i++) {
            const struct score_place *place = &s->lists[t].places[i];
            const double sum = s->all_sums[t * (s->world->size / s->settings->teams) * most + i]; /* its first rank's */
            if (!isfinite(sum))
                return comm_agree(s->world, inference_diverged(s->settings->checkpoint));
            s->totals[place->record] += sum;
            s->scored[place->record] += place->scored;
            s->computed++;
        }
    return ERROR_NONE;
}

static void allocate(struct scorer *s)
{
    const int64_t most = s->settings->windows_at_once, ranks = s->world->size;
    const int64_t context = s->settings->windows.context;
    batch_create(&s->batch, 1, s->settings->tokens, most);
    if (s->settings->masking != NULL)
        s->label_of = label_table(s->settings->windows.tokenizer, s->settings->mask, false);
    s->tokens = memory_allocate((int64_t)sizeof *s->tokens * context);
    s->labels = memory_allocate((int64_t)sizeof *s->labels * context);
    s->lists = memory_allocate((int64_t)sizeof *s->lists * s->settings->teams);
    for (int64_t t = 0; t < s->settings->teams; t++)
        s->lists[t].places = memory_allocate((int64_t)sizeof(struct score_place) * most);
    s->losses = memory_allocate((int64_t)sizeof *s->losses * s->settings->tokens);
    s->sums = memory_allocate((int64_t)sizeof *s->sums * most);
    s->all_sums = memory_allocate((int64_t)sizeof *s->all_sums * most * ranks);
}

static void release(struct scorer *s)
{
    batch_destroy(&s->batch);
    memory_free(s->label_of);
    memory_free(s->tokens);
    memory_free(s->labels);
    for (int t = 0; t < s->settings->teams; t++)
        memory_free(s->lists[t].places);
    memory_free(s->lists);
    memory_free(s->losses);
    memory_free(s->sums);
    memory_free(s->all_sums);
    free(s->totals);
    free(s->scored);
    sliding_close(s->windows);
}

static void collect(struct scorer *s, struct fasta_score *score)
{
    extend_totals(s); /* records at the end may have no window */
    *score = (struct fasta_score){.records = memory_allocate((int64_t)sizeof *score->records * s->records),
                                  .count = s->records,
                                  .windows = s->computed,
                                  .census = *sliding_census(s->windows),
                                  .stops = sliding_stops(s->windows),
                                  .skipped = sliding_skipped(s->windows)};
    for (int64_t r = 0; r < s->records; r++)
        score->records[r] = (struct score_record){memory_string(sliding_name(s->windows, r)),
                                                  sliding_length(s->windows, r),
                                                  sliding_bytes(s->windows, r),
                                                  sliding_words(s->windows, r),
                                                  s->scored[r],
                                                  s->totals[r]};
}

/* Reads the file to its end for the number of its windows, which the progress shows; 0: not known. Mistakes in the file
 * are found again when it is read to be scored. */
static int64_t count_windows(const struct sliding_settings *settings)
{
    struct stat status;
    struct sliding *windows;
    struct sliding_window window = {.count = 1};
    int64_t count = 0;
    if (!progress_wanted() || stat(settings->input, &status) != 0 || !S_ISREG(status.st_mode))
        return 0;
    int code = sliding_open(&windows, settings);
    while (code == ERROR_NONE && window.count > 0) {
        code = sliding_next(windows, &window);
        count += window.count > 0;
    }
    sliding_close(windows);
    error_clear();
    return code == ERROR_NONE ? count : 0;
}

int score_run(struct fasta_score *score, struct comm *world, struct engine *engine,
              const struct score_settings *settings)
{
    struct scorer s = {.settings = settings, .world = world, .engine = engine};
    int code = check_file(&s);
    if (code == ERROR_NONE)
        code = sliding_open(&s.windows, &settings->windows);
    code = comm_agree(world, code);
    if (code != ERROR_NONE) {
        sliding_close(s.windows);
        return code;
    }
    allocate(&s);
    struct progress_line progress;
    progress_start(&progress, "scoring", "windows", (double)count_windows(&settings->windows));
    for (bool more = true; more && code == ERROR_NONE;) {
        code = run_round(&s, &more);
        progress_set(&progress, (double)s.computed);
    }
    progress_end(&progress);
    if (code == ERROR_NONE)
        collect(&s, score);
    release(&s);
    return code;
}

void score_destroy(struct fasta_score *score)
{
    for (int64_t r = 0; r < score->count; r++)
        free(score->records[r].name);
    memory_free(score->records);
    *score = (struct fasta_score){0};
}
