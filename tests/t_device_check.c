/* The check of devices (cistron measure --check, device.check) names each bad rank or link and no other one. Injected
 * faults: one bit of a product, always, in products of real numbers only, and after a while; a bit that memory loses;
 * a bit that changes in a transfer; products, memory, transfers and a link that are twice as slow. Reports of 16,384
 * ranks are judged within seconds.
 *
 * ranks: 4 */
#include "check.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "cpu/cpu.h"
#include "estimate/device_check.h"
#include "estimate/device_verdict.h"
#include "ref/wrapper.h"

#include <mpi.h>
#include <string.h>
#include <unistd.h>

enum fault {
    FAULT_NONE,
    FAULT_PRODUCT,      /* in every product */
    FAULT_REAL_PRODUCT, /* in all but the first, which is of integers */
    FAULT_LATE_PRODUCT, /* from the fifth on */
    FAULT_MEMORY,
    FAULT_TRANSFER,
    SLOW_PRODUCTS,
    SLOW_MEMORY,
    SLOW_TRANSFERS,
    SLOW_LINK /* the rank's second one */
};

struct planter {
    enum fault fault;
    int rank;                /* that has it */
    int64_t products, links; /* so far */
    bool transfers;          /* memory has been tested, and links are */
    double clock;            /* of the device */
    double stamps[STAMP_PROFILE];
};

static struct comm *world;
static struct executor *cpu;

static void flip(struct tensor x)
{
    ((uint32_t *)x.data)[tensor_count(&x) / 3] ^= 1;
}

/* Flips a bit of what the pair's other rank has sent. */
static void flip_received(const struct all_gather_args *args)
{
    flip(tensor_rows(&args->out, 1 - args->group->rank, 1));
}

static bool is_slow(const struct planter *p, enum op op, const void *args)
{
    switch (p->fault) {
    case SLOW_PRODUCTS:
        return op == OP_GEMM;
    case SLOW_MEMORY:
        return op == OP_COPY && ((const struct copy_args *)args)->from.cols >= 1 << 17;
    case SLOW_TRANSFERS:
        return op == OP_ALL_GATHER;
    case SLOW_LINK:
        return op == OP_ALL_GATHER && p->links == 1;
    default:
        return false;
    }
}

static void plant(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args)
{
    struct planter *p = wrapper->self;
    p->clock += 1e-3; /* each launch takes a millisecond, and twice as long where it is slow */
    if (world->rank != p->rank || p->fault == FAULT_NONE) {
        wrapper_pass(wrapper, stream, op, args);
        return;
    }
    p->transfers |= op == OP_ALL_GATHER;
    p->links += p->transfers && op == OP_SUM_SQUARES; /* the bytes of a link are compared after it is timed */
    p->clock += is_slow(p, op, args) ? 1e-3 : 0;
    if (op == OP_ADD && p->fault == FAULT_MEMORY)
        flip(((const struct add_args *)args)->to);
    wrapper_pass(wrapper, stream, op, args);
    if (op == OP_ALL_GATHER && p->fault == FAULT_TRANSFER)
        flip_received(args);
    if (op != OP_GEMM)
        return;
    const int64_t number = p->products++;
    if (p->fault == FAULT_PRODUCT || (p->fault == FAULT_REAL_PRODUCT && number > 0) ||
        (p->fault == FAULT_LATE_PRODUCT && number >= 4))
        flip(((const struct gemm_args *)args)->d);
}

/* -- The device's clock, so that times do not depend on what else the machine does --------------------------------- */

static struct planter *planter_of(struct executor *executor)
{
    return ((struct wrapper *)executor)->self;
}

static void stamp(struct executor *executor, struct stream *stream, int64_t number)
{
    (void)stream;
    planter_of(executor)->stamps[number] = planter_of(executor)->clock;
}

static double stamp_seconds(struct executor *executor, int64_t from, int64_t to)
{
    return planter_of(executor)->stamps[to] - planter_of(executor)->stamps[from];
}

static void watch(struct executor *executor, bool begin)
{
    (void)executor;
    (void)begin;
}

static void range(struct executor *executor, const char *name)
{
    (void)executor;
    (void)name;
}

static const struct executor_profiling profiling = {
    .stamp = stamp, .stamp_seconds = stamp_seconds, .watch = watch, .range = range};

static int occurrences(const char *text, const char *of)
{
    int count = 0;
    for (; (text = strstr(text, of)) != NULL; text += strlen(of))
        count++;
    return count;
}

/* Runs the check on nodes of `near` ranks, with a fault on one rank. `message`: what rank 0 prints, with HOST for the
 * name of the host; NULL: the check passes. */
