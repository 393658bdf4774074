#include "monitor/watch.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/range.h"
#include "core/launch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* GPUs are read about every READ_SECONDS, so that reading costs less than 0.1 % if steps do not hide it. Looks for
 * stragglers are at least this far apart; with devices farther, because their waiting time is sampled. */
static const double READ_SECONDS = 5, LOOK_SECONDS = 1, DEVICE_LOOK_SECONDS = 10;

struct rank_report {
    struct watch_counts counts;
    double device, collectives;
    struct straggler_rank work;
    struct nvml_reading reading; /* index -1: no reading at this row */
    bool reads; /* GPUs are read at the next row; all ranks follow rank 0's, to read at the same rows */
};

/* -- Opening ----------------------------------------------------------------------------------------------------- */

/* Returns whether this rank is the lowest of the ranks that share its GPU, which reads it. Ranks with one GPU are on
 * one node. */
static bool is_first(const struct rank_watch *watch, const unsigned char *uuid)
{
    struct comm *node = comm_split_node(watch->world);
    unsigned char none[NVML_UUID_BYTES] = {0};
    unsigned char *all = memory_allocate(node->size * (int64_t)sizeof none);
    comm_all_gather(node, uuid != NULL ? uuid : none, all, sizeof none);
    bool first = uuid != NULL;
    for (int r = 0; r < node->rank && first; r++)
        first = memcmp(all + r * (int64_t)sizeof none, uuid, sizeof none) != 0;
    memory_free(all);
    comm_destroy(node);
    return first;
}

/* Returns whether the device samples how long it has waited. */
static bool samples(const struct rank_watch *watch)
{
    return watch->executor->groups != NULL && watch->executor->groups->waited != NULL;
}

static double device_waited(const struct rank_watch *watch)
{
    const struct executor *executor = watch->executor;
    return samples(watch) ? executor->groups->waited(executor->owner) : 0;
}

/* Returns the seconds in the optimizer so far; 0 if launches return before they have run. */
static double optimizer_seconds(const struct rank_watch *watch)
{
    return watch->executor->class->event_passed == NULL ? launch_timers()[OP_ADAMW].seconds : 0;
}

static void begin_look(struct rank_watch *watch)
{
    memset(watch->work, 0, sizeof watch->work);
    watch->started = clock_seconds();
    watch->apart = watch->waited = 0;
    watch->optimizer_mark = optimizer_seconds(watch);
}

void watch_open(struct rank_watch *watch, struct comm *world, struct executor *executor, int stage)
{
    *watch = (struct rank_watch){.world = world, .executor = executor, .stage = stage, .reads = true};
    const unsigned char *uuid = executor->device != NULL ? executor->device->identity(executor->owner) : NULL;
    if (is_first(watch, uuid))
        nvml_open(&watch->nvml, uuid);
    char host[WATCH_HOST_BYTES] = "";
    gethostname(host, sizeof host - 1);
    const int64_t ranks = world->rank == 0 ? world->size : 1; /* rank 0 has them of all */
    watch->hosts = memory_allocate(ranks * (int64_t)sizeof *watch->hosts);
    watch->gpus = memory_allocate(ranks * (int64_t)sizeof *watch->gpus);
    comm_gather(world, host, watch->hosts, sizeof host);
    watch->host_mark = comm_seconds();
    watch->device_mark = device_waited(watch);
    begin_look(watch);
}

void watch_close(struct rank_watch *watch)
{
    memory_free(watch->hosts);
    memory_free(watch->gpus);
    watch->hosts = NULL;
    watch->gpus = NULL;
}

/* -- Work -------------------------------------------------------------------------------------------------------- */

/* If devices report their waiting time, it counts instead of the hosts', because hosts run ahead of devices. */
void watch_step(struct rank_watch *watch)
{
    const double host = comm_seconds(), device = device_waited(watch);
    const double waited = device > 0 ? device - watch->device_mark : host - watch->host_mark;
    watch->waited += waited;
    watch->collectives += waited;
    watch->host_mark = host;
    watch->device_mark = device;
}

void watch_phase(struct rank_watch *watch, enum straggler_phase phase, double seconds)
{
    if (phase == STRAGGLER_DATA) { /* data is waited for within a step */
        watch->work[phase] += seconds;
        return;
    }
    const double host = comm_seconds(), device = device_waited(watch);
    const double own = seconds - (host - watch->host_mark) - (device - watch->device_mark);
    watch->work[phase] += MAX(own, 0);
    watch->apart += seconds;
    watch->host_mark = host;
    watch->device_mark = device;
}

