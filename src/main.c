/* The main program. Only it knows how ranks are started and which executors exist. */
#include "base/build.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/waiting.h"
#include "comm/launcher.h"
#include "command/command.h"
#include "cpu/cpu.h"
#include "file/hdf5_open.h"
#include "deck/deck.h"
#ifdef CISTRON_CUDA
#include "cuda/cuda.h"
#endif

#include <fcntl.h>
#include <limits.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void dump_launches(void)
{
    launch_dump(stderr);
}

static void leave_aborted(int number)
{
    (void)number;
    _exit(ERROR_ENVIRONMENT);
}

enum { ABORT_SECONDS = 10 /* that MPI_Abort may take */ };

/* Ends all ranks. MPI_Abort waits for the launcher, and forever on a host that has lost its network, so it has a time
 * limit. Only the main thread may call MPI (FUNNELED). If another thread fails (watchdog, loader, checkpoint
 * writer), the process exits without MPI; the launcher notices this and ends the other ranks. */
static void abort_all_ranks(void)
{
    int main_thread;
    MPI_Is_thread_main(&main_thread); /* allowed in any thread */
    if (!main_thread)
        _exit(ERROR_ENVIRONMENT);
    signal(SIGALRM, leave_aborted);
    alarm(ABORT_SECONDS);
    MPI_Abort(MPI_COMM_WORLD, ERROR_ENVIRONMENT);
}

static void leave_alone(int number)
{
    static const char text[] =
        "cistron: a rank has not reached the end of the program within comm.timeout; all work was completed\n";
    (void)number;
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    _exit(ERROR_ENVIRONMENT);
}

enum { FINALIZE_SECONDS = 10 /* that MPI_Finalize itself may take */ };

/* Calls MPI_Finalize with a time limit, because it may wait forever when all work is done. */
static void finalize(void)
{
    const double limit = comm_limit() + FINALIZE_SECONDS;
    if (limit > FINALIZE_SECONDS && limit < UINT_MAX) {
        signal(SIGALRM, leave_alone);
        alarm((unsigned)limit);
    }
    MPI_Finalize();
    alarm(0);
}

/* Checks that all ranks run the same build; other builds may send messages of another form. Collective; an agreed
 * code. */
static int check_build(struct comm *world)
{
    char mine[BUILD_ID_BYTES], first[BUILD_ID_BYTES], host[256] = "?";
    build_id(mine);
    gethostname(host, sizeof host - 1);
    memcpy(first, mine, sizeof first);
    comm_broadcast(world, first, sizeof first, 0);
    return comm_agree(world, strcmp(mine, first) == 0
                                 ? ERROR_NONE
                                 : error_user("this rank, on %s, runs another build of cistron than rank 0 (build ID "
                                              "%.8s, not %.8s); install the same program on all nodes",
                                              host, mine, first));
}

/* Drops the message on all ranks but 0: all processes find the same mistake of the launch. */
static void report_once(void)
{
    if (launcher_rank() != 0)
        error_clear();
}

static int with_ranks(int (*body)(struct comm *world, void *self), void *self)
{
    int provided;
#if defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION < 5
    if (launcher_check_start() != ERROR_NONE) {
        report_once();
        return ERROR_USER;
    }
    launcher_isolate();
#endif
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS || provided < MPI_THREAD_FUNNELED)
        return error_environment("MPI_Init_thread: this MPI does not support MPI_THREAD_FUNNELED");
    struct comm *world = comm_open_mpi();
    log_open(world->rank);
    error_on_fatal(dump_launches, abort_all_ranks);
    int code = launcher_check(world->size);
    if (code == ERROR_NONE)
        code = check_build(world);
    else
        report_once();
    if (code == ERROR_NONE)
        code = body(world, self);
    comm_destroy(world);
    finalize();
    return code;
}

#ifdef CISTRON_GEMM_DNNL
#define CPU_FEATURES "executor cpu with oneDNN"
#else
#define CPU_FEATURES "executor cpu with CBLAS"
#endif

static const char *features(void)
{
#ifdef CISTRON_CUDA
    static char text[128];
    snprintf(text, sizeof text, CPU_FEATURES "; executor cuda with %s", cuda_versions());
    return text;
#else
    return CPU_FEATURES;
#endif
}

static int refuse_cuda(const struct device_request *request, const char *why)
{
    return comm_agree(request->world, error_user("key device.kind = \"cuda\": %s; use \"cpu\" or \"auto\"", why));
}

/* "auto" chooses GPUs if every rank has one. */
static int make_kind(struct executor **executor, const struct device_request *request)
{
#ifdef CISTRON_CUDA
    /* counting the GPUs starts the driver, which the kind "cpu" avoids */
    if (request->kind != DECK_DEVICE_CPU && comm_sum_i64(request->world, cuda_device_count() == 0) == 0)
        return cuda_executor_make(executor, request);
    const char *why = "a rank finds no GPU";
#else
    const char *why = "this build has no CUDA executor";
#endif
    if (request->kind == DECK_DEVICE_CUDA)
        return refuse_cuda(request, why);
    return cpu_executor_make(executor, request);
}

static int make_executor(struct executor **executor, const struct device_request *request)
{
    int code = make_kind(executor, request);
    if (code == ERROR_NONE && request->world != NULL)
        (*executor)->node_block = comm_node_block(request->world, request->node);
    return code;
}

/* Opens closed standard streams as /dev/null. Otherwise the next file or socket that the program or MPI opens would
 * have the number of a standard stream, and receive its output. */
static void open_standard_streams(void)
{
    int descriptor;
    do
        descriptor = open("/dev/null", O_RDWR);
    while (descriptor >= 0 && descriptor <= STDERR_FILENO);
    if (descriptor >= 0)
        close(descriptor);
}

int main(int argc, char **argv)
{
    static const struct command_environment environment = {features, make_executor, with_ranks};
    open_standard_streams();
    waiting_choose(argv);
    signal(SIGXFSZ, SIG_IGN); /* a write beyond the file size limit then fails with an error, which is reported */
    hdf5_prepare();
    clock_seconds();
    return command_main(&environment, argc, argv);
}
