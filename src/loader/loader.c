#include "loader/loader.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/range.h"
#include "base/thread.h"
#include "loader/balance.h"
#include "loader/labelling.h"
#include "loader/packer.h"
#include "loader/row_filler.h"
#include "loader/store_set.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 2 /* the step returned last and the step in preparation */ };

/* One step's micro-batches. */
struct loader_slot {
    struct batch *batches; /* [micro_batches] */
    struct blend_position after;
};

/* Rows of the step in preparation, of all ranks: which of them are this rank's follows from the costs of all. */
struct packed_step {
    struct packer_segment *segments; /* of all rows, in order; grows to what steps need */
    int64_t capacity;
    int64_t *row_end;        /* [global_rows] index of the segment after the row's last one */
    int64_t *costs, *places; /* [micro_batches * data_ranks] (loader/balance.h) */
    bool *full;              /* [micro_batches * data_ranks] as struct batch.full, for one micro-batch */
};

struct loader {
    struct loader_settings settings;
    int data_rank, data_ranks;
    int64_t micro_batches, steps_once;
    struct store_set set; /* empty with random data */
    struct data_provenance provenance;
    struct random_windows *random;        /* NULL with stores */
    const struct window_source **sources; /* [source_count], owned by set or random */
    int source_count;
    const struct tokenizer *tokenizer; /* tokenizer of all sources */
    struct packer_settings rows;
    struct data_blend blend; /* used by the prefetch thread while it runs */
    struct packed_step packed;
    struct row_filler filler;
    struct loader_slot slots[SLOTS];
    int64_t handed_out; /* steps returned since the last seek; the last one is in slot (handed_out - 1) % SLOTS */
    struct blend_position position;
    int64_t step; /* step of the training: steps before the last seek plus steps returned since */
    double wait_seconds;

    pthread_t thread;
    bool running;
    pthread_mutex_t lock; /* guards made, wanted and stop */
    pthread_cond_t changed;
    int64_t made;   /* steps that the thread has prepared since the last seek */
    int64_t wanted; /* steps that the thread may prepare: one more than handed_out */
    bool stop;
};

/* Returns whether special tokens are added: Megatron data sets already contain the tokens that separate documents. */
static bool adds_specials(const struct store_set *set)
{
    for (int d = 0; d < set->list.count; d++)
        if (set->stores[d].store != NULL)
            return true;
    return false;
}

/* Checks the settings against the open stores. */
static int check_stores(const struct loader *loader)
{
    const struct loader_settings *settings = &loader->settings;
    const struct tokenizer *tokenizer = loader->tokenizer;
    const bool adds = adds_specials(&loader->set);
    if (adds && ((tokenizer->bos < 0 && !settings->no_bos) || (tokenizer->eos < 0 && !settings->no_eos)))
        return error_user("key data.%s = true: the tokenizer of %s, %s, has no such token; set it to false",
                          tokenizer->bos < 0 && !settings->no_bos ? "bos" : "eos", settings->stores, tokenizer->name);
    if (!loader->tokenizer->bases && settings->uppercase_labels)
        return error_user("key data.uppercase_labels = true: applies to nucleotides only, but %s has %s tokens",
                          settings->stores, loader->tokenizer->name);
    if (!loader->tokenizer->bases && settings->reverse_complement > 0)
        return error_user("key data.reverse_complement = %g: applies to nucleotides only, but %s has %s tokens",
                          settings->reverse_complement, settings->stores, loader->tokenizer->name);
    if (loader->tokenizer->mask < 0 && (settings->mask_probability > 0 || settings->token_dropout))
        return error_user("key data.train: %s has %s tokens without a mask token, which a masked model "
                          "(model.objective) needs; prepare it with a --tokenizer that has one: nucleotide_mask, esm2 "
                          "or amplify",
                          settings->stores, loader->tokenizer->name);
    return settings->task.head != DECK_HEAD_LM ? labelling_check(&settings->task, &loader->set, settings->truncate)
                                               : ERROR_NONE;
}

