/* What only the whole program knows: how ranks are started and which executors there are. */
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/launcher.h"
#include "command/command.h"
#include "cpu/cpu.h"

#include <mpi.h>
#include <stdio.h>

static void dump_launches(void)
{
    launch_dump(stderr);
}

static void abort_all_ranks(void)
{
    MPI_Abort(MPI_COMM_WORLD, ERROR_ENVIRONMENT);
}

static int with_ranks(int (*body)(struct comm *world, void *self), void *self)
{
    int provided;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS || provided < MPI_THREAD_FUNNELED)
        return error_environment("MPI_Init_thread: this MPI does not support MPI_THREAD_FUNNELED");
    struct comm *world = comm_open_mpi();
    log_open(world->rank);
    error_on_fatal(dump_launches);
    error_on_fatal(abort_all_ranks);
    int code = launcher_check(world->size);
    if (code == ERROR_NONE)
        code = body(world, self);
    else if (launcher_rank() != 0)
        error_clear(); /* place 0 says it */
    comm_destroy(world);
    MPI_Finalize();
    return code;
}

int main(int argc, char **argv)
{
    static const struct environment environment = {cpu_executor_create, with_ranks};
    clock_seconds();
    return command_main(&environment, argc, argv);
}
