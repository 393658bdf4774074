#include "comm/launcher.h"
#include "base/error.h"

#include <stddef.h>
#include <stdlib.h>

/* The environment variables in which launchers describe their processes (spec/formats.md 1.3 for Slurm). */
static const struct launcher {
    const char *name, *size, *rank; /* size, rank: environment variables */
} launchers[] = {
    {"Open MPI's mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
    {"the mpiexec of MPICH or one of its kind", "PMI_SIZE", "PMI_RANK"},
    {"the mpiexec of MPICH or one of its kind", "MPI_LOCALNRANKS", "MPI_LOCALRANKID"},
    {"srun", "SLURM_NTASKS", "SLURM_PROCID"},
};

enum { LAUNCHERS = sizeof launchers / sizeof launchers[0], SRUN = LAUNCHERS - 1 };

/* Returns whether this is a task of an srun. Batch scripts have SLURM_NTASKS too, and under mpirun it counts mpirun's
 * daemons. */
static bool is_srun_task(void)
{
    const char *step = getenv("SLURM_STEP_ID");
    const unsigned long slurms_own =
        0xfffffff0; /* step ids of the batch script and salloc's shell, which are single processes */
    return step != NULL && strtoul(step, NULL, 10) < slurms_own && getenv("SLURM_NTASKS") != NULL &&
           getenv("OMPI_COMM_WORLD_SIZE") == NULL;
}

/* Returns the launcher that started this process as one of several, NULL if none did. */
static const struct launcher *find_launcher(void)
{
    for (int i = 0; i < LAUNCHERS; i++) {
        const char *size = getenv(launchers[i].size);
        if (size != NULL && atoi(size) > 1 && (i != SRUN || is_srun_task()))
            return &launchers[i];
    }
    return NULL;
}

int launcher_rank(void)
{
    const struct launcher *launcher = find_launcher();
    const char *rank = launcher != NULL ? getenv(launcher->rank) : NULL;
    return rank != NULL ? atoi(rank) : 0;
}

int launcher_check_start(void)
{
    if (!is_srun_task() || getenv("PMIX_RANK") != NULL || getenv("PMI_RANK") != NULL)
        return ERROR_NONE;
    return error_user("srun started its tasks (SLURM_NTASKS=%s) without PMIx, which this MPI needs even for one task: "
                      "use srun --mpi=pmix (srun --mpi=list shows the types), or mpirun",
                      getenv("SLURM_NTASKS"));
}

void launcher_isolate(void)
{
    if (getenv("OMPI_COMM_WORLD_SIZE") == NULL && getenv("PMIX_RANK") == NULL)
        setenv("OMPI_MCA_ess_singleton_isolated", "1", 0);
}

static const char node_ranks[] = "CISTRON_NODE_RANKS";

int launcher_node_ranks(void)
{
    const char *value = getenv(node_ranks);
    return value != NULL ? atoi(value) : 0;
}

int launcher_check(int world_size)
{
    const struct launcher *launcher = world_size == 1 ? find_launcher() : NULL;
    if (getenv(node_ranks) != NULL && launcher_node_ranks() < 1)
        return error_user("%s=%s: must be a number of ranks of at least 1", node_ranks, getenv(node_ranks));
    if (launcher == NULL)
        return ERROR_NONE;
    return error_user("%s started %s processes (%s), but MPI did not connect them: each would be a run of one rank. "
                      "Start the program with the mpirun of the MPI that it was built with, or with srun --mpi=pmix "
                      "(srun --mpi=list shows the types); for one rank, with srun -n 1",
                      launcher->name, getenv(launcher->size), launcher->size);
}

bool launcher_reports_codes(void)
{
    return getenv("OMPI_COMM_WORLD_SIZE") != NULL;
}

const char *launcher_job(void)
{
    static const char *const variables[] = {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        if (getenv(variables[i]) != NULL)
            return getenv(variables[i]);
    return "";
}
