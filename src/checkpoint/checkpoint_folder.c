/* Manages the checkpoints of a run folder: names, the newest good one, pruning. */
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "file/path.h"
#include "file/run_folder.h"
#include "file/block.h"
#include "checkpoint/checkpoint_private.h"
#include "file/file.h"
#include "file/temporary.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STEP_NAME_BYTES = 48 };

char *checkpoint_path(const char *folder, int64_t step)
{
    return memory_format("%s/" RUN_CHECKPOINT, folder, (long long)step);
}

/* Returns the step in a file's name, -1 if it is not the name of a step. *rest: what follows the name ("", ".xxh3",
 * ...). */
static int64_t step_of_name(const char *name, const char **rest)
{
    char whole[STEP_NAME_BYTES];
    long long step;
    if (sscanf(name, "step_%lld", &step) != 1 || step < 0)
        return -1;
    int length = snprintf(whole, sizeof whole, RUN_CHECKPOINT, step);
    if (strncmp(name, whole, (size_t)length) != 0)
        return -1;
    *rest = name + length;
    return step;
}

static int newest_first(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

/* Lists the steps of which the folder has files with this ending, newest first; freed with free(). */
static int list_steps(const char *folder, const char *ending, int64_t **steps, int64_t *count)
{
    *steps = NULL;
    *count = 0;
    DIR *listing = opendir(folder);
    if (listing == NULL)
        return error_environment("%s: cannot list the folder: %s", folder, strerror(errno));
    for (const struct dirent *entry = readdir(listing); entry != NULL; entry = readdir(listing)) {
        const char *rest;
        int64_t step = step_of_name(entry->d_name, &rest);
        if (step < 0 || strcmp(rest, ending) != 0)
            continue;
        *steps = memory_grow(*steps, (*count + 1) * (int64_t)sizeof **steps);
        (*steps)[(*count)++] = step;
    }
    closedir(listing);
    if (*count > 0)
        qsort(*steps, (size_t)*count, sizeof **steps, newest_first);
    return ERROR_NONE;
}

int checkpoint_newest(const char *folder, char **path)
{
    int64_t *steps, count;
    *path = NULL;
    int code = list_steps(folder, "", &steps, &count);
    if (count > 0)
        *path = checkpoint_path(folder, steps[0]);
    free(steps);
    return code;
}

/* -- Finding ----------------------------------------------------------------------------------------------------- */

/* Renames a bad checkpoint and its side file, as far as possible. Returns a line that says what happened, freed with
 * free(). */
static char *set_aside(const char *path)
{
    char *side = block_side_path(path), *bad = memory_format("%s.bad", path), *bad_side = memory_format("%s.bad", side);
    char *line = rename(path, bad) == 0
                     ? memory_format("%s; the file is renamed to %s", error_message(), bad)
                     : memory_format("%s; the file cannot be renamed: %s", error_message(), strerror(errno));
    rename(side, bad_side); /* it may be missing */
    free(side);
    free(bad);
    free(bad_side);
    return line;
}

char *checkpoint_set_aside(struct comm *world, const char *path)
{
    char *line = world->rank == 0 ? set_aside(path) : NULL;
    if (line != NULL)
        log_warn("a damaged checkpoint: %s", line);
    error_clear();
    comm_barrier(world); /* afterwards the file is gone for all ranks */
    return line;
}

/* Returns whether a file without a side file was written by a newer program, and is not bad. Rank 0. */
static bool is_newer(const char *path)
{
    char *side = block_side_path(path);
    struct hdf5_silence silence;
    hid_t file;
    int64_t format = 0;
    hdf5_silence_begin(&silence);
    if (access(side, F_OK) != 0 && hdf5_open(&file, path) == ERROR_NONE) {
        hdf5_read_integer(file, "cistron_checkpoint", &format);
        H5Fclose(file);
    }
    hdf5_silence_end(&silence);
    free(side);
    return format > CHECKPOINT_FORMAT;
}

/* Refuses a folder in which steps were done and all checkpoints are bad: the user must decide to start again. Rank 0.
 */
static int refuse_all_bad(const char *folder)
{
    int64_t *steps, count;
    int code = list_steps(folder, ".bad", &steps, &count);
    free(steps);
    if (code == ERROR_NONE && count > 0)
        code = error_user("%s: all its checkpoints are damaged (%lld, renamed to *.bad); move them away to start a new "
                          "run, or choose another folder",
                          folder, (long long)count);
    return code;
}

static int find_in_folder(struct comm *world, const char *folder, bool tensors, char **path, char **reasons)
{
    int64_t *steps = NULL, count = 0;
    int code = comm_share(world, world->rank == 0 ? list_steps(folder, "", &steps, &count) : ERROR_NONE);
    comm_broadcast(world, &count, sizeof count, 0);
    char *aside = NULL;
    for (int64_t i = 0; i < count && code == ERROR_NONE && *path == NULL; i++) {
        int64_t step = world->rank == 0 ? steps[i] : 0;
        comm_broadcast(world, &step, sizeof step, 0);
        char *candidate = checkpoint_path(folder, step);
        code = checkpoint_examine(world, candidate, tensors);
        if (code == ERROR_NONE) {
            *path = memory_string(candidate);
        } else if (code == ERROR_USER) {
            int64_t newer = world->rank == 0 && is_newer(candidate);
            comm_broadcast(world, &newer, sizeof newer, 0);
            if (newer) {
                free(candidate);
                break;
            }
            if (world->rank == 0) {
                char *line = set_aside(candidate);
                char *longer = aside == NULL ? memory_string(line) : memory_format("%s\n  %s", aside, line);
                free(line);
                free(aside);
                aside = longer;
            }
            error_clear();
            code = ERROR_NONE;
        }
        free(candidate);
    }
    if (aside != NULL)
        log_warn("damaged checkpoints in %s:\n  %s", folder, aside);
    *reasons = aside;
    free(steps);
    if (code == ERROR_NONE && *path == NULL)
        code = world->rank == 0 ? refuse_all_bad(folder) : ERROR_NONE;
    return comm_agree(world, code);
}

int checkpoint_look(struct comm *world, const char *before, const char *where, const char *after)
{
    struct stat status;
    int code = ERROR_NONE;
    if (world->rank == 0 && stat(where, &status) != 0)
        code = error_user("%s%s%s: cannot find a checkpoint or run folder there: %s", before, where, after,
                          path_failure(where, errno));
    return comm_agree(world, code);
}

static int find(struct comm *world, const char *where, bool tensors, char **path, char **aside)
{
    *path = *aside = NULL;
    int64_t is_folder = 0;
    struct stat status;
    int code = checkpoint_look(world, "", where, "");
    if (code != ERROR_NONE)
        return code;
    if (world->rank == 0)
        is_folder = stat(where, &status) == 0 && S_ISDIR(status.st_mode);
    comm_broadcast(world, &is_folder, sizeof is_folder, 0);
    if (is_folder)
        return find_in_folder(world, where, tensors, path, aside);
    code = comm_agree(world, checkpoint_examine(world, where, tensors));
    if (code == ERROR_NONE)
        *path = memory_string(where);
    return code;
}

int checkpoint_find_reporting(struct comm *world, const char *where, char **path, char **aside)
{
    return find(world, where, true, path, aside);
}

int checkpoint_find(struct comm *world, const char *where, char **path)
{
    char *aside;
    int code = checkpoint_find_reporting(world, where, path, &aside);
    free(aside);
    return code;
}

int checkpoint_find_to_load(struct comm *world, const char *where, char **path, char **aside)
{
    return find(world, where, false, path, aside);
}

/* Returns rank 0's meta of a good file on every rank, without owned pointers; {0} if it cannot be read. */
static struct checkpoint_meta peek(struct comm *world, const char *path)
{
    struct checkpoint_meta meta = {0};
    if (world->rank == 0 && checkpoint_load_meta(path, &meta) == ERROR_NONE)
        checkpoint_meta_destroy(&meta);
    error_clear();
    comm_broadcast(world, &meta, sizeof meta, 0);
    return meta;
}

bool checkpoint_matches(struct comm *world, const char *path, uint64_t digest)
{
    int64_t there = world->rank == 0 && access(path, F_OK) == 0;
    comm_broadcast(world, &there, sizeof there, 0);
    if (!there || checkpoint_examine(world, path, true) != ERROR_NONE) {
        error_clear();
        return false;
    }
    return peek(world, path).digest == digest;
}

/* Returns whether the folder has a later checkpoint than this good file. */
static bool has_later(struct comm *world, const char *folder, const char *path)
{
    int64_t *steps = NULL, count = 0, newest = -1;
    if (world->rank == 0 && list_steps(folder, "", &steps, &count) == ERROR_NONE && count > 0)
        newest = steps[0];
    error_clear();
    free(steps);
    comm_broadcast(world, &newest, sizeof newest, 0);
    return newest > peek(world, path).step;
}

int checkpoint_none(const char *before, const char *folder, const char *after)
{
    char *log = memory_format("%s/" RUN_LOG, folder);
    bool begun = access(log, F_OK) == 0;
    free(log);
    if (begun)
        return error_user("%s%s%s: the run there has not written a checkpoint yet; to request one from a live run, "
                          "create a file named checkpoint in its folder",
                          before, folder, after);
    return error_user("%s%s%s: has no checkpoint (step_*.h5); cistron import makes one from a Hugging Face folder",
                      before, folder, after);
}

int checkpoint_find_model(struct comm *world, const char *where, char **path)
{
    char *model = memory_format("%s/" RUN_FINAL_MODEL, where);
    struct stat status;
    int64_t finished = stat(model, &status) == 0 && S_ISREG(status.st_mode);
    comm_broadcast(world, &finished, sizeof finished, 0);
    int code = checkpoint_find(world, finished ? model : where, path);
    if (code == ERROR_NONE && finished && has_later(world, where, model)) {
        free(*path);
        code = checkpoint_find(world, where, path);
    }
    if (code == ERROR_NONE && *path == NULL)
        code = comm_agree(world, checkpoint_none("--checkpoint ", where, ""));
    free(model);
    return code;
}

int checkpoint_find_meta(const char *where, char **path, struct checkpoint_meta *meta)
{
    struct comm *self = comm_self();
    int code = checkpoint_find_model(self, where, path);
    if (code == ERROR_NONE)
        code = checkpoint_read_meta(self, *path, meta);
    comm_destroy(self);
    return code;
}

/* -- Pruning ----------------------------------------------------------------------------------------------------- */

/* Removes the checkpoint, then its side file, so that a kill in between never leaves a checkpoint without one. */
static int remove_step(const char *folder, int64_t step)
{
    char *path = checkpoint_path(folder, step), *side = block_side_path(path);
    int code = file_remove(path);
    if (code == ERROR_NONE)
        code = file_remove(side);
    free(path);
    free(side);
    return code;
}

static int remove_old(const char *folder, const struct checkpoint_rule *rule)
{
    int64_t *steps, count, kept = 0;
    int code = list_steps(folder, "", &steps, &count);
    for (int64_t i = 0; i < count && code == ERROR_NONE; i++) {
        char *path = checkpoint_path(folder, steps[i]), *side = block_side_path(path);
        bool exempt = steps[i] == rule->best_step || (rule->keep_every > 0 && steps[i] % rule->keep_every == 0);
        if (kept == rule->keep && !exempt)
            code = remove_step(folder, steps[i]);
        else if (kept < rule->keep && access(side, F_OK) == 0)
            kept++;
        free(path);
        free(side);
    }
    free(steps);
    return code;
}

int checkpoint_remove_leftovers(const char *folder)
{
    /* side files are removed only if the checkpoint is gone */
    static const char *const endings[] = {TEMPORARY_SHARED, BLOCK_SIDE TEMPORARY_SHARED, BLOCK_SIDE};
    int code = ERROR_NONE;
    for (int e = 0; e < 3 && code == ERROR_NONE; e++) {
        int64_t *steps, count;
        code = list_steps(folder, endings[e], &steps, &count);
        for (int64_t i = 0; i < count && code == ERROR_NONE; i++) {
            char *path = checkpoint_path(folder, steps[i]), *left = memory_format("%s%s", path, endings[e]);
            if (e < 2 || access(path, F_OK) != 0)
                code = file_remove(left);
            free(path);
            free(left);
        }
        free(steps);
    }
    return code;
}

int checkpoint_prune(struct comm *world, const char *folder, const struct checkpoint_rule *rule)
{
    int code = ERROR_NONE;
    if (world->rank == 0) {
        code = remove_old(folder, rule);
        if (code == ERROR_NONE)
            code = checkpoint_remove_leftovers(folder);
    }
    return comm_agree(world, code);
}