void watch_reported(struct rank_watch *watch, double seconds)
{
    watch->apart += seconds;
}

/* -- Rows -------------------------------------------------------------------------------------------------------- */

static struct straggler_rank work_of(const struct rank_watch *watch)
{
    struct straggler_rank rank = {.stage = watch->stage, .seconds = clock_seconds() - watch->started};
    memcpy(rank.work, watch->work, sizeof rank.work);
    rank.work[STRAGGLER_OPTIMIZER] = optimizer_seconds(watch) - watch->optimizer_mark;
    const double rest =
        rank.seconds - watch->apart - watch->waited - rank.work[STRAGGLER_DATA] - rank.work[STRAGGLER_OPTIMIZER];
    rank.work[STRAGGLER_COMPUTE] = MAX(rest, 0);
    return rank;
}

/* Returns when the next row is due if it takes as long as this one. */
static double next_row(struct rank_watch *watch, double now)
{
    const double interval = now - watch->row;
    watch->row = now;
    return now + interval;
}

static struct rank_report report_of(struct rank_watch *watch, const struct watch_counts *counts)
{
    const struct executor *executor = watch->executor;
    const double now = clock_seconds();
    struct rank_report report = {.counts = *counts,
                                 .device = NAN,
                                 .collectives = watch->collectives,
                                 .work = work_of(watch),
                                 .reading = {.index = -1}};
    if (executor->device != NULL)
        report.device = (double)executor->device->occupied(executor->owner);
    if (watch->reads) {
        nvml_read(&watch->nvml, &report.reading);
        watch->read = now;
    }
    report.reads = next_row(watch, now) >= watch->read + READ_SECONDS;
    return report;
}

static struct watch_row sum_reports(const struct rank_report *reports, int count)
{
    struct watch_row row = {.device = reports[0].device, .device_max = NAN};
    for (int r = 0; r < count; r++) {
        row.counts.tokens += reports[r].counts.tokens;
        row.counts.positions += reports[r].counts.positions;
        row.counts.unpadded += reports[r].counts.unpadded;
        row.collectives += reports[r].collectives / count;
        row.device_mean += reports[r].device / count;
        row.device_max = fmax(row.device_max, reports[r].device);
        row.read |= reports[r].reading.index >= 0;
    }
    return row;
}

static void take_readings(struct rank_watch *watch, const struct rank_report *reports)
{
    watch->gpu_count = 0;
    for (int r = 0; r < watch->world->size; r++)
        if (reports[r].reading.index >= 0)
            watch->gpus[watch->gpu_count++] = (struct shown_gpu){r, watch->hosts[r], reports[r].reading};
}

static void look(struct rank_watch *watch, const struct rank_report *reports, struct watch_row *row)
{
    const int count = watch->world->size;
    struct straggler_rank *ranks = memory_allocate(count * (int64_t)sizeof *ranks);
    for (int r = 0; r < count; r++)
        ranks[r] = reports[r].work;
    row->slow = straggler_look(&watch->straggler, ranks, count, &row->straggler);
    memory_free(ranks);
}

/* The result of a look, which rank 0 computes from all reports. */
struct verdict {
    struct watch_row row;
    bool looks, reads;
};

struct watch_row watch_look(struct rank_watch *watch, const struct watch_counts *counts)
{
    const int64_t count = watch->world->rank == 0 ? watch->world->size : 0;
    struct rank_report own = report_of(watch, counts),
                       *reports = memory_allocate((count + 1) * (int64_t)sizeof *reports);
    struct verdict verdict = {0};
    comm_gather(watch->world, &own, reports, sizeof own);
    if (count > 0) {
        verdict.row = sum_reports(reports, (int)count);
        verdict.looks = reports[0].work.seconds >= (samples(watch) ? DEVICE_LOOK_SECONDS : LOOK_SECONDS);
        verdict.reads = reports[0].reads;
        if (verdict.row.read)
            take_readings(watch, reports);
        if (verdict.looks)
            look(watch, reports, &verdict.row);
    }
    comm_broadcast(watch->world, &verdict, sizeof verdict, 0);
    watch->reads = verdict.reads;
    watch->collectives = 0;
    watch_step(watch); /* the exchange above has waited too */
    if (verdict.looks)
        begin_look(watch);
    memory_free(reports);
    return verdict.row;
}
