/* Pipelines: losses and gradients are those of one rank that has all layers, with as many stages and parts of them as
 * there are. Run on 8 ranks. */
#include "check.h"

#include "base/error.h"
#include "base/memory.h"
#include "cpu/cpu.h"
#include "ref/team.h"

#include <mpi.h>
#include <stdlib.h>

static struct comm *world, *self;
static struct executor *cpu;

static struct outcome train_alone(struct comm *comm, const struct form *form)
{
    struct outcome alone = {0};
    if (comm->rank == 0) {
        const struct layout layout = {.context = 1, .shard = 1};
        struct team team;
        team_create(&team, self, cpu, &layout, form);
        alone = team_train(&team);
        team_destroy(&team);
    }
    outcome_share(comm, &alone);
    return alone;
}

static void check_layout(struct comm *comm, const struct layout *layout, const struct form *form,
                         const struct outcome *alone)
{
    struct team team;
    team_create(&team, comm, cpu, layout, form);
    struct outcome outcome = team_train(&team);
    const struct distances apart = outcome_apart(&outcome, alone, &team.toy.model);
    const bool equal = outcome.agree && memcmp(outcome.labels, alone->labels, sizeof alone->labels) == 0 &&
                       apart.loss <= 1e-6 && apart.norm <= 1e-5 && apart.first <= 1e-5 && apart.last <= 1e-5;
    if (!CHECK(equal) || getenv("T_DISTANCES") != NULL)
        if (comm->rank == 0)
            fprintf(stderr, "%s:\n    %s, loss %.2e, norm %.2e, gradients %.2e and %.2e\n",
                    team_text(comm->size, layout, form), outcome.agree ? "agree" : "differ", apart.loss, apart.norm,
                    apart.first, apart.last);
    outcome_destroy(&outcome);
    team_destroy(&team);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    world = comm_open_mpi();
    self = comm_self();
    cpu = cpu_executor_create(1);
    comm_set_timeout(20);
    const int kind_from = argc > 1 ? atoi(argv[1]) : 0, kind_to = argc > 1 ? kind_from + 1 : TOY_KINDS;
    for (int kind = kind_from; kind < kind_to; kind++) {
        struct form form = {
            .kind = kind, .layers = 8, .packed = true, .micro_batches = 4, .slots = 1, .poisoned = true};
        struct outcome alone = train_alone(world, &form);
        for (int stages = 1; stages <= 4; stages++)
            for (int chunks = 1; chunks <= 2; chunks++)
                for (int data = 1; data * stages <= world->size && data <= 2; data++)
                    for (int shard = 1; shard <= data; shard++) {
                        const int ranks = stages * data;
                        form.micro_batches = stages == 3 ? 3 : 4;
                        if (stages == 1 && chunks > 1)
                            continue;
                        struct comm *comm = comm_split(world, world->rank < ranks ? 0 : 1);
                        const struct layout layout = {.context = 1,
                                                      .shard = shard,
                                                      .sharding.level = shard > 1 ? SHARD_OPTIMIZER : SHARD_NONE,
                                                      .stages = stages,
                                                      .chunks = chunks};
                        if (world->rank < ranks)
                            check_layout(comm, &layout, &form, &alone);
                        comm_destroy(comm);
                    }
        outcome_destroy(&alone);
    }
    cpu->class->destroy(cpu);
    comm_destroy(self);
    comm_destroy(world);
    MPI_Finalize();
    return check_end();
}
