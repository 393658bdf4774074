/* Communicators over MPI (MPI-3.1; FUNNELED: only the main thread calls). Counts of MPI are int, so large transfers
 * are cut. */
#include "base/error.h"
#include "base/memory.h"
#include "comm/comm.h"

#include <mpi.h>

enum { PIECE_BYTES = 1 << 30 };

struct mpi_comm {
    MPI_Comm handle;
};

static MPI_Comm handle_of(const struct comm *comm)
{
    return ((const struct mpi_comm *)comm->self)->handle;
}

static void verify(int status, const char *what)
{
    if (status == MPI_SUCCESS)
        return;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    MPI_Error_string(status, text, &length);
    error_fatal("%s: %s", what, text);
}

static void mpi_barrier(struct comm *comm)
{
    verify(MPI_Barrier(handle_of(comm)), "MPI_Barrier");
}

static void mpi_broadcast(struct comm *comm, void *data, int64_t bytes, int root)
{
    for (int64_t done = 0; done < bytes; done += PIECE_BYTES) {
        int64_t piece = bytes - done < PIECE_BYTES ? bytes - done : PIECE_BYTES;
        verify(MPI_Bcast((char *)data + done, (int)piece, MPI_BYTE, root, handle_of(comm)), "MPI_Bcast");
    }
}

/* The callers of these two cut their data: checkpoints' tables and reductions stay far below the limit. */
static int checked_count(int64_t bytes, const char *what)
{
    if (bytes > PIECE_BYTES)
        error_fatal("%s: %lld bytes a rank are more than one call moves (%d)", what, (long long)bytes, PIECE_BYTES);
    return (int)bytes;
}

static void mpi_all_gather(struct comm *comm, const void *in, void *out, int64_t bytes)
{
    int count = checked_count(bytes, "MPI_Allgather");
    verify(MPI_Allgather(in, count, MPI_BYTE, out, count, MPI_BYTE, handle_of(comm)), "MPI_Allgather");
}

static void mpi_all_to_all(struct comm *comm, const void *in, void *out, int64_t bytes)
{
    int count = checked_count(bytes, "MPI_Alltoall");
    verify(MPI_Alltoall(in, count, MPI_BYTE, out, count, MPI_BYTE, handle_of(comm)), "MPI_Alltoall");
}

static struct comm *wrap(MPI_Comm handle);

static struct comm *mpi_split(struct comm *comm, int color)
{
    MPI_Comm part;
    verify(MPI_Comm_split(handle_of(comm), color, comm->rank, &part), "MPI_Comm_split");
    return wrap(part);
}

static struct comm *mpi_split_node(struct comm *comm)
{
    MPI_Comm part;
    verify(MPI_Comm_split_type(handle_of(comm), MPI_COMM_TYPE_SHARED, comm->rank, MPI_INFO_NULL, &part),
           "MPI_Comm_split_type");
    return wrap(part);
}

static void mpi_destroy(struct comm *comm)
{
    struct mpi_comm *own = comm->self;
    MPI_Comm_free(&own->handle);
    memory_free(own);
}

static const struct comm_class mpi_class = {mpi_barrier, mpi_broadcast,  mpi_all_gather, mpi_all_to_all,
                                            mpi_split,   mpi_split_node, mpi_destroy};

static struct comm *wrap(MPI_Comm handle)
{
    struct mpi_comm *own = memory_allocate(sizeof *own);
    struct comm *comm = memory_allocate(sizeof *comm);
    own->handle = handle;
    verify(MPI_Comm_set_errhandler(handle, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    *comm = (struct comm){0, 1, &mpi_class, own};
    verify(MPI_Comm_rank(handle, &comm->rank), "MPI_Comm_rank");
    verify(MPI_Comm_size(handle, &comm->size), "MPI_Comm_size");
    return comm;
}

struct comm *comm_open_mpi(void)
{
    MPI_Comm world;
    verify(MPI_Comm_dup(MPI_COMM_WORLD, &world), "MPI_Comm_dup");
    return wrap(world);
}
