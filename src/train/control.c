#include "train/control.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/signals.h"
#include "file/run_folder.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Reasons for a request, in order of urgency. The ranks agree on the largest. */
enum reason {
    REASON_NONE,
    REASON_SAVE_TIME,
    REASON_SAVE_FILE,
    REASON_SAVE_SIGNAL,
    REASON_WALLTIME,
    REASON_STOP_FILE,
    REASON_LOST_OUTPUT,
    REASON_STOP_SIGNAL,
    REASON_COUNT
};

static const char *const reasons[REASON_COUNT] = {
    [REASON_SAVE_TIME] = "checkpoint.every_minutes requests a checkpoint",
    [REASON_SAVE_FILE] = "the file checkpoint requests a checkpoint",
    [REASON_SAVE_SIGNAL] = "SIGUSR2 requests a checkpoint",
    [REASON_WALLTIME] = "train.walltime is nearly over",
    [REASON_STOP_FILE] = "the file stop requests a stop",
    [REASON_LOST_OUTPUT] = "the reader of standard output has ended",
    [REASON_STOP_SIGNAL] = "a signal requests a stop",
};

/* Minimum time between two looks at the files: polling the metadata of a shared file system at every step is too
 * costly. */
static const double LOOK_SECONDS = 1.0;

/* Largest margin before the time limit besides that of time_is_up: it is 1 % of train.walltime, at most this. */
static const double LARGEST_MARGIN = 60.0;

/* A timed checkpoint comes at the earliest after this multiple of the duration of the slowest one, so that checkpoints
 * take at most 5 % of the time. */
static const double SAVES_APART = 20.0;

void control_open(struct run_control *control, struct comm *world, const char *folder, double walltime, double every)
{
    const double now = clock_seconds();
    *control = (struct run_control){
        .world = world, .last_poll = now, .last_look = -LOOK_SECONDS, .every = every, .next_save = now + every};
    double margin = walltime > 100 * LARGEST_MARGIN ? LARGEST_MARGIN : walltime / 100;
    control->deadline = walltime > 0 ? walltime - margin : 0;
    control->stop_file = memory_format("%s/" RUN_STOP, folder);
    control->save_file = memory_format("%s/" RUN_SAVE, folder);
}

void control_close(struct run_control *control)
{
    free(control->stop_file);
    free(control->save_file);
}

static void set_next_save(struct run_control *control, double now)
{
    control->next_save = now + fmax(control->every, SAVES_APART * control->slow_save);
}

void control_written(struct run_control *control, double seconds)
{
    if (seconds > control->slow_save)
        control->slow_save = seconds;
    control->last_poll = clock_seconds(); /* the time between polls must not include checkpoints */
    set_next_save(control, control->last_poll);
}

void control_saved(struct run_control *control, double seconds)
{
    control_written(control, seconds);
    control->save_seen = false;
    signals_take_save(); /* ranks get signals at different times: late ones are satisfied too */
}

/* The remaining time must suffice for 1.5 of the slowest step and two of the slowest checkpoint: if a save is in
 * flight, the run waits for it before it writes the last checkpoint. */
static bool time_is_up(struct run_control *control, double now)
{
    if (now - control->last_poll > control->slow_step)
        control->slow_step = now - control->last_poll;
    control->last_poll = now;
    return control->deadline > 0 && now + 1.5 * control->slow_step + 2 * control->slow_save > control->deadline;
}

/* Removes a request file. One that cannot be removed is ignored, since it would repeat its request forever. */
static bool take_request(const char *path)
{
    if (access(path, F_OK) != 0)
        return false;
    if (unlink(path) == 0)
        return true;
    log_warn("%s: ignored as a request, since it cannot be removed: %s", path, strerror(errno));
    return false;
}

static void look_for_files(struct run_control *control, double now)
{
    if (now - control->last_look < LOOK_SECONDS)
        return;
    control->last_look = now;
    if (!control->stop_seen)
        control->stop_seen = take_request(control->stop_file);
    if (!control->stop_seen && !control->save_seen)
        control->save_seen = take_request(control->save_file);
}

/* Reasons that only rank 0 checks. */
static enum reason first_reason(struct run_control *control)
{
    double now = clock_seconds();
    bool up = time_is_up(control, now);
    look_for_files(control, now);
    if (log_lost())
        return REASON_LOST_OUTPUT;
    if (control->stop_seen)
        return REASON_STOP_FILE;
    if (up)
        return REASON_WALLTIME;
    if (control->save_seen)
        return REASON_SAVE_FILE;
    return control->every > 0 && now >= control->next_save ? REASON_SAVE_TIME : REASON_NONE;
}

static enum reason own_reason(struct run_control *control)
{
    int requests = signals_pending();
    if (requests & SIGNALS_STOP)
        return REASON_STOP_SIGNAL;
    enum reason signalled = requests & SIGNALS_SAVE ? REASON_SAVE_SIGNAL : REASON_NONE;
    enum reason first = control->world->rank == 0 ? first_reason(control) : REASON_NONE;
    return first > signalled ? first : signalled;
}

enum control_request control_poll(struct run_control *control, const char **why)
{
    int64_t reason = comm_max_i64(control->world, (int64_t)own_reason(control));
    *why = reasons[reason];
    if (reason == REASON_SAVE_SIGNAL)
        signals_take_save();
    if (reason == REASON_SAVE_FILE)
        control->save_seen = false;
    if (reason == REASON_SAVE_TIME) /* also if the write then fails: the next attempt is at the next regular time */
        set_next_save(control, clock_seconds());
    if (reason == REASON_LOST_OUTPUT)
        return CONTROL_ABANDON;
    if (reason >= REASON_WALLTIME)
        return CONTROL_STOP;
    return reason == REASON_NONE ? CONTROL_NONE : CONTROL_SAVE;
}

bool control_stopping(struct run_control *control)
{
    return comm_max_i64(control->world, (int64_t)own_reason(control)) >= REASON_WALLTIME;
}
