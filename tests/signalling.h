/* Sends signals, for tests of code that polls them. */
#ifndef TESTS_SIGNALLING_H
#define TESTS_SIGNALLING_H

#include "base/signals.h"

#include <sched.h>
#include <signal.h>
#include <unistd.h>

/* Sends a signal to this process, and returns when its request is pending. */
static inline void signal_send(int number, int request)
{
    kill(getpid(), number);
    while (!(signals_pending() & request))
        sched_yield();
}

#endif
