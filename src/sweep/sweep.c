#include "sweep/sweep.h"
#include "file/disk.h"
#include "file/run_folder.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "file/path.h"
#include "base/thousands.h"
#include "comm/comm.h"
#include "checkpoint/lock.h"
#include "sweep/list.h"
#include "sweep/losses.h"
#include "sweep/scaling.h"
#include "sweep/sweep_page.h"
#include "sweep/table.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct sweep {
    const struct sweep_settings *settings;
    struct sweep_list list;
    struct sweep_place place;
    struct run_outcome *outcomes; /* [cases] */
};

static bool failed(const struct run_outcome *o)
{
    return strcmp(o->state, "failed") == 0;
}

static bool is_too_large(const struct sweep *sweep, const struct sweep_case *c)
{
    return sweep->settings->most_ranks > 0 && c->ranks > sweep->settings->most_ranks;
}

/* Returns whether the second training of a completed case is missing or should be repeated. */
static bool lacks_exposed(const struct sweep *sweep, const struct run_outcome *o, const struct sweep_case *c)
{
    return sweep_job_is_freed(&sweep->place, c) && isnan(o->exposed) &&
           (sweep->settings->retry || !sweep_job_was_freed(&sweep->place, c));
}

static bool is_due(const struct sweep *sweep, const struct run_outcome *o, const struct sweep_case *c)
{
    if (c->refusal != NULL || strcmp(o->state, "running") == 0 || is_too_large(sweep, c))
        return false;
    if (strcmp(o->state, "done") == 0)
        return lacks_exposed(sweep, o, c);
    return strcmp(o->state, "new") == 0 || (sweep->settings->retry && (failed(o) || strcmp(o->state, "waiting") == 0));
}

/* -- One table is of one build and one device --------------------------------------------------------------------- */

static int check_build(const struct sweep *sweep, const struct run_outcome *o)
{
    if (o->build[0] == '\0' || strcmp(o->build, sweep->place.build) == 0)
        return ERROR_NONE;
    return error_user("%s: case %s is of build %s, but this build is %s; one table cannot mix builds: name another "
                      "folder (-o), or remove this one",
                      sweep->place.folder, o->name, o->build, sweep->place.build);
}

/* Returns a case whose device is known; NULL: none. */
static const struct run_outcome *with_device(const struct sweep *sweep)
{
    for (int i = 0; i < sweep->list.case_count; i++)
        if (sweep->outcomes[i].device != NULL && sweep->outcomes[i].device[0] != '\0')
            return &sweep->outcomes[i];
    return NULL;
}

static int check_device(const struct sweep *sweep, const struct run_outcome *o)
{
    const struct run_outcome *other = with_device(sweep);
    if (o->device[0] == '\0' || strcmp(o->device, other->device) == 0)
        return ERROR_NONE;
    return error_user("%s: case %s ran on %s, but %s on %s; one table cannot mix devices: name another folder (-o), or "
                      "remove one of the two",
                      sweep->place.folder, o->name, o->device, other->name, other->device);
}

static int read_outcome(struct sweep *sweep, int i)
{
    outcome_destroy(&sweep->outcomes[i]);
    int code = outcome_read(&sweep->outcomes[i], &sweep->place, &sweep->list.cases[i]);
    if (code == ERROR_NONE)
        code = check_build(sweep, &sweep->outcomes[i]);
    return code == ERROR_NONE ? check_device(sweep, &sweep->outcomes[i]) : code;
}

static int read_outcomes(struct sweep *sweep)
{
    int code = ERROR_NONE;
    for (int i = 0; i < sweep->list.case_count && code == ERROR_NONE; i++)
        code = read_outcome(sweep, i);
    return code;
}

/* -- Results ------------------------------------------------------------------------------------------------------ */

static int save(struct sweep *sweep)
{
    const int count = sweep->list.case_count;
    const struct run_outcome *one = with_device(sweep);
    const struct table_heading heading = {sweep->settings->list, sweep->place.build, one != NULL ? one->device : ""};
    outcome_compare(sweep->outcomes, count);
    int code = table_save(sweep->place.folder, &heading, sweep->outcomes, count);
    if (code == ERROR_NONE)
        code = scaling_draw(sweep->place.folder, sweep->outcomes, count);
    if (code == ERROR_NONE)
        code = losses_draw(sweep->place.folder, sweep->outcomes, count);
    return code == ERROR_NONE ? sweep_page_save(sweep->place.folder, &heading, sweep->outcomes, count) : code;
}

/* -- Running ------------------------------------------------------------------------------------------------------ */

static void log_case(const struct sweep *sweep, int i)
{
    const struct run_outcome *o = &sweep->outcomes[i];
    printf("%s", o->state);
    if (isfinite(o->rate))
        printf(": %.0f tokens/s, %.4f s a step", o->rate, o->step_median);
    if (failed(o))
        log_print(stdout, " (exit code %lld): %s", (long long)o->exit_code, o->message);
    printf("\n");
    fflush(stdout);
}

