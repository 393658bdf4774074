#include "base/signals.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

/* Handlers run in any thread: lock-free atomics are what both a handler and other threads may touch. */
_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "a signal handler may use lock-free atomics alone");
static atomic_int wishes, ending; /* ending: a TERM or INT has come */

static void note(int number)
{
    if ((number == SIGTERM || number == SIGINT) && atomic_exchange(&ending, 1)) {
        signal(number, SIG_DFL); /* delivered when this handler returns */
        raise(number);
        return;
    }
    atomic_fetch_or(&wishes, number == SIGUSR2 ? SIGNALS_SAVE : SIGNALS_STOP);
}

void signals_catch(void)
{
    static const int caught[] = {SIGUSR1, SIGUSR2, SIGTERM, SIGINT};
    struct sigaction action, before;
    memset(&action, 0, sizeof action);
    action.sa_handler = note;
    action.sa_flags = SA_RESTART; /* no read or write fails for a signal */
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof caught / sizeof *caught; i++) {
        bool may_ignore = caught[i] == SIGTERM || caught[i] == SIGINT;
        sigaction(caught[i], &action, &before);
        if (may_ignore && before.sa_handler == SIG_IGN) /* a background job keeps ignoring the terminal */
            sigaction(caught[i], &before, NULL);
    }
}

int signals_pending(void)
{
    return atomic_load(&wishes);
}

int signals_take_save(void)
{
    return (atomic_fetch_and(&wishes, ~SIGNALS_SAVE) & SIGNALS_SAVE) != 0;
}

bool signals_stopping(void)
{
    return (signals_pending() & SIGNALS_STOP) != 0;
}
