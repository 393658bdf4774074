#include "train/folder_check.h"
#include "file/disk.h"
#include "file/run_folder.h"
#include "base/error.h"
#include "base/memory.h"
#include "file/open.h"
#include "bridge/folder.h"
#include "monitor/prometheus.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char folder_deck_head[] = "# a run's effective deck; rewritten at each start\n";

/* -- Content of the folder --------------------------------------------------------------------------------------- */

static bool is_own_deck(const char *path)
{
    char *line = memory_allocate(sizeof folder_deck_head);
    FILE *file = open_stream(path);
    const bool own =
        file != NULL && fgets(line, sizeof folder_deck_head, file) != NULL && strcmp(line, folder_deck_head) == 0;
    if (file != NULL)
        fclose(file);
    memory_free(line);
    return own;
}

/* Content of a log.jsonl about its run. from: a checkpoint that may belong to that run, or NULL. */
struct log_record {
    bool own;   /* written by a run */
    bool saved; /* the run has saved a checkpoint */
    bool from;  /* the run has saved `from` */
};

static struct log_record read_record(const char *path, const struct checkpoint_meta *from)
{
    static const char any[] = "{\"event\":\"", saved[] = "{\"event\":\"checkpoint\",\"step\":";
    struct log_record record = {false};
    char *wanted = from == NULL ? NULL
                                : memory_format("%s%lld,\"digest\":\"%016llx\"", saved, (long long)from->step,
                                                (unsigned long long)from->digest),
         *line = NULL;
    size_t capacity = 0;
    FILE *file = open_stream(path);
    while (file != NULL && getline(&line, &capacity, file) > 0) {
        record.own = record.own || strncmp(line, any, strlen(any)) == 0;
        record.saved = record.saved || strncmp(line, saved, strlen(saved)) == 0;
        record.from = record.from || (wanted != NULL && strncmp(line, wanted, strlen(wanted)) == 0);
    }
    if (file != NULL)
        fclose(file);
    free(line);
    free(wanted);
    return record;
}

/* Returns whether the path, links followed, is a regular file that is not empty. */
static bool is_filled_file(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0;
}

static bool is_filled_folder(const char *path)
{
    int64_t entries = 0;
    DIR *listing = opendir(path);
    while (listing != NULL && readdir(listing) != NULL)
        entries++;
    if (listing != NULL)
        closedir(listing);
    return entries > 2; /* "." and ".." */
}

static bool has_checkpoint(const char *folder)
{
    char *newest = NULL;
    if (checkpoint_newest(folder, &newest) != ERROR_NONE)
        error_clear();
    free(newest);
    return newest != NULL;
}

bool folder_has_run(const char *folder)
{
    char *log = memory_format("%s/" RUN_LOG, folder);
    const bool own = read_record(log, NULL).own;
    free(log);
    return own || has_checkpoint(folder);
}

/* -- What may not be replaced ------------------------------------------------------------------------------------- */

/* Paths in output.folder that the checks need. */
struct names {
    const char *folder;
    char *log, *deck, *board, *model, *exported, *requests[2];
};

static bool is_inside(const char *path, const char *folder)
{
    struct stat own, other;
    char *above = disk_folder(path);
    const bool inside =
        stat(above, &own) == 0 && stat(folder, &other) == 0 && own.st_dev == other.st_dev && own.st_ino == other.st_ino;
    free(above);
    return inside;
}

static int refuse(const struct names *names, const char *path, const char *what)
{
    return error_user("key output.folder = \"%s\": %s %s; move it away, or choose another folder", names->folder, path,
                      what);
}

/* Requests to stop or to save must be empty files, because they are removed. */
static int check_requests(const struct names *names)
{
    for (int i = 0; i < 2; i++)
        if (is_filled_file(names->requests[i]))
            return refuse(names, names->requests[i],
                          "exists and is not empty, but a run removes a file of that name as a request");
    return ERROR_NONE;
}

/* checkpoint.export_final may replace only an export. */
static int check_exported(const struct names *names)
{
    if (folder_check(names->exported, true) == ERROR_NONE)
        return ERROR_NONE;
    char *what = memory_format("key checkpoint.export_final = true: %s", error_message());
    error_clear();
    int code = error_restate(ERROR_USER, what);
    free(what);
    return code;
}

/* Refuses to replace the result of a run that this one does not resume. */
static int check_result(const struct names *names, const struct setup *setup, const char *path,
                        const struct log_record *record)
{
    struct stat status;
    const char *what = lstat(names->model, &status) == 0                                 ? names->model
                       : setup->saving.export_final && is_filled_folder(names->exported) ? names->exported
                       : record->saved                                                   ? names->log
                       : has_checkpoint(names->folder)                                   ? "step_*.h5"
                                                                                         : NULL;
    if (what == NULL || record->from)
        return ERROR_NONE;
    char *start = path != NULL ? memory_format("%s is not a checkpoint of that run", path)
                               : memory_string("it has no checkpoint to resume from");
    int code = error_user("key output.folder = \"%s\": has the result of a run (%s), but %s; choose another "
                          "output.folder, or name a checkpoint of that run with train.resume or train --from",
                          names->folder, what, start);
    free(start);
    return code;
}

/* In a folder without a run, files with a run's names do not belong to a run, and are refused. */
static int check_strangers(const struct names *names, const struct setup *setup)
{
    static const char what[] = "exists and was not written by a run, which would overwrite it";
    if (is_filled_file(names->log))
        return refuse(names, names->log, what);
    if (is_filled_file(names->deck))
        return refuse(names, names->deck, what);
    return setup->tensorboard && is_filled_folder(names->board) ? refuse(names, names->board, what) : ERROR_NONE;
}

static int check(const struct names *names, const struct setup *setup, const char *path,
                 const struct checkpoint_meta *from)
{
    int code = check_requests(names);
    if (code == ERROR_NONE)
        code = prometheus_check(names->folder, setup->prometheus);
    const bool resumes = path != NULL && is_inside(path, names->folder);
    const struct log_record record = resumes ? (struct log_record){.own = true} : read_record(names->log, from);
    if (code == ERROR_NONE && !resumes)
        code = check_result(names, setup, path, &record);
    if (code == ERROR_NONE && !record.own && !is_own_deck(names->deck) && !has_checkpoint(names->folder))
        code = check_strangers(names, setup);
    if (code == ERROR_NONE && setup->saving.export_final)
        code = check_exported(names);
    return code;
}

int folder_check_run(const struct setup *setup, const char *path, const struct checkpoint_meta *from)
{
    const char *folder = setup->folder;
    struct names names = {
        .folder = folder,
        .log = memory_format("%s/" RUN_LOG, folder),
        .deck = memory_format("%s/" RUN_DECK, folder),
        .board = memory_format("%s/" RUN_TENSORBOARD, folder),
        .model = memory_format("%s/" RUN_FINAL_MODEL, folder),
        .exported = memory_format("%s/" RUN_EXPORT, folder),
        .requests = {memory_format("%s/" RUN_STOP, folder), memory_format("%s/" RUN_SAVE, folder)},
    };
    int code = check(&names, setup, path, from);
    char *const texts[] = {names.log,      names.deck,        names.board,      names.model,
                           names.exported, names.requests[0], names.requests[1]};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        free(texts[i]);
    return code;
}
