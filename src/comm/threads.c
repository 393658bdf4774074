#include "comm/threads.h"
#include "base/memory.h"

#include <sched.h>
#include <unistd.h>

int threads_for_rank(struct comm *node, int *idle)
{
    cpu_set_t own, covered;
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
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    int unused = (int)online - CPU_COUNT(&covered);
    *idle = unused > 0 ? unused : 0;
    return share < 1 ? 1 : (int)(share + 1e-6);
}
