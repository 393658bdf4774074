#include "base/waiting.h"
#include "base/clock.h"
#include "base/range.h"

#include <limits.h>
#include <link.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <time.h>
#include <unistd.h>

/* Spins of a thread at OpenMP's barriers, of some 10 to 40 ns each, and of a rank that waits for others, each with one
 * poll of MPI. */
#define THREAD_SPINS "1000"
enum { RANK_SPINS = 100 };

/* After spinning, a rank yields for YIELD_SECONDS; then it sleeps for a share of the time waited so far, so that a wait
 * is only slightly longer than necessary. */
static const double YIELD_SECONDS = 2e-4, SLEEP_SHARE = 1.0 / 64, LONGEST_SLEEP = 2e-3;

static int is_libgomp(struct dl_phdr_info *info, size_t bytes, void *unused)
{
    (void)bytes, (void)unused;
    return strstr(info->dlpi_name, "libgomp") != NULL;
}

void waiting_choose(char **argv)
{
    if (getenv("GOMP_SPINCOUNT") != NULL || getenv("OMP_WAIT_POLICY") != NULL || !dl_iterate_phdr(is_libgomp, NULL))
        return;
    if (getauxval(AT_BASE) == 0) /* started by an explicit loader, which is then /proc/self/exe */
        return;
    char program[PATH_MAX]; /* its real path, whose name ps shows */
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length < 0 || setenv("GOMP_SPINCOUNT", THREAD_SPINS, 1) != 0)
        return;
    program[length] = '\0';
    execv(program, argv); /* if execv fails, this run continues with longer spins */
}

double waiting_turn(struct rank_waiting *waiting)
{
    if (waiting->turns++ < RANK_SPINS)
        return 0;
    const double now = clock_seconds();
    if (waiting->since == 0)
        waiting->since = now;
    const double waited = now - waiting->since;
    if (waited < YIELD_SECONDS) {
        sched_yield();
        return waited;
    }
    const double sleep = MIN(waited * SLEEP_SHARE, LONGEST_SLEEP);
    nanosleep(&(struct timespec){.tv_nsec = (long)(1e9 * sleep)}, NULL);
    return waited;
}
