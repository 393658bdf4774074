#include "loader/blend.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/range.h"
#include "loader/megatron_blend.h"

#include <string.h>

enum { EPOCH_BITS = 48, KEYS = 1 << 15 };
static const int64_t MOST_GIVEN = (int64_t)1
                                  << 60; /* limit of the number of windows since the stream's start, over all stores */

uint64_t blend_epoch(int64_t key, int64_t epoch)
{
    return (uint64_t)key << EPOCH_BITS | (uint64_t)epoch;
}

struct blend_position blend_position_create(int64_t stores)
{
    int64_t *numbers = memory_allocate(4 * stores * (int64_t)sizeof *numbers);
    struct blend_position position = {stores, numbers, numbers + stores, numbers + 2 * stores, numbers + 3 * stores, 0};
    for (int64_t d = 0; d < stores; d++)
        position.key[d] = d;
    return position;
}

void blend_position_set(struct blend_position *to, const struct blend_position *from)
{
    struct blend_position start = {0};
    if (from->stores == 0 && to->stores > 0) {
        start = blend_position_create(to->stores);
        from = &start;
    }
    CHECK_BUG(from->stores == to->stores);
    to->offset = from->offset;
    if (to->stores > 0)
        memcpy(to->epoch, from->epoch,
               (size_t)(4 * to->stores) * sizeof *to->epoch); /* one allocation has all four arrays */
    blend_position_destroy(&start);
}

void blend_position_destroy(struct blend_position *position)
{
    memory_free(position->epoch); /* start of the allocation of all four arrays */
    *position = (struct blend_position){0};
}

/* Makes the permutation of the store's current epoch; its key tells stores of equal size apart. */
static void set_order(struct data_blend *blend, int store)
{
    struct blend_store *s = &blend->store[store];
    uint64_t epoch = blend_epoch(blend->position.key[store], blend->position.epoch[store]);
    s->order = shuffle_create(s->windows->windows, blend->settings.seed, (int64_t)epoch);
    s->first_ahead = s->stop_ahead = 0;
}

static void normalise(double *shares, int count)
{
    double largest = 0, sum = 0; /* scaled by the largest share, so that the sum is finite */
    for (int d = 0; d < count; d++)
        largest = MAX(shares[d], largest);
    for (int d = 0; d < count; d++)
        sum += shares[d] / largest;
    for (int d = 0; d < count; d++)
        shares[d] = shares[d] / largest / sum;
}

struct data_blend blend_create(const struct blend_settings *settings, const struct window_source *const *windows,
                               const double *weights, int stores)
{
    struct data_blend blend = {.settings = *settings, .stores = stores, .position = blend_position_create(stores)};
    blend.store = memory_allocate(stores * (int64_t)sizeof *blend.store);
    double *shares = memory_allocate(stores * (int64_t)sizeof *shares);
    for (int d = 0; d < stores; d++)
        shares[d] = weights != NULL ? weights[d] : (double)windows[d]->windows;
    if (settings->megatron)
        megatron_blend_normalise(shares, stores);
    else
        normalise(shares, stores);
    for (int d = 0; d < stores; d++) {
        blend.store[d].windows = windows[d];
        blend.store[d].share = shares[d];
    }
    memory_free(shares);
    blend_seek(&blend, &(struct blend_position){0});
    return blend;
}

struct data_blend blend_copy(const struct data_blend *blend)
{
    struct data_blend copy = *blend;
    const int64_t bytes = blend->stores * (int64_t)sizeof *copy.store;
    copy.store = memory_allocate(bytes);
    memcpy(copy.store, blend->store, (size_t)bytes);
    copy.position = blend_position_create(blend->stores);
    blend_position_set(&copy.position, &blend->position);
    return copy;
}

void blend_destroy(struct data_blend *blend)
{
    memory_free(blend->store);
    blend->store = NULL;
    blend_position_destroy(&blend->position);
}

void blend_seek(struct data_blend *blend, const struct blend_position *position)
{
    blend_position_set(&blend->position, position);
    for (int d = 0; d < blend->stores; d++) {
        CHECK_BUG(blend->position.window[d] >= 0 && blend->position.window[d] < blend->store[d].windows->windows);
        set_order(blend, d);
    }
}