static void make_filler(struct loader *loader)
{
    const struct loader_settings *settings = &loader->settings;
    row_filler_create(&loader->filler,
                      &(struct row_filler_settings){.tokenizer = loader->tokenizer,
                                                    .seed = settings->seed,
                                                    .row_tokens = settings->row_tokens,
                                                    .mask_probability = settings->mask_probability,
                                                    .task = settings->task,
                                                    .token_dropout = settings->token_dropout,
                                                    .dropout_keys = settings->dropout_keys,
                                                    .mask_degenerate = settings->mask_degenerate,
                                                    .uppercase_labels = settings->uppercase_labels,
                                                    .reverse_complement = settings->reverse_complement});
}

static void make_blend(struct loader *loader)
{
    const struct loader_settings *settings = &loader->settings;
    const struct store_set *set = &loader->set;
    const bool ordered = settings->megatron.ordered;
    const struct blend_settings order = {.shuffle = settings->shuffle && !ordered && loader->random == NULL,
                                         .once = settings->once,
                                         .megatron = ordered,
                                         .seed = settings->seed};
    loader->blend =
        blend_create(&order, loader->sources, set->list.weighted ? set->list.weights : NULL, loader->source_count);
    loader->position = blend_position_create(loader->source_count);
}

static struct packer_settings rows_of(const struct loader_settings *settings)
{
    return (struct packer_settings){
        .row_tokens = settings->row_tokens,
        .max_segments = settings->format == LOADER_PADDED ? 1 : settings->max_segments,
        .split = settings->format == LOADER_PACKED && settings->split && settings->task.head == DECK_HEAD_LM,
    };
}

static void make_packer(struct loader *loader)
{
    const struct loader_settings *settings = &loader->settings;
    loader->rows = rows_of(settings);
    if (settings->once) {
        struct data_blend walk = blend_copy(&loader->blend);
        struct packer_segment *row = memory_allocate(loader->rows.max_segments * (int64_t)sizeof *row);
        int64_t count = 0;
        while (packer_next(&loader->rows, &walk, row) > 0)
            count++;
        memory_free(row);
        blend_destroy(&walk);
        if (count < loader->settings.global_rows) /* no memory for rows that would stay empty */
            loader->settings.global_rows = count > 0 ? count : 1;
        loader->steps_once = (count + settings->global_rows - 1) / settings->global_rows;
    }
}

static int64_t micro_batches_of(const struct loader_settings *settings, int64_t data_ranks)
{
    const int64_t groups = (settings->global_rows + settings->micro_rows - 1) / settings->micro_rows;
    return (groups + data_ranks - 1) / data_ranks;
}

/* Returns the numbers of each segment's target. */
static int64_t numbers_of(const struct loader_settings *settings)
{
    return settings->task.problem == DECK_PROBLEM_REGRESSION ? settings->task.labels : 0;
}

double loader_bytes(const struct loader_settings *settings, int64_t data_ranks)
{
    const struct batch batch = {.rows = settings->micro_rows,
                                .row_tokens = settings->row_tokens,
                                .max_segments = rows_of(settings).max_segments,
                                .numbers = numbers_of(settings)};
    return SLOTS * (double)micro_batches_of(settings, data_ranks) *
           (double)(batch_bytes(&batch) + (int64_t)sizeof batch);
}

static int check_memory(const struct loader *loader)
{
    const struct loader_settings *settings = &loader->settings;
    const double need = loader_bytes(settings, loader->data_ranks);
    char needed[BYTES_TEXT], free_text[BYTES_TEXT];
    if (settings->memory == 0 || need <= (double)settings->memory)
        return ERROR_NONE;
    return error_user("key %s = %lld: the rows of two steps need %s of host memory on each rank, which has %s free for "
                      "them; use fewer rows or more nodes",
                      settings->once ? "validation.rows" : "train.global_batch", (long long)settings->global_rows,
                      bytes_text(needed, need), bytes_text(free_text, (double)settings->memory));
}

