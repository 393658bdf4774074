#include "base/thread.h"
#include "base/error.h"
#include "base/memory.h"

#include <signal.h>
#include <stdbool.h>
#include <string.h>

pthread_t thread_start(void *(*run)(void *self), void *self, const char *whose)
{
    pthread_t thread;
    sigset_t masked, before;
    sigfillset(&masked);
    sigdelset(&masked, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &masked, &before);
    const int failure = pthread_create(&thread, NULL, run, self);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failure != 0)
        error_fatal("%s cannot start a thread: %s", whose, strerror(failure));
    return thread;
}

int thread_each(int64_t count, int threads, int (*work)(void *self, int64_t i), void *self)
{
    bool *failed = memory_allocate(count * (int64_t)sizeof *failed);
    int code = ERROR_NONE;
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (count > 1)
    for (int64_t i = 0; i < count; i++) {
        failed[i] = work(self, i) != ERROR_NONE;
        if (failed[i])
            error_clear();
    }
    for (int64_t i = 0; i < count && code == ERROR_NONE; i++)
        if (failed[i])
            code = work(self, i);
    memory_free(failed);
    return code;
}
