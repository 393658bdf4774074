#include "train/forecast.h"
#include "base/error.h"
#include "base/memory.h"
#include "comm/threads.h"
#include "data/store_list.h"
#include "data/token_store.h"
#include "plan/plan.h"
#include "plan/race.h"
#include "train/precision_text.h"
#include "train/settings.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int forecast_threads(const struct deck *deck, int64_t ranks)
{
    int asked = threads_asked(deck->device.threads), idle;
    if (asked > 0)
        return asked;
    struct comm *self = comm_self();
    int64_t share = threads_for_rank(self, &idle) / ranks;
    comm_destroy(self);
    return share > 1 ? (int)share : 1;
}

/* -- Data -------------------------------------------------------------------------------------------------------- */

/* Adds up what one store holds; the vocabulary is that of the first. */
static int count_store(struct forecast *f, const struct deck *deck, const char *path, int64_t *vocabulary)
{
    if (access(path, F_OK) != 0) {
        if (f->data_missing == NULL)
            f->data_missing = memory_format("%s is not there", path);
        return ERROR_NONE;
    }
    struct token_store *store;
    int code = token_store_open(&store, path);
    if (code != ERROR_NONE)
        return code;
    struct loader_settings settings = settings_of_loader(deck);
    struct windows_layout layout = loader_layout(&settings);
    int64_t windows, tokens;
    code = windows_measure(store, &layout, &windows, &tokens);
    f->epoch_windows += windows;
    f->epoch_tokens += tokens;
    if (*vocabulary == 0)
        *vocabulary = store->vocabulary;
    token_store_close(store);
    return code;
}

/* An epoch is each store once, as the training counts it. The vocabulary stays where no store is there. */
static int count_data(struct forecast *f, const struct deck *deck, int64_t *vocabulary)
{
    if (deck->data.source == DECK_DATA_RANDOM) {
        f->data_missing = memory_string("random data has no end");
        return ERROR_NONE;
    }
    if (deck->data.train[0] == '\0') {
        f->data_missing = memory_string("data.train is not set");
        return ERROR_NONE;
    }
    struct store_list list;
    int code = store_list_parse(&list, deck->data.train, deck->data.weights);
    for (int i = 0; i < list.count && code == ERROR_NONE; i++)
        code = count_store(f, deck, list.paths[i], vocabulary);
    store_list_destroy(&list);
    if (f->data_missing != NULL) {
        f->epoch_windows = f->epoch_tokens = 0;
        return code;
    }
    double rows = deck->data.format == DECK_FORMAT_PADDED ? (double)f->epoch_windows
                                                          : (double)f->epoch_tokens / (double)deck->data.row_tokens;
    f->epoch_steps = rows / (double)deck->train.global_batch;
    return code;
}

/* -- A rank's engine, planned ------------------------------------------------------------------------------------ */

/* A place of each kind in a grid of so many ranks; how many there are. Along an axis the first rank is of one kind, and
 * the second stands for all others: so many ranks cost no more than two. */
static int places_of(struct forecast_place places[FORECAST_KINDS], int64_t ranks)
{
    int count = 0;
    for (int data = 0; data < ranks && data < 2; data++)
        places[count++] = (struct forecast_place){.data = data};
    return count;
}

/* The engine of a rank on the planning executor. */
struct rehearsal {
    struct executor *executor; /* plan */
    struct group data;
    struct model model;
    struct engine engine;
};

static void open_rehearsal(struct rehearsal *r, const struct deck *deck, const struct model_settings *model,
                           int64_t ranks, struct forecast_place place, struct executor *target)
{
    r->executor = plan_executor_create(target);
    r->data = (struct group){.name = "data", .rank = place.data, .size = (int)ranks};
    model_create(&r->model, model, deck->train.micro_batch * deck->data.row_tokens, deck->memory.head_tokens);
    struct engine_settings settings = settings_of_engine(deck);
    const struct groups groups = groups_replicated(&r->data);
    engine_create(&r->engine, r->executor, &r->model, &groups, &settings);
}

static void close_rehearsal(struct rehearsal *r)
{
    engine_destroy(&r->engine);
    model_destroy(&r->model);
    r->executor->class->destroy(r->executor);
}

int64_t forecast_memory(int64_t *memory, const struct deck *deck, const struct model_settings *model, int64_t ranks,
                        struct executor *target)
{
    struct forecast_place places[FORECAST_KINDS];
    const int count = places_of(places, ranks);
    int64_t most = -1;
    for (int i = 0; i < count; i++) {
        struct rehearsal r;
        open_rehearsal(&r, deck, model, ranks, places[i], target);
        const int64_t need = budget_total(&r.engine.budget);
        if (need > most) {
            most = need;
            memcpy(memory, r.engine.budget.bytes, sizeof r.engine.budget.bytes);
        }
        close_rehearsal(&r);
    }
    return most;
}

/* Integers or floats: both are of 4 bytes. */
static void *fake_numbers(struct executor *plan, int64_t count)
{
    return plan->class->allocate(plan, count * (int64_t)sizeof(int32_t), MEMORY_HOST);
}

static void refuse_races(const struct plan_log *log)
{
    struct race race;
    if (race_check(log, -1, &race, 1) > 0)
        error_fatal("bug: the streams of a step race: %s", race_describe(&race));
}

/* By a token, on average. */
static double keys_seen(int64_t segment, bool causal)
{
    return causal ? ((double)segment + 1) / 2 : (double)segment;
}

/* What a log's ops do, with segments of `segment` tokens: how long they really are is on the device, so op_flops only
 * guesses it. */
