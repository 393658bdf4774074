#include "sweep/job.h"
#include "base/build.h"
#include "file/disk.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/range.h"
#include "file/open.h"
#include "file/atomic_file.h"
#include "file/file.h"
#include "checkpoint/lock.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PLAN_SECONDS = 120, KILL_SECONDS = 30 };

/* -- The program -------------------------------------------------------------------------------------------------- */

char *sweep_program(void)
{
    char path[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[MAX(length, 0)] = '\0';
    return memory_string(path);
}

char *sweep_build(void)
{
    char id[BUILD_ID_BYTES];
    build_id(id);
    return memory_format("%s %s", PACKAGE_VERSION, id);
}

/* -- Files of a case ---------------------------------------------------------------------------------------------- */

char *sweep_job_path(const struct sweep_place *place, const struct sweep_case *c, const char *name)
{
    return memory_format("%s/%s/%s", place->folder, c->name, name);
}

char *sweep_job_line(const struct sweep_place *place, const struct sweep_case *c, const char *name)
{
    char *path = sweep_job_path(place, c, name), *line = NULL;
    FILE *file = open_stream(path);
    size_t capacity = 0;
    if (file == NULL || getline(&line, &capacity, file) < 0) {
        free(line);
        line = NULL;
    } else {
        line[strcspn(line, "\n")] = '\0';
    }
    if (file != NULL)
        fclose(file);
    free(path);
    return line;
}

static bool is_there(const struct sweep_place *place, const struct sweep_case *c, const char *name)
{
    char *path = sweep_job_path(place, c, name);
    const bool there = access(path, F_OK) == 0;
    free(path);
    return there;
}

enum sweep_state sweep_job_state(const struct sweep_place *place, const struct sweep_case *c)
{
    if (is_there(place, c, "exit"))
        return SWEEP_ENDED;
    char *run = sweep_job_path(place, c, "run");
    const bool running = lock_is_held(run);
    free(run);
    return running ? SWEEP_RUNNING : is_there(place, c, "submitted") ? SWEEP_WAITING : SWEEP_NEW;
}

bool sweep_job_is_freed(const struct sweep_place *place, const struct sweep_case *c)
{
    return place->no_transfers[0] != '\0' && c->ranks > 1;
}

bool sweep_job_was_freed(const struct sweep_place *place, const struct sweep_case *c)
{
    return is_there(place, c, "free.txt");
}

static void remove_leftovers(const struct sweep_place *place, const struct sweep_case *c)
{
    static const char *const folders[] = {"run", "free", ""}; /* the last one is the case's own folder */
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char *path = sweep_job_path(place, c, folders[i]);
        disk_remove_folder(path);
        free(path);
    }
}

/* -- Command lines ------------------------------------------------------------------------------------------------ */

/* Writes a text as one word of a shell. */
static void write_word(FILE *file, const char *text)
{
    fputc('\'', file);
    for (; *text != '\0'; text++)
        if (*text == '\'')
            fputs("'\\''", file);
        else
            fputc(*text, file);
    fputc('\'', file);
}

/* Returns a text as one word of a shell, freed with free(). */
static char *word(const char *text)
{
    char *bytes = NULL;
    size_t length = 0;
    FILE *file = memory_stream(&bytes, &length);
    write_word(file, text);
    memory_stream_end(file);
    return bytes;
}

static void write_keys(FILE *file, const struct sweep_case *c)
{
    fputc(' ', file);
    write_word(file, c->deck);
    for (int i = 0; i < c->override_count; i++) {
        fputc(' ', file);
        write_word(file, c->overrides[i]);
    }
}

/* Returns the training's command line, with the run folder `run` in the case's folder; freed with free(). preload: path
 * of a library; "": none. */
static char *training(const struct sweep_place *place, const struct sweep_case *c, const char *run, const char *preload)
{
    char *bytes = NULL, *path = sweep_job_path(place, c, run), *folder = memory_format("output.folder=%s", path);
    size_t length = 0;
    FILE *file = memory_stream(&bytes, &length);
    if (preload[0] != '\0') {
        char *variable = memory_format("LD_PRELOAD=%s", preload);
        fputs("env ", file);
        write_word(file, variable);
        fputc(' ', file);
        free(variable);
    }
    write_word(file, place->program);
    fputs(" train", file);
    write_keys(file, c);
    fputc(' ', file);
    write_word(file, folder);
    memory_stream_end(file);
    free(folder);
    free(path);
    return bytes;
}

