#include "file/temporary.h"
#include "base/memory.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_PATHS = 16, SIGNALS = 5 };

static const int caught[SIGNALS] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
static struct sigaction before[SIGNALS];
static char paths[MAX_PATHS][PATH_MAX];
static volatile sig_atomic_t used[MAX_PATHS]; /* set after the path is complete: the handler may run at any time */

char *temporary_shared(const char *path)
{
    return memory_format("%s" TEMPORARY_SHARED, path);
}

char *temporary_own(const char *path)
{
    return memory_format("%s" TEMPORARY_OWN "%ld", path, (long)getpid());
}

static void remove_and_die(int number)
{
    for (int i = 0; i < MAX_PATHS; i++)
        if (used[i])
            unlink(paths[i]);
    signal(number, SIG_DFL);
    raise(number);
}

void temporary_catch_signals(void)
{
    for (int i = 0; i < SIGNALS; i++) {
        struct sigaction action;
        memset(&action, 0, sizeof action);
        action.sa_handler = remove_and_die;
        sigemptyset(&action.sa_mask);
        sigaction(caught[i], &action, &before[i]);
        if (before[i].sa_handler == SIG_IGN) /* keep signals ignored that nohup ignores */
            sigaction(caught[i], &before[i], NULL);
    }
}

void temporary_release_signals(void)
{
    for (int i = 0; i < SIGNALS; i++)
        sigaction(caught[i], &before[i], NULL);
}

void temporary_register(const char *path)
{
    for (int i = 0; i < MAX_PATHS; i++)
        if (!used[i] && strlen(path) < PATH_MAX) {
            strcpy(paths[i], path);
            used[i] = 1;
            return;
        }
}

void temporary_forget(const char *path)
{
    for (int i = 0; i < MAX_PATHS; i++)
        if (used[i] && strcmp(paths[i], path) == 0)
            used[i] = 0;
}
