/* The program finds the free memory and CPUs of a machine, from its own count and from control groups of both versions,
 * of a job and in a container. Work shared among threads is repeated where it failed. */
#include "check.h"
#include "stores.h"

#include "base/available.h"
#include "file/disk.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/thread.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static char *root;

static void write_text(const char *name, const char *text)
{
    char *path = memory_format("%s/%s", root, name), *folder = disk_folder(path);
    CHECK(disk_make_folder(folder, NULL) == ERROR_NONE);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
    free(folder);
    free(path);
}

static void begin(const char *name)
{
    free(root);
    root = memory_string(stores_path(name));
    CHECK(available_memory(root) == 0); /* it does not say */
    write_text("proc/meminfo",
               "MemTotal:       64000 kB\nMemFree:        10 kB\nMemAvailable:   32000 kB\nBuffers: 7 kB\n");
    CHECK(available_memory(root) == 32000 * 1024);
}

/* Names and numbers of a Slurm job's groups, of a container's, and of a machine without limits. */
static void test_memory(void)
{
    begin("second version");
    write_text("proc/self/cgroup", "0::/system.slice/job_7/step_0\n");
    write_text("sys/fs/cgroup/system.slice/memory.max", "max\n");
    write_text("sys/fs/cgroup/system.slice/memory.current", "99000000\n");
    write_text("sys/fs/cgroup/system.slice/job_7/step_0/memory.max", "max\n");
    write_text("sys/fs/cgroup/system.slice/job_7/step_0/memory.current", "3000000\n");
    CHECK(available_memory(root) == 32000 * 1024);
    write_text("sys/fs/cgroup/system.slice/job_7/memory.max", "8000000\n");
    write_text("sys/fs/cgroup/system.slice/job_7/memory.current", "5000000\n");
    CHECK(available_memory(root) == 3000000);
    write_text("sys/fs/cgroup/system.slice/job_7/memory.stat",
               "anon 3500000\ninactive_file 1200000\nactive_file 300000\n");
    CHECK(available_memory(root) == 4500000); /* the step's own and the slice have no limit */
    write_text("sys/fs/cgroup/system.slice/job_7/step_0/memory.max", "4000000\n");
    CHECK(available_memory(root) == 1000000); /* the tightest */
    write_text("sys/fs/cgroup/system.slice/job_7/step_0/memory.current", "4000001\n");
    CHECK(available_memory(root) == 1); /* it does say */

    begin("first version");
    write_text("proc/self/cgroup", "9:name=systemd:/\n4:memory:/slurm/job_7\n3:cpuset:/\n0::/\n");
    write_text("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    write_text("sys/fs/cgroup/memory/memory.usage_in_bytes", "60000000\n");
    CHECK(available_memory(root) == 32000 * 1024);
    /* more pages of files than bytes in use: the first number is the older one, of before a file was removed */
    write_text("sys/fs/cgroup/memory/memory.stat", "total_inactive_file 59000000\ntotal_active_file 1004097\n");
    CHECK(available_memory(root) == 32000 * 1024);
    write_text("sys/fs/cgroup/memory/slurm/job_7/memory.limit_in_bytes", "7000000\n");
    write_text("sys/fs/cgroup/memory/slurm/job_7/memory.usage_in_bytes", "6000000\n");
    write_text("sys/fs/cgroup/memory/slurm/job_7/memory.stat",
               "inactive_file 1\ntotal_inactive_file 1500000\ntotal_active_file 500000\n");
    CHECK(available_memory(root) == 3000000);

    begin("container"); /* which sees its own group as the top, and is told a path of the host's */
    write_text("proc/self/cgroup", "4:memory:/docker/0123abc\n");
    write_text("sys/fs/cgroup/memory/memory.limit_in_bytes", "5000000\n");
    write_text("sys/fs/cgroup/memory/memory.usage_in_bytes", "2000000\n");
    CHECK(available_memory(root) == 3000000);
    CHECK(isinf(available_cpus(root)));
    CHECK(available_memory("") > 0);
}

/* Quotas of CPU time: in version 2, in version 1, in a container. */
static void test_cpus(void)
{
    begin("cpus2");
    write_text("proc/self/cgroup", "0::/pods/one\n");
    CHECK(isinf(available_cpus(root)));
    write_text("sys/fs/cgroup/pods/one/cpu.max", "max 100000\n");
    CHECK(isinf(available_cpus(root)));
    write_text("sys/fs/cgroup/pods/cpu.max", "800000 100000\n");
    CHECK(available_cpus(root) == 8.0);
    write_text("sys/fs/cgroup/pods/one/cpu.max", "75000 50000\n");
    CHECK(available_cpus(root) == 1.5);
    write_text("sys/fs/cgroup/pods/one/cpu.max", "10 1000000\n");
    CHECK(available_cpus(root) > 0 && available_cpus(root) < 0.01);

    begin("cpus1");
    write_text("proc/self/cgroup", "5:memory:/\n4:cpu,cpuacct:/docker/0123abc\n3:cpuset:/\n");
    write_text("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    write_text("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    CHECK(isinf(available_cpus(root)));
    write_text("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "200000\n");
    CHECK(available_cpus(root) == 2.0);
    free(root);
}

enum { ITEMS = 40 };

struct calls {
    int of[ITEMS];   /* of each item */
    int fail[ITEMS]; /* how many of them, the first ones, fail */
};

static int call(void *self, int64_t i)
{
    struct calls *calls = self;
    return calls->of[i]++ < calls->fail[i] ? error_user("item %d", (int)i) : ERROR_NONE;
}

static void test_threads(void)
{
    struct calls calls = {{0}, {0}};
    CHECK(thread_each(ITEMS, 4, call, &calls) == ERROR_NONE);
    for (int i = 0; i < ITEMS; i++)
        CHECK(calls.of[i] == 1);

    /* All that failed are done again, not the first alone. */
    calls = (struct calls){{0}, {[3] = 1, [17] = 1, [39] = 1}};
    CHECK(thread_each(ITEMS, 4, call, &calls) == ERROR_NONE);
    for (int i = 0; i < ITEMS; i++)
        CHECK(calls.of[i] == 1 + calls.fail[i]);

    calls = (struct calls){{0}, {[3] = 1, [17] = 2, [39] = 2}};
    CHECK(thread_each(ITEMS, 4, call, &calls) == ERROR_USER);
    CHECK_STRING(error_message(), "item 17");
    error_clear();

    calls = (struct calls){{0}, {2}};
    CHECK(thread_each(1, 4, call, &calls) == ERROR_USER);
    error_clear();
    CHECK(thread_each(0, 4, call, NULL) == ERROR_NONE);
}

int main(void)
{
    stores_begin();
    test_memory();
    test_cpus();
    test_threads();
    stores_end();
    return check_end();
}