struct replacement {
    const char *name; /* with braces */
    const char *text;
};

/* Writes a line with its {names} replaced; other braces stay. */
static void write_replaced(FILE *file, const char *line, const struct replacement *all, int count)
{
    while (*line != '\0') {
        int i = 0;
        while (i < count && strncmp(line, all[i].name, strlen(all[i].name)) != 0)
            i++;
        fputs(i < count ? all[i].text : (char[]){*line, '\0'}, file);
        line += i < count ? strlen(all[i].name) : 1;
    }
}

/* Returns `launch` or `submit` filled in for a case. what: {command} or {script}; text: its value. Freed with
 * free(). */
static char *filled(const char *line, const struct sweep_case *c, const char *what, const char *text)
{
    char ranks[24], nodes[24], on_node[24], *bytes = NULL;
    size_t length = 0;
    snprintf(ranks, sizeof ranks, "%lld", (long long)c->ranks);
    snprintf(nodes, sizeof nodes, "%lld", (long long)c->nodes);
    snprintf(on_node, sizeof on_node, "%lld", (long long)c->ranks_per_node);
    const struct replacement all[] = {
        {what, text}, {"{ranks}", ranks}, {"{nodes}", nodes}, {"{ranks_per_node}", on_node}, {"{name}", c->name}};
    FILE *file = memory_stream(&bytes, &length);
    write_replaced(file, line, all, sizeof all / sizeof *all);
    memory_stream_end(file);
    return bytes;
}

/* -- The script --------------------------------------------------------------------------------------------------- */

/* Writes one training with the time limit of a case. `launch` may be several commands, so it has its own shell. Its
 * processes form a process group, to all of which the time limit applies, and Ctrl-C by write_traps. */
static void write_training(FILE *file, const struct sweep_place *place, const struct sweep_case *c, const char *run,
                           const char *out, const char *preload)
{
    char *command = training(place, c, run, preload), *path = sweep_job_path(place, c, out);
    char *launch = filled(c->group->launch, c, "{command}", command);
    char *line = memory_format("trap exit INT TERM HUP\n%s", launch); /* when the current command has ended */
    fprintf(file, "timeout --kill-after=%d %g bash -c ", KILL_SECONDS, c->group->seconds);
    write_word(file, line);
    fputs(" </dev/null >", file);
    write_word(file, path);
    fputs(" 2>&1 &\nwait $!\n", file);
    free(line);
    free(launch);
    free(path);
    free(command);
}

/* Writes the signal traps: a signal ends the training, then the script by the same signal. Otherwise the exit code that
 * a launcher makes of Ctrl-C would count as a failed case. While the training ends, further signals are ignored,
 * because Ctrl-C also ends the sweep, which then sends TERM (run_shell). */
static void write_traps(FILE *file)
{
    fputs("for s in INT TERM HUP; do\n"
          "    trap \"trap '' INT TERM HUP; kill -$s \\$! 2>/dev/null && wait \\$!; trap $s; kill -$s \\$\\$\" $s\n"
          "done\n",
          file);
}

static void write_plan(FILE *file, const struct sweep_place *place, const struct sweep_case *c)
{
    char *json = sweep_job_path(place, c, "plan.json"), *said = sweep_job_path(place, c, "plan.txt");
    fprintf(file, "timeout %d ", PLAN_SECONDS);
    write_word(file, place->program);
    fprintf(file, " plan --json --ranks %lld --ranks-per-node %lld", (long long)c->ranks, (long long)c->ranks_per_node);
    write_keys(file, c);
    fputs(" </dev/null >", file);
    write_word(file, json);
    fputs(" 2>", file);
    write_word(file, said);
    fputc('\n', file);
    free(json);
    free(said);
}

