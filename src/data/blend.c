#include "data/blend.h"
#include "base/error.h"

enum { EPOCH_BITS = 48 };
static const int64_t MOST_GIVEN = (int64_t)1 << 60; /* windows of all stores since the stream's start */

uint64_t blend_epoch(int store, int64_t epoch)
{
    return (uint64_t)store << EPOCH_BITS | (uint64_t)epoch;
}

/* Of `store` in its present epoch; stores of equal size have other orders. */
static void set_order(struct blend *blend, int store)
{
    struct blend_store *s = &blend->store[store];
    uint64_t epoch = blend_epoch(store, blend->position.epoch[store]);
    s->order = shuffle_create(s->windows->windows, blend->settings.seed, (int64_t)epoch);
}

struct blend blend_create(const struct blend_settings *settings, const struct window_source *const *windows,
                          const double *weights, int stores)
{
    struct blend blend = {.settings = *settings, .stores = stores};
    double largest = 0, sum = 0; /* the largest weight becomes 1, so that the sum is finite */
    for (int d = 0; d < stores; d++) {
        blend.store[d].windows = windows[d];
        blend.store[d].share = weights != NULL ? weights[d] : (double)windows[d]->windows;
        largest = blend.store[d].share > largest ? blend.store[d].share : largest;
    }
    for (int d = 0; d < stores; d++)
        sum += blend.store[d].share / largest;
    for (int d = 0; d < stores; d++)
        blend.store[d].share = blend.store[d].share / largest / sum;
    blend_seek(&blend, &(struct blend_position){0});
    return blend;
}

void blend_seek(struct blend *blend, const struct blend_position *position)
{
    blend->position = *position;
    blend->position.stores = blend->stores;
    for (int d = 0; d < blend->stores; d++) {
        CHECK_BUG(position->window[d] >= 0 && position->window[d] < blend->store[d].windows->windows);
        set_order(blend, d);
    }
}

bool blend_has(const struct blend *blend, const struct blend_position *position)
{
    for (int d = 0; d < blend->stores; d++) {
        const int64_t windows = blend->store[d].windows->windows, epoch = position->epoch[d];
        if (position->window[d] < 0 || position->window[d] >= windows || epoch < 0 || epoch >> (EPOCH_BITS - 1) != 0 ||
            epoch > MOST_GIVEN / blend->stores / windows)
            return false;
    }
    struct blend there = *blend;
    blend_seek(&there, position);
    if (position->offset == 0 || blend_ended(&there))
        return position->offset == 0;
    int store;
    const struct window next = blend_window(&there, &store);
    return position->offset > 0 && position->offset < window_length(&next);
}

bool blend_ended(const struct blend *blend)
{
    return blend->settings.once && blend->position.epoch[0] > 0;
}

/* Windows that a store has given since the stream's start. */
static int64_t given(const struct blend *blend, int d)
{
    return blend->position.epoch[d] * blend->store[d].windows->windows + blend->position.window[d];
}

static int next_store(const struct blend *blend)
{
    int64_t all = 0;
    for (int d = 0; d < blend->stores; d++)
        all += given(blend, d);
    int best = 0;
    double most = -1; /* the largest is positive, since all of them sum to 1 */
    for (int d = 0; d < blend->stores; d++) {
        double owed = blend->store[d].share * (double)(all + 1) - (double)given(blend, d);
        if (owed > most) {
            best = d;
            most = owed;
        }
    }
    return best;
}

struct window blend_window(struct blend *blend, int *store)
{
    int d = *store = next_store(blend);
    struct blend_store *s = &blend->store[d];
    int64_t place = blend->position.window[d];
    int64_t w = blend->settings.shuffle ? shuffle_at(&s->order, place) : place;
    return s->windows->class->locate(s->windows->self, w, &s->hint);
}

void blend_advance(struct blend *blend, int store)
{
    struct blend_position *position = &blend->position;
    position->offset = 0;
    if (++position->window[store] < blend->store[store].windows->windows)
        return;
    position->window[store] = 0;
    position->epoch[store]++;
    set_order(blend, store);
}