static double launched_flops(const struct plan_log *log, int64_t segment)
{
    double flops = 0;
    for (int64_t i = 0; i < log->count; i++) {
        const struct plan_entry *entry = &log->entries[i];
        if (entry->kind != PLAN_LAUNCH)
            continue;
        const void *args = plan_log_args(log, entry);
        if (entry->op == OP_ATTENTION_FORWARD) { /* q k' and p v */
            const struct attention_forward_args *a = args;
            flops += 2 * 2 * keys_seen(segment, a->causal) * (double)tensor_count(&a->q);
        } else if (entry->op == OP_ATTENTION_BACKWARD) { /* the scores again, and four gradients */
            const struct attention_backward_args *a = args;
            flops += 5 * 2 * keys_seen(segment, a->causal) * (double)tensor_count(&a->q);
        } else {
            flops += (double)op_flops(entry->op, args);
        }
    }
    return flops;
}

/* One step of the rank at that place. Micro-batches are alike but for the first, which starts the gradients, and the
 * last, which ends them, so two stand for all. */
static struct forecast_rank rehearse_step(const struct forecast *f, const struct deck *deck,
                                          struct forecast_place place, struct executor *target)
{
    enum { PLANNED = 2 };
    struct rehearsal r;
    open_rehearsal(&r, deck, &f->model, f->ranks, place, target);
    struct forecast_rank rank = {.place = place, .need = budget_total(&r.engine.budget)};
    memcpy(rank.memory, r.engine.budget.bytes, sizeof rank.memory);
    for (int u = 0; u < r.model.unit_count; u++)
        rank.copies += r.model.units[u].copy_bytes;

    int64_t rows = deck->train.micro_batch, tokens = rows * deck->data.row_tokens;
    int64_t max_segments = r.engine.settings.memory.max_segments, segments = rows * max_segments;
    const struct batch batch = {.rows = rows,
                                .row_tokens = deck->data.row_tokens,
                                .max_segments = max_segments,
                                .tokens = fake_numbers(r.executor, tokens),
                                .labels = fake_numbers(r.executor, tokens),
                                .positions = fake_numbers(r.executor, tokens),
                                .segment_start = fake_numbers(r.executor, segments),
                                .segment_length = fake_numbers(r.executor, segments),
                                .scale = fake_numbers(r.executor, tokens)};
    const struct batch batches[PLANNED] = {batch, batch};
    int planned = f->micro_batches < PLANNED ? (int)f->micro_batches : PLANNED;
    struct schedule schedule = schedule_create(planned, 1, false);
    plan_executor_clear(r.executor);
    engine_step(&r.engine, &schedule, batches, deck->optimizer.lr);
    schedule_destroy(&schedule);

    const struct plan_log *log = plan_executor_log(r.executor);
    refuse_races(log);
    rank.flops = launched_flops(log, f->segment) / planned * (double)f->micro_batches;
    rank.groups = plan_log_traffic(plan_log_all(log), rank.traffic, FORECAST_GROUPS);
    close_rehearsal(&r);
    return rank;
}

static void rehearse_steps(struct forecast *f, const struct deck *deck, struct executor *target)
{
    struct forecast_place places[FORECAST_KINDS];
    f->kind_count = places_of(places, f->ranks);
    for (int i = 0; i < f->kind_count; i++)
        f->kinds[i] = rehearse_step(f, deck, places[i], target);
}

const struct forecast_rank *forecast_neediest(const struct forecast *f)
{
    const struct forecast_rank *neediest = &f->kinds[0];
    for (int i = 1; i < f->kind_count; i++)
        if (f->kinds[i].need > neediest->need)
            neediest = &f->kinds[i];
    return neediest;
}

/* -- All of it --------------------------------------------------------------------------------------------------- */

int forecast_create(struct forecast *f, const struct deck *deck, int64_t ranks, int threads, struct executor *target)
{
    *f = (struct forecast){.ranks = ranks, .threads = threads};
    int64_t vocabulary = 0;
    int code = settings_check_sizes(deck);
    if (code == ERROR_NONE)
        code = count_data(f, deck, &vocabulary);
    if (vocabulary == 0) /* what a store for this model would have, as random data has it */
        vocabulary = settings_of_loader(deck).random.vocabulary;
    if (code == ERROR_NONE)
        code = model_settings_from_deck(&f->model, deck, vocabulary);
    if (code == ERROR_NONE)
        code = model_settings_check(&f->model, target);
    if (code == ERROR_NONE)
        code = settings_check_precision(deck, &f->model, target);
    if (code != ERROR_NONE)
        return code;
    f->quantized = precision_text(&f->model.precision, f->model.layers, target->class->lacks_products == NULL);
    f->parameters = model_parameter_count(&f->model);
    int64_t groups = (deck->train.global_batch + deck->train.micro_batch - 1) / deck->train.micro_batch;
    f->micro_batches = (groups + ranks - 1) / ranks;
    const struct loader_settings loading = settings_of_loader(deck);
    f->batches = loader_bytes(&loading, ranks);
    f->idle_ranks = ranks > groups ? ranks - groups : 0;
    f->step_tokens = deck->train.global_batch * deck->data.row_tokens;
    f->segment = flops_segment(deck);
    for (int c = 0; c < FLOPS_CONVENTIONS; c++)
        f->token_flops[c] = flops_per_token(&f->model, f->segment, (enum flops_convention)c);
    rehearse_steps(f, deck, target);
    f->room = room_of(deck, &f->model);
    return ERROR_NONE;
}

void forecast_destroy(struct forecast *f)
{
    free(f->quantized);
    free(f->data_missing);
    f->quantized = f->data_missing = NULL;
}