static void write_script(FILE *file, const struct sweep_place *place, const struct sweep_case *c)
{
    char here[PATH_MAX], *end = sweep_job_path(place, c, "exit"), *run = sweep_job_path(place, c, "run");
    fputs("#!/bin/bash\n# written by cistron sweep\n", file);
    write_traps(file);
    fputs("cd ", file);
    write_word(file, getcwd(here, sizeof here) != NULL ? here : ".");
    fputs(" || exit\n", file);
    write_plan(file, place, c);
    write_training(file, place, c, "run", "out.txt", "");
    fputs("code=$?\nrm -f ", file); /* remove checkpoints of an interrupted training */
    write_word(file, run);
    fputs("/*.h5*\n", file);
    if (sweep_job_is_freed(place, c)) {
        fputs("if [ $code -eq 0 ]; then\n", file);
        write_training(file, place, c, "free", "free.txt", place->no_transfers);
        fputs("fi\n", file);
    }
    fputs("end=", file); /* written atomically */
    write_word(file, end);
    fputs("\necho $code >\"$end.part\" && mv \"$end.part\" \"$end\"\n", file);
    free(end);
    free(run);
}

static int write_files(const struct sweep_place *place, const struct sweep_case *c)
{
    char *folder = sweep_job_path(place, c, ""), *script = sweep_job_path(place, c, "job.sh");
    char *build = sweep_job_path(place, c, "build");
    struct atomic_file atomic = {NULL};
    const int failure = disk_make_folder(folder, NULL);
    int code = failure != 0 ? error_user("%s: cannot be created: %s", folder, strerror(failure)) : ERROR_NONE;
    if (code == ERROR_NONE)
        code = atomic_file_open(&atomic, build);
    if (code == ERROR_NONE) {
        fprintf(atomic.file, "%s\n", place->build);
        code = atomic_file_close(&atomic, code);
    }
    if (code == ERROR_NONE)
        code = atomic_file_open(&atomic, script);
    if (code == ERROR_NONE) {
        write_script(atomic.file, place, c);
        code = atomic_file_close(&atomic, code);
    }
    free(folder);
    free(script);
    free(build);
    return code;
}

/* -- Running ------------------------------------------------------------------------------------------------------ */

/* Runs bash with these arguments to its end. status: as from waitpid. */
static int run_shell(char *const arguments[], int *status)
{
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM); /* else a training could outlive the sweep, and slow down the next */
        execvp("bash", arguments);
        _exit(127);
    }
    if (child < 0)
        return error_environment("bash: cannot be started: %s", strerror(errno));
    while (waitpid(child, status, 0) < 0)
        if (errno != EINTR)
            return error_environment("bash: %s", strerror(errno));
    if (WIFSIGNALED(*status))
        return error_environment("signal %d (%s) has ended a case; the same command continues from there",
                                 WTERMSIG(*status), strsignal(WTERMSIG(*status)));
    return ERROR_NONE;
}

static int run_here(const struct sweep_place *place, const struct sweep_case *c)
{
    int status;
    char *script = sweep_job_path(place, c, "job.sh");
    int code = run_shell((char *[]){"bash", script, NULL}, &status);
    if (code == ERROR_NONE && sweep_job_state(place, c) != SWEEP_ENDED)
        code = error_environment("%s: has ended without writing its exit code", script);
    free(script);
    return code;
}

static int submit(const struct sweep_place *place, const struct sweep_case *c)
{
    char *script = sweep_job_path(place, c, "job.sh"), *said = sweep_job_path(place, c, "submitted");
    char *part = sweep_job_path(place, c, "submitted.part"), *quoted = word(script), *answer = word(part);
    char *command = filled(c->group->submit, c, "{script}", quoted);
    char *line = memory_format("{ %s\n} </dev/null >%s 2>&1", command, answer);
    int status;
    int code = run_shell((char *[]){"bash", "-c", line, NULL}, &status);
    if (code == ERROR_NONE && WEXITSTATUS(status) != 0) {
        char *why = sweep_job_line(place, c, "submitted.part");
        code = error_environment("%s: cannot be submitted (exit code %d): %s", c->name, WEXITSTATUS(status),
                                 why != NULL ? why : "");
        free(why);
    }
    if (code == ERROR_NONE)
        code = file_move(part, said);
    free(line);
    free(command);
    free(answer);
    free(quoted);
    free(script);
    free(said);
    free(part);
    return code;
}

int sweep_job_start(const struct sweep_place *place, const struct sweep_case *c)
{
    remove_leftovers(place, c);
    int code = write_files(place, c);
    if (code != ERROR_NONE)
        return code;
    return c->group->submit[0] == '\0' ? run_here(place, c) : submit(place, c);
}