static void expect(enum fault fault, int rank, int near, const char *message, int lines)
{
    struct planter planter = {.fault = fault, .rank = rank};
    struct wrapper wrapper;
    wrapper_create(&wrapper, cpu, plant, &planter);
    wrapper.executor.profiling = &profiling;
    wrapper.executor.owner = &wrapper.executor;
    struct comm *node = comm_split(world, world->rank / near);
    const struct device_check_settings settings = {.slow = DEVICE_CHECK_SLOW, .seconds = 0.05};
    const int code = device_check(world, node, &wrapper.executor, &settings);
    comm_destroy(node);
    CHECK(code == (message != NULL ? ERROR_ENVIRONMENT : ERROR_NONE));
    if (world->rank != 0 || message == NULL || code == ERROR_NONE)
        return;
    char host[64] = "", *wanted = memory_string("");
    gethostname(host, sizeof host - 1);
    for (const char *at = message, *next; *at != '\0'; at = next) {
        next = strstr(at, "HOST");
        char *longer = memory_format("%s%.*s%s", wanted, next != NULL ? (int)(next - at) : (int)strlen(at), at,
                                     next != NULL ? host : "");
        free(wanted);
        wanted = longer;
        next = next != NULL ? next + strlen("HOST") : at + strlen(at);
    }
    if (!CHECK(strstr(error_printed(), wanted) != NULL && occurrences(error_printed(), "\n") == lines))
        fprintf(stderr, "    fault %d, wanted \"%s\"\n", (int)fault, wanted);
    free(wanted);
}

/* -- Many ranks --------------------------------------------------------------------------------------------------- */

static void test_many(void)
{
    enum { RANKS = 16384, NODE = 8, BAD = 4711 };
    struct device_report *reports = memory_allocate(RANKS * (int64_t)sizeof *reports);
    for (int r = 0; r < RANKS; r++) {
        struct device_report *report = &reports[r];
        *report = (struct device_report){.kind = "GPU", .product = 1, .flops = 7e14 - r * 1e9, .memory = 3e12};
        snprintf(report->place.host, sizeof report->place.host, "node%d", r / NODE);
        for (int bit = 1; bit < RANKS; bit *= 2)
            report->links[report->link_count++] = (struct link_report){
                .rank = r ^ bit, .near = bit < NODE, .per_second = (bit < NODE ? 3e11 : 4e10) + r * 1e3};
    }
    const double start = clock_seconds();
    CHECK(device_verdict(reports, RANKS, 0.75) == ERROR_NONE);
    reports[BAD].product = 2;
    reports[BAD].flops /= 2;
    for (int l = 3; l < reports[BAD].link_count; l++) {
        struct link_report *own = &reports[BAD].links[l];
        own->per_second = reports[own->rank].links[l].per_second = 1e10;
    }
    CHECK(device_verdict(reports, RANKS, 0.75) == ERROR_ENVIRONMENT);
    CHECK_STRING(error_message(),
                 "the check of devices has failed:\n"
                 "  rank 4711 on node588: a matrix product has other bits than on 16383 of 16384 ranks of this kind of "
                 "device\n"
                 "  rank 4711 on node588: matrix products at 3.476e+05 GFLOP/s are 0.50 of the median\n"
                 "  rank 4711 on node588: transfers between nodes at 10 GB/s are 0.25 of the median");
    error_clear();
    CHECK(clock_seconds() - start < 20);
    memory_free(reports);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    world = comm_open_mpi();
    error_open(world->rank);
    cpu = cpu_executor_create(1);
    expect(FAULT_NONE, 0, 4, NULL, 0);
    expect(FAULT_NONE, 0, 2, NULL, 0);
    expect(FAULT_NONE, 0, 3, NULL, 0);
    expect(FAULT_PRODUCT, 2, 4, "\n  rank 2 on HOST: a matrix product is wrong", 2);
    expect(FAULT_REAL_PRODUCT, 3, 4, "\n  rank 3 on HOST: a matrix product has other bits than on 3 of 4 ranks", 1);
    expect(FAULT_LATE_PRODUCT, 0, 4, "\n  rank 0 on HOST: a matrix product has other bits when it is repeated", 1);
    expect(FAULT_MEMORY, 1, 1, "\n  rank 1 on HOST: memory does not keep what is written", 3);
    expect(FAULT_TRANSFER, 3, 1, "\n  rank 3 on HOST: receives other bytes than rank 1 on HOST sends", 2);
    expect(SLOW_PRODUCTS, 2, 4, "\n  rank 2 on HOST: matrix products at 16.78 GFLOP/s are 0.50 of the median", 1);
    expect(SLOW_MEMORY, 1, 4, "\n  rank 1 on HOST: memory copies at ", 1);
    expect(SLOW_TRANSFERS, 3, 4, "\n  rank 3 on HOST: transfers within nodes at ", 1);
    expect(SLOW_TRANSFERS, 0, 1, "\n  rank 0 on HOST: transfers between nodes at ", 1);
    expect(SLOW_LINK, 3, 4, "\n  the link of rank 1 on HOST and rank 3 on HOST: ", 1);
    expect(SLOW_TRANSFERS, 3, 2, "\n  the link of rank 2 on HOST and rank 3 on HOST: ", 2);
    if (world->rank == 0)
        test_many();
    cpu->class->destroy(cpu);
    comm_destroy(world);
    MPI_Finalize();
    return check_end();
}