static int run_case(struct sweep *sweep, int i)
{
    const struct sweep_case *c = &sweep->list.cases[i];
    if (!is_due(sweep, &sweep->outcomes[i], c))
        return ERROR_NONE;
    log_print(stdout, "[%d of %d] %s, %lld rank%s%s%s: ", i + 1, sweep->list.case_count, c->name, (long long)c->ranks,
              plural(c->ranks), c->varied[0] != '\0' ? ", " : "", c->varied);
    fflush(stdout);
    int code = sweep_job_start(&sweep->place, c);
    if (code == ERROR_NONE)
        code = read_outcome(sweep, i);
    if (code != ERROR_NONE) {
        printf("\n");
        return code;
    }
    log_case(sweep, i);
    return save(sweep);
}

/* Returns whether the case has not appeared earlier in the list: two groups may have the same case. */
static bool is_first(const struct sweep *sweep, int i)
{
    for (int before = 0; before < i; before++)
        if (strcmp(sweep->list.cases[before].name, sweep->list.cases[i].name) == 0)
            return false;
    return true;
}

static int run_cases(struct sweep *sweep)
{
    int code = ERROR_NONE;
    for (int i = 0; i < sweep->list.case_count && code == ERROR_NONE; i++)
        if (is_first(sweep, i))
            code = run_case(sweep, i);
    return code;
}

/* -- The whole command -------------------------------------------------------------------------------------------- */

static int sum_up(const struct sweep *sweep)
{
    int bad = 0, open = 0;
    for (int i = 0; i < sweep->list.case_count; i++) {
        bad += failed(&sweep->outcomes[i]);
        open += sweep->outcomes[i].exit_code < 0;
    }
    const struct run_outcome *one = with_device(sweep);
    log_print(stdout, "\n%d case%s, %d to come; build %s; %s\nwritten: %s/report.html, results.h5 and results.csv\n",
              sweep->list.case_count, plural(sweep->list.case_count), open, sweep->place.build,
              one != NULL ? one->device : "no device yet", sweep->place.folder);
    return bad == 0
               ? ERROR_NONE
               : error_environment("%d of %d cases have failed, each with the message in its row; --retry runs them "
                                   "again",
                                   bad, sweep->list.case_count);
}

static int run_in_folder(struct sweep *sweep)
{
    int code = read_outcomes(sweep);
    if (code == ERROR_NONE && !sweep->settings->only_show)
        code = run_cases(sweep);
    if (code == ERROR_NONE)
        code = read_outcomes(sweep); /* updates cases that are twice in the list, and those of a batch system */
    if (code != ERROR_NONE)
        return code;
    code = save(sweep);
    printf("\n");
    table_print(sweep->outcomes, sweep->list.case_count);
    return code == ERROR_NONE ? sum_up(sweep) : code;
}

/* Checks that the folder is a sweep's if it has files with the names of results, which each call overwrites. The folder
 * of a sweep has a sweep's lock. */
static int check_folder(const char *folder)
{
    static const char *const names[] = {"results.csv", "results.h5", "weak.svg",
                                        "strong.svg",  "loss.svg",   "report.html"};
    char *lock = memory_format("%s/" RUN_LOCK, folder);
    const bool own = access(lock, F_OK) == 0;
    int code = ERROR_NONE;
    for (size_t i = 0; i < sizeof names / sizeof *names && !own && code == ERROR_NONE; i++) {
        char *path = memory_format("%s/%s", folder, names[i]);
        if (access(path, F_OK) == 0)
            code = error_user(
                "%s: exists, and its folder was not made by a sweep (it has no lock); name another folder with -o",
                path);
        free(path);
    }
    free(lock);
    return code;
}

/* Makes and locks the folder. *path: its absolute path, freed with free(). */
static int enter_folder(const char *folder, struct comm *self, struct folder_lock *lock, char **path)
{
    const int failure = disk_make_folder(folder, NULL);
    *path = failure == 0 ? realpath(folder, NULL) : NULL;
    if (*path == NULL)
        return error_user("%s: cannot be created: %s", folder, strerror(failure != 0 ? failure : errno));
    int code = check_folder(*path);
    return code == ERROR_NONE ? lock_acquire(lock, self, *path) : code;
}

int sweep_run(const struct sweep_settings *settings)
{
    struct sweep sweep = {.settings = settings};
    struct folder_lock lock = {0};
    struct comm *self = comm_self();
    char *folder = settings->folder != NULL ? memory_string(settings->folder) : path_stem(settings->list);
    char *program = sweep_program(), *build = sweep_build(), *path = NULL;
    char *library = settings->no_transfers != NULL ? realpath(settings->no_transfers, NULL) : memory_string("");
    int code = library != NULL ? sweep_list_read(&sweep.list, settings->list)
                               : error_user("%s: %s", settings->no_transfers, strerror(errno));
    if (code == ERROR_NONE)
        code = enter_folder(folder, self, &lock, &path);
    if (code == ERROR_NONE) {
        sweep.place = (struct sweep_place){path, program, build, library};
        sweep.outcomes = memory_allocate(sweep.list.case_count * (int64_t)sizeof *sweep.outcomes);
        code = run_in_folder(&sweep);
        for (int i = 0; i < sweep.list.case_count; i++)
            outcome_destroy(&sweep.outcomes[i]);
        memory_free(sweep.outcomes);
        lock_release(&lock, false);
    }
    sweep_list_destroy(&sweep.list);
    comm_destroy(self);
    free(folder);
    free(path);
    free(program);
    free(build);
    free(library);
    return code;
}