static void make_slots(struct loader *loader)
{
    const struct loader_settings *settings = &loader->settings;
    const int64_t micro_batches = loader->micro_batches * loader->data_ranks;
    struct packed_step *packed = &loader->packed;
    packed->row_end = memory_allocate(settings->global_rows * (int64_t)sizeof *packed->row_end);
    packed->costs = memory_allocate(micro_batches * (int64_t)sizeof *packed->costs);
    packed->places = memory_allocate(micro_batches * (int64_t)sizeof *packed->places);
    packed->full = memory_allocate(micro_batches * (int64_t)sizeof *packed->full);
    for (int i = 0; i < SLOTS; i++) {
        loader->slots[i].after = blend_position_create(loader->source_count);
        loader->slots[i].batches = memory_allocate(loader->micro_batches * (int64_t)sizeof(struct batch));
        for (int64_t m = 0; m < loader->micro_batches; m++)
            batch_create_targets(&loader->slots[i].batches[m], settings->micro_rows, settings->row_tokens,
                                 loader->rows.max_segments, numbers_of(settings));
    }
}

/* Returns room for the segments of one more row, from index `used` on. */
static struct packer_segment *room_for_row(struct loader *loader, int64_t used)
{
    struct packed_step *packed = &loader->packed;
    if (used + loader->rows.max_segments > packed->capacity) {
        packed->capacity = 2 * packed->capacity + loader->rows.max_segments;
        packed->segments = memory_grow(packed->segments, packed->capacity * (int64_t)sizeof *packed->segments);
    }
    return packed->segments + used;
}

/* Returns whether rows have one segment and this row's segment fills it. */
static bool is_full(const struct loader *loader, const struct packer_segment *segments, int64_t count)
{
    return loader->rows.max_segments == 1 && count == 1 && segments[0].length == loader->rows.row_tokens;
}

/* Packs every row of the next step, and assigns its micro-batches to ranks: by their costs, or in order. */
static void pack_step(struct loader *loader)
{
    const struct loader_settings *settings = &loader->settings;
    const bool balance = settings->balance && loader->data_ranks > 1;
    const int64_t micro_batches = loader->micro_batches * loader->data_ranks, micro_rows = settings->micro_rows;
    struct packed_step *packed = &loader->packed;
    int64_t used = 0;
    for (int64_t k = 0; k < micro_batches; k++) {
        packed->costs[k] = 0;
        packed->full[k] = (k + 1) * micro_rows <= settings->global_rows;
    }
    for (int64_t row = 0; row < settings->global_rows; row++) {
        const struct packer_segment *segments = room_for_row(loader, used);
        const int64_t count = packer_next(&loader->rows, &loader->blend, packed->segments + used);
        const int64_t k = row / micro_rows;
        packed->row_end[row] = used += count;
        packed->full[k] &= is_full(loader, segments, count);
        for (int64_t s = 0; balance && s < count; s++)
            packed->costs[k] += balance_cost(segments[s].length, settings->sliding_window);
    }
    balance_micro_batches(packed->costs, loader->micro_batches, loader->data_ranks, packed->places);
}

/* Fills this rank's batch with the rows of micro-batch k. */
static void fill_batch(struct loader *loader, int64_t k, struct batch *batch)
{
    const struct loader_settings *settings = &loader->settings;
    const struct packed_step *packed = &loader->packed;
    const int64_t first = k * settings->micro_rows;
    row_filler_clear(&loader->filler, batch);
    batch->number = k;  /* index in the step; loader_next adds the step */
    batch->full = true; /* until a micro-batch of the round is not full */
    for (int64_t i = 0; i < settings->micro_rows && first + i < settings->global_rows; i++) {
        const int64_t begin = first + i == 0 ? 0 : packed->row_end[first + i - 1];
        row_filler_fill(&loader->filler, loader->sources, loader->blend.position.key, packed->segments + begin,
                        packed->row_end[first + i] - begin, batch, i);
    }
}

