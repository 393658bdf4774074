/* The planning executor reports memory that is never allocated, workspaces, costs and traffic, and refuses wrong
 * launches. t_plan_memory checks whole steps. */
#include "check.h"
#include "programs.h"
#include "ref/reference.h"

#include "base/error.h"
#include "plan/plan.h"
#include "plan/record.h"
#include "store/budget.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int64_t target_workspace(struct executor *executor, enum op op, const void *args)
{
    (void)executor;
    return op == OP_GEMM ? ((const struct gemm_args *)args)->d.rows * 1000 : 0;
}

/* The exit status of a process that runs this; its messages are thrown away. */
static int status_of(void (*run)(struct executor *plan))
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        int null = open("/dev/null", O_WRONLY);
        dup2(null, STDERR_FILENO);
        run(plan_executor_create(NULL));
        _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void launch_wrong_shapes(struct executor *plan)
{
    struct stream compute = {plan, STREAM_COMPUTE, NULL};
    LAUNCH(&compute, GEMM, gemm, .a = matrix(plan, 4, 8), .b = matrix(plan, 4, 8), .d = matrix(plan, 4, 8));
}

static void launch_nothing_required(struct executor *plan)
{
    struct stream compute = {plan, STREAM_COMPUTE, NULL};
    LAUNCH(&compute, SWIGLU_FORWARD, swiglu_forward, .x = matrix(plan, 4, 8));
}

static void see_nothing(struct group *group, struct stream *stream, const struct all_reduce_args *args)
{
    (void)group, (void)stream, (void)args;
}

/* Groups know no sums of these, and executors that run ask before they do. */
static void sum_integers(struct executor *plan)
{
    static const struct group_class class = {.name = "none", .all_reduce = see_nothing};
    struct group pair = {.name = "pair", .size = 2, .class = &class};
    struct executor *reference = reference_executor_create();
    struct stream compute = {reference, STREAM_COMPUTE, NULL};
    int16_t integers[4] = {0};
    (void)plan;
    LAUNCH(&compute, ALL_REDUCE, all_reduce, .group = &pair, .x = tensor_vector(integers, DTYPE_I16, 4));
}

static void release_twice(struct executor *plan)
{
    void *memory = plan->class->allocate(plan, 100, MEMORY_DEVICE);
    plan->class->release(plan, memory, MEMORY_DEVICE);
    plan->class->release(plan, memory, MEMORY_DEVICE);
}

