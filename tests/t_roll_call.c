/* A hang of many ranks is reported once, by few messages: ranks that wait for the last one call the roll in turn, not
 * all at once (comm/mpi.c). The messages are counted by an MPI_Isend of this test's own.
 *
 * ranks: 8 */
#include "check.h"

#include "comm/comm.h"

#include <mpi.h>
#include <unistd.h>

enum { LIMIT = 40, LATE = 4 /* a tenth of it */, SLEEP = LATE + 6 /* three turns */, TAG_CALL = 1 };

static int64_t calls;

/* The linker takes this one instead of MPI's, which has PMPI_Isend as another name. */
int MPI_Isend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request)
{
    calls += comm == MPI_COMM_WORLD && count == 0 && tag == TAG_CALL;
    return PMPI_Isend(data, count, type, to, tag, comm, request);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    struct comm *world = comm_open_mpi();
    const int ranks = world->size;
    comm_set_timeout(LIMIT);
    if (world->rank == ranks - 1)
        sleep(SLEEP);
    comm_barrier(world);
    comm_set_timeout(0);
    const int64_t all = comm_sum_i64(world, calls);
    if (world->rank == 0)
        CHECK(calls == ranks - 1);
    CHECK(all >= ranks - 1 && all <= 3 * (ranks - 1)); /* each of ranks 1 and 2 may have missed rank 0's call */
    comm_destroy(world);
    MPI_Finalize();
    return check_end();
}
