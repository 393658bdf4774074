#include "base/thread.h"
#include "base/error.h"

#include <signal.h>
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
