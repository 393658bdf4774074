#include "base/signals.h"
#include "base/clock.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static atomic_int requests;
static sigset_t caught;

/* Ends the process as the signal does by default; this thread unblocks it first. */
static void end_by(int number)
{
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, number);
    signal(number, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &only, NULL);
    raise(number);
}

/* Signals closer together count as one: timeout(1) sends its signal to the process and to its group. */
static const double ONE_SIGNAL_SECONDS = 0.2;

/* Waits for signals as long as the process lives. */
static void *listen(void *nothing)
{
    double first_end = INFINITY; /* when the first TERM or INT came */
    for (int number; sigwait(&caught, &number) == 0;) {
        double now = clock_seconds();
        bool end = number == SIGTERM || number == SIGINT;
        if (end && now > first_end + ONE_SIGNAL_SECONDS)
            end_by(number);
        first_end = end ? fmin(first_end, now) : first_end;
        atomic_fetch_or(&requests, number == SIGUSR2 ? SIGNALS_SAVE : end ? SIGNALS_STOP | SIGNALS_END : SIGNALS_STOP);
    }
    return nothing;
}

void signals_catch(void)
{
    static const int numbers[] = {SIGUSR1, SIGUSR2, SIGTERM, SIGINT, SIGHUP};
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&caught);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction before;
        sigaction(numbers[i], NULL, &before);
        bool may_ignore = numbers[i] != SIGUSR1 && numbers[i] != SIGUSR2;
        if (may_ignore && before.sa_handler == SIG_IGN)
            continue; /* keeps a background job immune to terminal signals, and a nohup job to its end */
        signal(numbers[i], SIG_DFL);
        sigaddset(&caught, numbers[i]);
    }
    /* later threads inherit the mask, so no other thread is ever interrupted */
    pthread_sigmask(SIG_BLOCK, &caught, NULL);
    pthread_t thread;
    int failure = pthread_create(&thread, NULL, listen, NULL);
    if (failure != 0) { /* not error_fatal, which polls signals itself */
        fprintf(stderr, "cistron: a thread that waits for signals cannot be started: %s\n", strerror(failure));
        exit(EXIT_FAILURE);
    }
    pthread_detach(thread);
}

int signals_pending(void)
{
    return atomic_load(&requests);
}

int signals_take_save(void)
{
    return (atomic_fetch_and(&requests, ~SIGNALS_SAVE) & SIGNALS_SAVE) != 0;
}

bool signals_stopping(void)
{
    return (signals_pending() & SIGNALS_STOP) != 0;
}
