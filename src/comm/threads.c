#include "comm/threads.h"
#include "base/available.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/range.h"
#include "deck/deck.h"

#include <omp.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

int threads_for_rank(struct comm *node, int *idle)
{
    cpu_set_t own, covered, launcher;
    CPU_ZERO(&own);
    if (sched_getaffinity(0, sizeof own, &own) != 0)
        CPU_SET(0, &own);
    cpu_set_t *all = memory_allocate((int64_t)sizeof own * node->size);
    comm_all_gather(node, &own, all, sizeof own);

    /* A CPU that n masks share counts 1 / n for each of them. */
    double share = 0;
    CPU_ZERO(&covered);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        int users = 0;
        for (int r = 0; r < node->size; r++)
            users += CPU_ISSET(cpu, &all[r]) != 0;
        if (users > 0)
            CPU_SET(cpu, &covered);
        if (CPU_ISSET(cpu, &own))
            share += 1.0 / users;
    }
    memory_free(all);
    const double quota = available_cpus("") / node->size; /* of a container with all ranks of the node */
    share = MIN(quota, share);
    /* CPUs that a batch system or container withholds from the launcher too are not idle. */
    CPU_ZERO(&launcher);
    if (sched_getaffinity(getppid(), sizeof launcher, &launcher) != 0)
        CPU_ZERO(&launcher);
    *idle = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        *idle += CPU_ISSET(cpu, &launcher) && !CPU_ISSET(cpu, &covered);
    return share < 1 ? 1 : (int)(share + 1e-6);
}

int threads_asked(int64_t wanted)
{
    const char *environment = getenv("OMP_NUM_THREADS");
    int threads = wanted > 0 ? (int)wanted : environment != NULL ? atoi(environment) : 0;
    return threads < 0 ? 0 : threads < DECK_MAXIMUM_THREADS ? threads : DECK_MAXIMUM_THREADS;
}

int threads_choose(struct comm *node, int64_t wanted)
{
    int idle, threads = threads_for_rank(node, &idle), asked = threads_asked(wanted);
    if (asked > threads)
        log_warn(
            "%d threads of each rank share %d CPUs, which is slow; set device.threads = 0 and unset OMP_NUM_THREADS",
            asked, threads);
    if (asked == 0 && idle > 0) /* rank 0 suffices: a launcher binds all nodes alike */
        log_warn("%d CPUs of this node are outside the affinity masks of its ranks and stay idle; start mpirun with "
                 "--bind-to none or --map-by slot:PE=n",
                 idle);
    threads = asked > 0 ? asked : threads;
    omp_set_num_threads(
        threads); /* otherwise regions without num_threads, such as initial weights, would use every CPU */
    return threads;
}
