#include "cuda/nccl_watchdog.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"

#include <time.h>

enum { WATCH_NANOSECONDS = 20 * 1000 * 1000 /* between two looks of a watchdog */ };

static int64_t microseconds; /* that watchdogs have found the device in collectives; added to and read atomically */

static int64_t count_of(const struct nccl_watchdog *w, int place)
{
    return (int64_t)__atomic_load_n(&w->seen[place], __ATOMIC_ACQUIRE);
}

static bool is_late(const struct nccl_watchdog *w, double since)
{
    return w->timeout > 0 && clock_seconds() - since > w->timeout;
}

/* name: of a collective, or of a call of NCCL in front of it */
static void give_up(const struct nccl_watchdog *w, const char *name, int64_t number, double waited)
{
    char missing[512];
    comm_missing(w->comm, missing, sizeof missing);
    error_fatal("%s number %lld of group \"%s\" has not finished on rank %d of its %d after %.0f s (comm.timeout); "
                "missing: %s",
                name, (long long)number, w->group->name, w->group->rank, w->group->size, waited, missing);
}

/* Looks at the oldest collective that is not done. */
static void follow(struct nccl_watchdog *w, int64_t oldest, const char *name)
{
    w->check(w->self, name);
    if (count_of(w, WATCHDOG_BEGUN) <= oldest)
        return;
    if (w->followed != oldest) {
        w->followed = oldest;
        w->since = clock_seconds();
    }
    if (is_late(w, w->since))
        give_up(w, name, oldest, clock_seconds() - w->since);
}

/* What went by since the last look counts whole, or not at all. */
static void sample(const struct nccl_watchdog *w, double since)
{
    const int64_t done = count_of(w, WATCHDOG_DONE); /* first: what begins in between is in a collective, too */
    if (count_of(w, WATCHDOG_BEGUN) > done)
        __atomic_fetch_add(&microseconds, (int64_t)(1e6 * (clock_seconds() - since)), __ATOMIC_RELAXED);
}

double nccl_watchdog_seconds(void)
{
    return 1e-6 * (double)__atomic_load_n(&microseconds, __ATOMIC_RELAXED);
}

static void *watch(void *self)
{
    struct nccl_watchdog *w = self;
    const struct timespec pause = {0, WATCH_NANOSECONDS};
    pthread_mutex_lock(&w->lock);
    while (!w->stop) {
        const int64_t done = count_of(w, WATCHDOG_DONE);
        if (done > w->finished) {
            w->finished = done;
            pthread_cond_broadcast(&w->changed);
        }
        if (w->inside == NULL && w->finished >= w->launched) {
            pthread_cond_wait(&w->changed, &w->lock);
            continue;
        }
        const char *inside = w->inside;
        const bool late = inside != NULL && is_late(w, w->inside_since);
        const int64_t oldest = w->finished;
        const char *name = oldest < w->launched ? w->names[oldest % WATCHDOG_PENDING] : NULL;
        pthread_mutex_unlock(&w->lock);
        if (late)
            give_up(w, inside, oldest, w->timeout);
        if (name != NULL)
            follow(w, oldest, name);
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
    w->followed = -1;
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

void nccl_watchdog_launched(void *self, const char *name)
{
    struct nccl_watchdog *w = self;
    pthread_mutex_lock(&w->lock);
    while (w->launched - w->finished == WATCHDOG_PENDING) /* so far ahead of the device */
        pthread_cond_wait(&w->changed, &w->lock);
    w->names[w->launched++ % WATCHDOG_PENDING] = name;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

void nccl_watchdog_drain(struct nccl_watchdog *w)
{
    pthread_mutex_lock(&w->lock);
    while (w->finished < w->launched)
        pthread_cond_wait(&w->changed, &w->lock);
    pthread_mutex_unlock(&w->lock);
}
