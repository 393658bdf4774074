/* Signals for tests of what polls them. */
#ifndef TESTS_SIGNALLING_H
#define TESTS_SIGNALLING_H

#include "base/signals.h"

#include <sched.h>
#include <signal.h>
#include <unistd.h>

/* A signal to this process, as from outside; its wish stands when this returns. */
static inline void signal_send(int number, int wish)
{
    kill(getpid(), number);
    while (!(signals_pending() & wish))
        sched_yield();
}

#endif
