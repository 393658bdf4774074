#include "cuda/nccl_watchdog.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/thread.h"
#include "base/waiting.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

enum { WATCH_NANOSECONDS = 20 * 1000 * 1000 /* between two checks of a watchdog */, LEAST_ROOM = 64 };

static int64_t microseconds; /* sampled time of the device in collectives; accessed atomically */

static int64_t count_of(const struct nccl_watchdog *w, int stream, int place)
{
    return (int64_t)__atomic_load_n(&w->seen[stream][place], __ATOMIC_ACQUIRE);
}

static bool is_late(const struct nccl_watchdog *w, double since)
{
    return w->timeout > 0 && clock_seconds() - since > w->timeout;
}

/* Ends the run. what: the collective or NCCL call that has not finished. */
static void give_up(const struct nccl_watchdog *w, const char *what, double since)
{
    const double waited = clock_seconds() - since;
    char missing[512];
    comm_missing(w->comm, missing, sizeof missing);
    error_fatal("%s of group \"%s\" has not finished on rank %d of its %d after %.0f s (comm.timeout); missing: %s",
                what, w->group->name, w->group->rank, w->group->size, waited, missing);
}

/* The functions from here to sample are called with the lock held. */
static struct nccl_launch oldest_of(const struct nccl_queue *q)
{
    return q->pending[q->finished % q->room];
}

static bool is_pending(const struct nccl_queue *q)
{
    return q->finished < q->launched;
}

static bool any_pending(const struct nccl_watchdog *w)
{
    bool any = false;
    for (int s = 0; s < STREAM_COUNT; s++)
        any = any || is_pending(&w->queues[s]);
    return any;
}

/* Updates the collectives that the device has ended, and starts the clocks of those that it has started. */
static void update(struct nccl_watchdog *w)
{
    for (int s = 0; s < STREAM_COUNT; s++) {
        struct nccl_queue *q = &w->queues[s];
        const int64_t done = count_of(w, s, WATCHDOG_DONE);
        q->finished = done > q->finished ? done : q->finished;
        if (is_pending(q) && count_of(w, s, WATCHDOG_BEGUN) > q->finished && q->followed != q->finished) {
            q->followed = q->finished;
            q->since = clock_seconds();
        }
    }
}

/* Returns when the device started the oldest collective of a queue; infinity before that. */
static double start_of(const struct nccl_queue *q)
{
    return q->followed == q->finished ? q->since : HUGE_VAL;
}

/* Returns the queue whose oldest collective was started first, or, if none was started, launched first. NULL: none in
 * flight. */
static const struct nccl_queue *oldest_queue(const struct nccl_watchdog *w)
{
    const struct nccl_queue *oldest = NULL;
    for (int s = 0; s < STREAM_COUNT; s++) {
        const struct nccl_queue *q = &w->queues[s];
        if (is_pending(q) && (oldest == NULL || start_of(q) < start_of(oldest) ||
                              (start_of(q) == start_of(oldest) && oldest_of(q).number < oldest_of(oldest).number)))
            oldest = q;
    }
    return oldest;
}

static bool is_in_collective(const struct nccl_watchdog *w)
{
    bool is = false;
    for (int s = 0; s < STREAM_COUNT; s++) {
        const int64_t done = count_of(w, s, WATCHDOG_DONE); /* read first: what starts in between counts */
        is = is || count_of(w, s, WATCHDOG_BEGUN) > done;
    }
    return is;
}

/* Adds the whole time since the last check if the device is in a collective now. */
static void sample(const struct nccl_watchdog *w, double since)
{
    if (is_in_collective(w))
        __atomic_fetch_add(&microseconds, (int64_t)(1e6 * (clock_seconds() - since)), __ATOMIC_RELAXED);
}

double nccl_watchdog_seconds(void)
{
    return 1e-6 * (double)__atomic_load_n(&microseconds, __ATOMIC_RELAXED);
}

/* Checks a collective, whether the device has started it or not. */
static void follow(const struct nccl_watchdog *w, struct nccl_launch launch, double started)
{
    char what[128];
    w->check(w->self, launch.name);
    snprintf(what, sizeof what, "%s number %lld", launch.name, (long long)launch.number);
    if (is_late(w, started))
        give_up(w, what, started);
}

static void *watch(void *self)
{
    struct nccl_watchdog *w = self;
    const struct timespec pause = {0, WATCH_NANOSECONDS};
    pthread_mutex_lock(&w->lock);
    while (!w->stop) {
        update(w);
        const struct nccl_queue *q = oldest_queue(w);
        if (w->inside == NULL && q == NULL) {
            pthread_cond_wait(&w->changed, &w->lock);
            continue;
        }
        const struct nccl_launch oldest = q != NULL ? oldest_of(q) : (struct nccl_launch){0};
        const double started = q != NULL ? start_of(q) : HUGE_VAL, entered = w->inside_since;
        const char *inside = w->inside;
        pthread_mutex_unlock(&w->lock);
        if (q != NULL)
            follow(w, oldest, started);
        if (inside != NULL && is_late(w, entered))
            give_up(w, inside, entered);
        const double slept = clock_seconds();
        nanosleep(&pause, NULL);
        sample(w, slept);
        pthread_mutex_lock(&w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

void nccl_watchdog_start(struct nccl_watchdog *w)
{
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    for (int i = 0; i < STREAM_COUNT; i++)
        w->queues[i] = (struct nccl_queue){.watchdog = w, .followed = -1};
    w->thread = thread_start(watch, w, "a watchdog of collectives");
}

void nccl_watchdog_stop(struct nccl_watchdog *w)
{
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    for (int i = 0; i < STREAM_COUNT; i++)
        memory_free(w->queues[i].pending);
}

void nccl_watchdog_enter(struct nccl_watchdog *w, const char *name)
{
    pthread_mutex_lock(&w->lock);
    w->inside = name;
    w->inside_since = clock_seconds();
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

void nccl_watchdog_leave(struct nccl_watchdog *w)
{
    pthread_mutex_lock(&w->lock);
    w->inside = NULL;
    pthread_mutex_unlock(&w->lock);
}

/* Doubles the capacity for collectives in flight. */
static void grow(struct nccl_queue *q)
{
    const int64_t room = q->room > 0 ? 2 * q->room : LEAST_ROOM;
    struct nccl_launch *pending = memory_allocate(room * (int64_t)sizeof *pending);
    for (int64_t i = q->finished; i < q->launched; i++)
        pending[i % room] = q->pending[i % q->room];
    memory_free(q->pending);
    q->pending = pending;
    q->room = room;
}

void nccl_watchdog_launched(void *queue, const char *name)
{
    struct nccl_queue *q = queue;
    struct nccl_watchdog *w = q->watchdog;
    pthread_mutex_lock(&w->lock);
    if (q->launched - q->finished == q->room)
        update(w);
    if (q->launched - q->finished == q->room)
        grow(q);
    q->pending[q->launched++ % q->room] = (struct nccl_launch){name, w->launched++};
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

void nccl_watchdog_drain(struct nccl_watchdog *w)
{
    struct rank_waiting waiting = {0};
    bool waits = true;
    while (waits) {
        pthread_mutex_lock(&w->lock);
        update(w);
        waits = any_pending(w);
        pthread_mutex_unlock(&w->lock);
        if (waits)
            comm_attend(waiting_turn(&waiting));
    }
}