static void test_plan(void)
{
    static const struct executor_class target_class = {.name = "target", .workspace = target_workspace};
    struct executor target = {.class = &target_class};
    struct executor *plan = plan_executor_create(&target);
    CHECK_STRING(plan->class->name, "plan");
    struct stream compute = {plan, STREAM_COMPUTE, NULL};

    struct tensor x = matrix(plan, 1000, 300), y = matrix(plan, 300, 200), z = matrix(plan, 1000, 200);
    void *host = plan->class->allocate(plan, 77, MEMORY_HOST);
    const struct plan_block *blocks;
    CHECK(plan_executor_blocks(plan, &blocks) == 4);
    for (int i = 0; i < 4; i++) {
        CHECK((uintptr_t)blocks[i].base % 256 == 0);
        CHECK(i == 0 || (uintptr_t)blocks[i].base > (uintptr_t)blocks[i - 1].base + (uintptr_t)blocks[i - 1].bytes);
    }
    CHECK(blocks[0].bytes == 1000 * 300 * 4 && blocks[0].kind == MEMORY_DEVICE);
    CHECK(blocks[3].base == host && blocks[3].bytes == 77 && blocks[3].kind == MEMORY_HOST && !blocks[3].released);
    plan->class->release(plan, host, MEMORY_HOST);
    CHECK(blocks[3].released);

    CHECK(plan_workspace(plan, STREAM_COMPUTE) == 0);
    LAUNCH(&compute, GEMM, gemm, .a = x, .b = y, .d = z);
    LAUNCH(&compute, GEMM, gemm, .a = tensor_rows(&x, 0, 10), .b = y, .d = tensor_rows(&z, 0, 10), .accumulate = true);
    CHECK(plan_workspace(plan, STREAM_COMPUTE) == 1000 * 1000 && plan_workspace(plan, STREAM_REDUCE) == 0);
    const struct plan_log *log = plan_executor_log(plan);
    struct plan_cost cost = plan_log_cost(plan_log_all(log));
    CHECK(cost.launches == 2);
    CHECK(cost.flops == 2ll * 300 * 200 * (1000 + 10));
    CHECK(cost.bytes == 4ll * (1000 * 300 + 300 * 200 + 1000 * 200) + 4ll * (10 * 300 + 300 * 200 + 2 * 10 * 200));
    cost = plan_log_cost((struct plan_span){log, 1, 2});
    CHECK(cost.launches == 1 && cost.flops == 2ll * 300 * 200 * 10);

    struct group data = {.name = "data", .size = 4}, model = {.name = "model", .size = 2},
                 self = {.name = "self", .size = 1};
    struct tensor whole = matrix(plan, 4, 100), part = matrix(plan, 1, 100);
    struct tensor whole_too = matrix(plan, 4, 100), part_too = matrix(plan, 1, 100);
    LAUNCH(&compute, ALL_GATHER, all_gather, .group = &data, .in = part, .out = whole);
    LAUNCH(&compute, REDUCE_SCATTER, reduce_scatter, .group = &data, .in = whole, .out = part);
    LAUNCH(&compute, ALL_REDUCE, all_reduce, .group = &model, .x = part);
    LAUNCH(&compute, BROADCAST, broadcast, .group = &model, .x = part);
    LAUNCH(&compute, ALL_TO_ALL, all_to_all, .group = &data, .in = whole, .out = whole_too);
    LAUNCH(&compute, SHIFT, shift, .group = &model, .in = part, .out = part_too);
    LAUNCH(&compute, ALL_REDUCE, all_reduce, .group = &self, .x = part);
    LAUNCH(&compute, SHIFT, shift, .group = &self, .in = part, .out = part_too);
    LAUNCH(&compute, SEND_RECEIVE, send_receive, .group = &model, .to_next = part, .from_previous = part_too,
           .from_next = whole_too);
    struct plan_traffic traffic[3];
    CHECK(plan_log_traffic(plan_log_all(log), traffic, 3) == 3);
    CHECK_STRING(traffic[0].group, "data");
    CHECK(traffic[0].collectives == 3 && traffic[0].bytes == 3 * 3 * 400);
    CHECK_STRING(traffic[1].group, "model");
    CHECK(traffic[1].collectives == 4 && traffic[1].bytes == 400 + 400 + 400 + 5 * 400);
    CHECK_STRING(traffic[2].group, "self");
    CHECK(traffic[2].collectives == 2 && traffic[2].bytes == 0);

    struct stream communication = {plan, STREAM_REDUCE, NULL};
    LAUNCH(&communication, GEMM, gemm, .a = tensor_rows(&x, 0, 10), .b = y, .d = tensor_rows(&z, 0, 10));
    CHECK(plan_workspace(plan, STREAM_COMPUTE) == 1000 * 1000 && plan_workspace(plan, STREAM_REDUCE) == 10000);
    struct executor *other = plan_executor_create(NULL);
    struct budget budget;
    budget_create(&budget, other);
    for (int times = 0; times < 2; times++)
        budget_reserve(&budget, plan);
    CHECK(other->workspace_bytes[STREAM_COMPUTE] == 1000 * 1000 && other->workspace_bytes[STREAM_REDUCE] == 10000);
    CHECK(budget.bytes[BUDGET_WORKSPACE] == 1010 * 1000);
    budget_destroy(&budget);
    other->class->destroy(other);
    plan->class->destroy(plan);

    CHECK(status_of(launch_wrong_shapes) == ERROR_ENVIRONMENT);
    CHECK(status_of(launch_nothing_required) == ERROR_ENVIRONMENT);
    CHECK(status_of(sum_integers) == ERROR_ENVIRONMENT);
    CHECK(status_of(release_twice) == ERROR_ENVIRONMENT);
}

/* An executor with tables of functions, of which each knows its owner. */
struct owner {
    struct executor executor;
    int64_t margin;
    int stamps;
};

static int64_t owner_margin(struct executor *executor)
{
    return ((struct owner *)executor)->margin;
}

static void owner_stamp(struct executor *executor, struct stream *stream, int64_t number)
{
    (void)stream, (void)number;
    ((struct owner *)executor)->stamps++;
}

/* Wrappers pass on tables, whose functions find their owner, however many wrappers there are; but none that would
 * bypass the wrapper. */
static void test_wrappers(void)
{
    static const struct executor_class class = {.name = "owner"};
    static const struct executor_device device = {.margin = owner_margin};
    static const struct executor_capture capture = {0};
    static const struct executor_profiling profiling = {.stamp = owner_stamp};
    struct owner owner = {{.class = &class, .device = &device, .capture = &capture, .profiling = &profiling}, 123, 0};
    owner.executor.owner = &owner.executor;
    struct executor *first = record_executor_create(&owner.executor), *second = record_executor_create(first);
    struct executor *plan = plan_executor_create(second), *inner = plan_executor_create(plan);
    CHECK(first->capture == NULL && second->capture == NULL);
    second->profiling->stamp(second->owner, NULL, 0);
    CHECK(owner.stamps == 1);
    CHECK(plan->profiling == NULL && inner->device->margin(inner->owner) == 123);
    struct budget budget;
    budget_create(&budget, inner);
    CHECK(budget.bytes[BUDGET_MARGIN] == 123);
    budget_destroy(&budget);
    inner->class->destroy(inner);
    plan->class->destroy(plan);
    second->class->destroy(second);
    first->class->destroy(first);
}

int main(void)
{
    test_plan();
    test_wrappers();
    return check_end();
}