/* Returns the number of windows that store d has given between the stream's start and the position. */
static int64_t given_at(const struct data_blend *blend, const struct blend_position *position, int d)
{
    return position->epoch[d] * blend->store[d].windows->windows + position->window[d];
}

/* Returns whether the numbers are a valid position in store d that cannot overflow later. */
static bool has_place(const struct data_blend *blend, const struct blend_position *position, int d)
{
    const int64_t windows = blend->store[d].windows->windows, epoch = position->epoch[d];
    return position->window[d] >= 0 && position->window[d] < windows && epoch >= 0 && epoch >> (EPOCH_BITS - 1) == 0 &&
           epoch <= MOST_GIVEN / blend->stores / windows && position->key[d] >= 0 && position->key[d] < KEYS;
}

struct blend_position blend_carry(const struct data_blend *blend, const struct blend_position *old, const int64_t *from)
{
    struct blend_position position = blend_position_create(blend->stores);
    int64_t key = 0;
    for (int64_t d = 0; d < old->stores; d++)
        key = old->key[d] >= key ? old->key[d] + 1 : key;
    for (int d = 0; d < blend->stores; d++) {
        const bool stays = from[d] >= 0;
        position.key[d] = stays ? old->key[from[d]] : key++;
        position.epoch[d] = stays ? old->epoch[from[d]] : 0;
        position.window[d] = stays ? old->window[from[d]] : 0;
        position.before[d] = has_place(blend, &position, d) ? given_at(blend, &position, d) : 0;
    }
    return position;
}

bool blend_has(const struct data_blend *blend, const struct blend_position *position)
{
    if (position->stores != blend->stores)
        return false;
    for (int d = 0; d < blend->stores; d++)
        if (!has_place(blend, position, d) || position->before[d] < 0 ||
            position->before[d] > given_at(blend, position, d))
            return false;
    struct data_blend there = blend_copy(blend);
    blend_seek(&there, position);
    bool has = position->offset == 0;
    if (!has && !blend_ended(&there)) {
        int store;
        const struct token_window next = blend_window(&there, &store);
        has = position->offset > 0 && position->offset < window_length(&next);
    }
    blend_destroy(&there);
    return has;
}

bool blend_ended(const struct data_blend *blend)
{
    return blend->settings.once && blend->position.epoch[0] > 0;
}

/* Returns the number of windows that store d has given since the current blend began. */
static int64_t given(const struct data_blend *blend, int d)
{
    return given_at(blend, &blend->position, d) - blend->position.before[d];
}

static int next_store(const struct data_blend *blend)
{
    int64_t all = 0;
    for (int d = 0; d < blend->stores; d++)
        all += given(blend, d);
    int best = 0;
    double most = -1; /* the largest is positive, since the shares sum to 1 */
    for (int d = 0; d < blend->stores; d++) {
        const double share = blend->store[d].share;
        double owed = blend->settings.megatron ? megatron_blend_owed(share, all, given(blend, d))
                                               : share * (double)(all + 1) - (double)given(blend, d);
        if (owed > most) {
            best = d;
            most = owed;
        }
    }
    return best;
}

/* Locates the store's windows from index `first` of the epoch on. */
static void look_ahead(const struct data_blend *blend, struct blend_store *s, int64_t first)
{
    int64_t numbers[BLEND_AHEAD];
    s->first_ahead = first;
    s->stop_ahead = MIN(first + BLEND_AHEAD, s->windows->windows);
    for (int64_t i = first; i < s->stop_ahead; i++)
        numbers[i - first] = blend->settings.shuffle ? shuffle_at(&s->order, i) : i;
    s->windows->class->locate(s->windows->self, numbers, s->stop_ahead - first, s->ahead);
}

struct token_window blend_window(struct data_blend *blend, int *store)
{
    const int d = *store = next_store(blend);
    struct blend_store *s = &blend->store[d];
    const int64_t place = blend->position.window[d];
    if (place < s->first_ahead || place >= s->stop_ahead)
        look_ahead(blend, s, place);
    return s->ahead[place - s->first_ahead];
}

void blend_advance(struct data_blend *blend, int store)
{
    struct blend_position *position = &blend->position;
    position->offset = 0;
    if (++position->window[store] < blend->store[store].windows->windows)
        return;
    position->window[store] = 0;
    position->epoch[store]++;
    set_order(blend, store);
}