/* Prepares the next step: packs the rows of all ranks, and fills this rank's. */
static void make_step(struct loader *loader, struct loader_slot *slot)
{
    const struct packed_step *packed = &loader->packed;
    pack_step(loader);
    for (int64_t k = 0; k < loader->micro_batches * loader->data_ranks; k++)
        if (packed->places[k] % loader->data_ranks == loader->data_rank)
            fill_batch(loader, k, &slot->batches[packed->places[k] / loader->data_ranks]);
    for (int64_t k = 0; k < loader->micro_batches * loader->data_ranks; k++)
        slot->batches[packed->places[k] / loader->data_ranks].full &= packed->full[k];
    blend_position_set(&slot->after, &loader->blend.position);
}

static void *prefetch(void *self)
{
    struct loader *loader = self;
    pthread_mutex_lock(&loader->lock);
    while (!loader->stop) {
        if (loader->made == loader->wanted) {
            pthread_cond_wait(&loader->changed, &loader->lock);
            continue;
        }
        struct loader_slot *slot = &loader->slots[loader->made % SLOTS];
        pthread_mutex_unlock(&loader->lock);
        make_step(loader, slot);
        pthread_mutex_lock(&loader->lock);
        loader->made++;
        pthread_cond_broadcast(&loader->changed);
    }
    pthread_mutex_unlock(&loader->lock);
    return NULL;
}

static void start_thread(struct loader *loader)
{
    loader->made = loader->handed_out = 0;
    loader->wanted = 1;
    loader->stop = false;
    loader->thread = thread_start(prefetch, loader, "the data loader");
    loader->running = true;
}

static void stop_thread(struct loader *loader)
{
    if (!loader->running)
        return;
    pthread_mutex_lock(&loader->lock);
    loader->stop = true;
    pthread_cond_broadcast(&loader->changed);
    pthread_mutex_unlock(&loader->lock);
    pthread_join(loader->thread, NULL);
    loader->running = false;
}

static void make_sources(struct loader *loader, int count)
{
    loader->source_count = count;
    loader->sources = memory_allocate(count * (int64_t)sizeof *loader->sources);
}

static int open_stores(struct loader *loader, struct comm *world)
{
    const struct loader_settings *settings = &loader->settings;
    const struct windows_layout layout = loader_layout(settings);
    int code = store_set_open(&loader->set, settings->stores, settings->weights, &layout, &settings->megatron, world);
    if (code != ERROR_NONE)
        return code;
    loader->provenance = store_set_provenance(&loader->set);
    make_sources(loader, loader->set.list.count);
    for (int d = 0; d < loader->source_count; d++)
        loader->sources[d] = data_set_source(&loader->set.stores[d]);
    loader->tokenizer = loader->sources[0]->tokenizer;
    return comm_agree(world, check_stores(loader));
}

static void open_random(struct loader *loader)
{
    const struct windows_layout layout = loader_layout(&loader->settings);
    CHECK_BUG(!loader->settings.once);
    loader->random = random_windows_create(&loader->settings.random, &layout, loader->settings.seed);
    make_sources(loader, 1);
    loader->sources[0] = random_windows_source(loader->random);
    loader->tokenizer = loader->sources[0]->tokenizer;
}

int loader_create(struct loader **out, const struct loader_settings *settings, struct comm *world, int data_rank,
                  int data_ranks)
{
    struct loader *loader = memory_allocate(sizeof *loader);
    loader->settings = *settings;
    loader->data_rank = data_rank;
    loader->data_ranks = data_ranks;
    pthread_mutex_init(&loader->lock, NULL);
    pthread_cond_init(&loader->changed, NULL);
    int code = comm_agree(world, loader_check_settings(settings));
    if (code == ERROR_NONE && settings->stores != NULL)
        code = open_stores(loader, world);
    else if (code == ERROR_NONE)
        open_random(loader);
    if (code == ERROR_NONE) {
        make_filler(loader);
        make_blend(loader);
        make_packer(loader);
        code = comm_agree(world, check_memory(loader));
    }
    if (code != ERROR_NONE) {
        loader_destroy(loader);
        *out = NULL;
        return code;
    }
    loader->micro_batches = micro_batches_of(&loader->settings, data_ranks);
    make_slots(loader);
    *out = loader;
    return ERROR_NONE;
}

