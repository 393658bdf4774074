#include "train/profiler.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "core/profile.h"
#include "file/atomic_file.h"
#include "file/run_folder.h"
#include "setup/profile_ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void profiler_create(struct profiler *profiler, const struct setup *setup, int rank)
{
    const struct step_range *steps = &setup->profile.steps;
    const bool beyond = steps->stop > setup->steps;
    *profiler = (struct profiler){.start = steps->start,
                                  .stop = beyond ? setup->steps : steps->stop,
                                  .rank = rank,
                                  .listed = profile_lists(setup->profile.ranks, rank),
                                  .folder = setup->profile.collectives ? setup->folder : NULL};
    if (steps->start > setup->steps)
        log_warn("key profile.start = %lld: there is no profile, since the run ends at train.steps = %lld",
                 (long long)steps->start, (long long)setup->steps);
}

void profiler_before(struct profiler *profiler, struct executor *executor, int64_t step)
{
    profile_step(step);
    if (profiler->start == 0 || step != profiler->start)
        return;
    if (profiler->listed)
        profile_start(executor);
    else
        profile_follow(true);
    profiler->on = true;
    profiler->steps = 0;
}

/* A line for each collective, times in microseconds. */
static void print_collectives(FILE *file, int rank)
{
    char host[256] = "";
    int64_t count;
    struct profile_collective *collectives = profile_collectives(&count);
    gethostname(host, sizeof host - 1);
    fputs("rank,host,step,group,ranks,number,op,stream,bytes,start_us,end_us\n", file);
    for (int64_t i = 0; i < count; i++) {
        const struct profile_collective *c = &collectives[i];
        fprintf(file, "%d,%s,%lld,%s,%d,%lld,%s,%d,%lld,%.1f,%.1f\n", rank, host, (long long)c->step, c->group->name,
                c->group->size, (long long)c->number, op_info(c->op)->name, c->stream, (long long)c->bytes,
                1e6 * c->start, 1e6 * c->end);
    }
    free(collectives);
}

/* Writes the collectives' file. A failure is a warning, and the run continues. */
static void write_collectives(const struct profiler *profiler, int64_t step)
{
    struct atomic_file atomic;
    char *path = memory_format("%s/" RUN_COLLECTIVES, profiler->folder, profiler->rank);
    int code = atomic_file_open(&atomic, path);
    if (code == ERROR_NONE) {
        print_collectives(atomic.file, profiler->rank);
        code = atomic_file_close(&atomic, code);
    }
    if (code == ERROR_NONE)
        log_info("# collectives of steps %lld to %lld: %s", (long long)profiler->start, (long long)step, path);
    else
        log_warn("%s; the run continues without it", error_message());
    error_clear();
    free(path);
}

void profiler_after(struct profiler *profiler, struct run_meter *meter, int64_t step)
{
    profiler->steps += profiler->on;
    if (step >= profiler->stop)
        profiler_end(profiler, meter, step);
}

void profiler_end(struct profiler *profiler, struct run_meter *meter, int64_t step)
{
    if (!profiler->on)
        return;
    profiler->on = false;
    if (!profiler->listed) {
        profile_follow(false);
        return;
    }
    int count;
    const struct profile_row *rows = profile_stop(&count);
    meter_profile(meter, step, profiler->steps, rows, count);
    if (profiler->folder != NULL)
        write_collectives(profiler, step);
}