void loader_destroy(struct loader *loader)
{
    if (loader == NULL)
        return;
    stop_thread(loader);
    for (int i = 0; i < SLOTS; i++) {
        for (int64_t m = 0; loader->slots[i].batches != NULL && m < loader->micro_batches; m++)
            batch_destroy(&loader->slots[i].batches[m]);
        memory_free(loader->slots[i].batches);
        blend_position_destroy(&loader->slots[i].after);
    }
    blend_position_destroy(&loader->position);
    blend_destroy(&loader->blend);
    free(loader->packed.segments);
    memory_free(loader->packed.row_end);
    memory_free(loader->packed.costs);
    memory_free(loader->packed.places);
    memory_free(loader->packed.full);
    memory_free(loader->sources);
    row_filler_destroy(&loader->filler);
    store_set_close(&loader->set);
    provenance_destroy(&loader->provenance);
    random_windows_destroy(loader->random);
    pthread_cond_destroy(&loader->changed);
    pthread_mutex_destroy(&loader->lock);
    memory_free(loader);
}

int64_t loader_micro_batches(const struct loader *loader)
{
    return loader->micro_batches;
}

int64_t loader_windows(const struct loader *loader)
{
    int64_t total = 0;
    for (int d = 0; d < loader->set.list.count; d++)
        total += loader->set.stores[d].epoch_windows;
    return total;
}

int64_t loader_window_tokens(const struct loader *loader)
{
    int64_t total = 0;
    for (int d = 0; d < loader->set.list.count; d++)
        total += loader->set.stores[d].epoch_tokens;
    return total;
}

/* Returns the number of rows that have tokens of the first `windows` windows of the stream. */
static int64_t count_rows(const struct loader *loader, int64_t windows)
{
    struct data_blend walk = blend_copy(&loader->blend);
    struct packer_segment *row = memory_allocate(loader->rows.max_segments * (int64_t)sizeof *row);
    int64_t rows = 0, begun = 0, count;
    while (begun <= windows && (count = packer_next(&loader->rows, &walk, row)) > 0) {
        if (begun == windows && row[0].offset == 0)
            break;
        rows++;
        for (int64_t s = 0; s < count; s++)
            begun += row[s].offset == 0;
    }
    memory_free(row);
    blend_destroy(&walk);
    return rows;
}

int loader_count_rows(int64_t *rows, const struct loader_settings *settings, double epochs, struct comm *world)
{
    struct loader_settings small = *settings; /* no memory for a whole batch */
    struct loader *loader;
    small.global_rows = small.micro_rows = 1;
    int code = loader_create(&loader, &small, world, 0, 1);
    if (code != ERROR_NONE)
        return code;
    const double windows = floor(epochs * (double)loader_windows(loader) + 0.5);
    *rows = world->rank == 0 ? count_rows(loader, (int64_t)MAX(windows, 1.0)) : 0;
    comm_broadcast(world, rows, sizeof *rows, 0);
    loader_destroy(loader);
    return ERROR_NONE;
}

struct store_share *loader_shares(const struct loader *loader, int64_t steps, int *stores)
{
    const struct store_list *list = &loader->set.list;
    const struct loader_settings *settings = &loader->settings;
    *stores = list->count;
    if (!list->weighted || list->count < 2)
        return NULL;
    struct store_share *shares = memory_allocate(list->count * (int64_t)sizeof *shares);
    for (int d = 0; d < list->count; d++)
        shares[d] = (struct store_share){list->paths[d], list->weights[d], loader->set.stores[d].epoch_windows,
                                         loader->set.stores[d].epoch_tokens, 0};
    store_epochs(shares, list->count, (double)steps * (double)settings->global_rows,
                 settings->format == LOADER_PADDED ? 0 : settings->row_tokens);
    return shares;
}

int64_t loader_steps_once(const struct loader *loader)
{
    return loader->steps_once;
}

/* Waits for the next step, and returns the previous step's slot to the thread. */
static struct loader_slot *take_step(struct loader *loader)
{
    pthread_mutex_lock(&loader->lock);
    while (loader->made == loader->handed_out)
        pthread_cond_wait(&loader->changed, &loader->lock);
    struct loader_slot *slot = &loader->slots[loader->handed_out++ % SLOTS];
    loader->wanted = loader->handed_out + 1;
    pthread_cond_broadcast(&loader->changed);
    pthread_mutex_unlock(&loader->lock);
    return slot;
}

const struct batch *loader_next(struct loader *loader)
{
    double start = clock_seconds();
    if (!loader->running)
        start_thread(loader); /* starts late, so that batches occupy memory only after the session has checked that the
                                 deck fits */
    struct loader_slot *slot = take_step(loader);
    blend_position_set(&loader->position, &slot->after);
    for (int64_t m = 0; m < loader->micro_batches; m++)
        slot->batches[m].number += (int64_t)((uint64_t)loader->step << 32);
    loader->step++;
    loader->wait_seconds += clock_seconds() - start;
    return slot->batches;
}

struct blend_position loader_position(const struct loader *loader)
{
    struct blend_position copy = blend_position_create(loader->source_count);
    blend_position_set(&copy, &loader->position);
    return copy;
}

int64_t loader_step(const struct loader *loader)
{
    return loader->step;
}

void loader_seek(struct loader *loader, const struct blend_position *position, int64_t step)
{
    stop_thread(loader);
    loader->step = step;
    blend_seek(&loader->blend, position);
    blend_position_set(&loader->position, position);
    start_thread(loader);
}

bool loader_has_position(const struct loader *loader, const struct blend_position *position)
{
    return blend_has(&loader->blend, position);
}

const struct data_provenance *loader_provenance(const struct loader *loader)
{
    return &loader->provenance;
}

struct blend_position loader_carry(const struct loader *loader, const struct blend_position *old, const int64_t *from)
{
    return blend_carry(&loader->blend, old, from);
}

const char *loader_store_path(const struct loader *loader, int64_t store)
{
    return loader->set.list.paths[store];
}

bool loader_has_megatron(const struct loader *loader)
{
    for (int d = 0; d < loader->set.list.count; d++)
        if (loader->set.stores[d].megatron != NULL)
            return true;
    return false;
}

const struct token_store *loader_labelled(const struct loader *loader)
{
    return loader->settings.task.head != DECK_HEAD_LM ? loader->set.stores[0].store : NULL;
}

bool loader_same_classes(const struct loader *a, const struct loader *b)
{
    return labelling_agrees(loader_labelled(a), loader_labelled(b));
}

void loader_count_classes(const struct loader *loader, int64_t *counts)
{
    labelling_count(&loader->settings.task, &loader->set, counts);
}

double loader_wait_seconds(const struct loader *loader)
{
    return loader->wait_seconds;
}

int64_t loader_vocabulary(const struct loader *loader)
{
    return loader->tokenizer->vocabulary;
}

const struct tokenizer *loader_tokenizer(const struct loader *loader)
{
    return loader->tokenizer;
}

int loader_open_tokenizer(const struct loader *loader, const struct tokenizer **tokenizer)
{
    *tokenizer = loader->random != NULL ? tokenizer_find(loader->tokenizer->name) : NULL;
    return loader->random != NULL ? ERROR_NONE : data_set_open_tokenizer(&loader->set.stores[0], tokenizer);
}

int loader_recheck(struct loader *loader, struct comm *world)
{
    return loader->random != NULL ? ERROR_NONE : store_set_recheck(&loader->set, world);
}

uint64_t loader_checksum(const struct loader *loader)
{
    return loader->random != NULL ? random_windows_checksum(loader->random) : store_set_checksum(&loader->set);
}
