#include "estimate/disk_space.h"
#include "base/bytes.h"
#include "file/disk.h"
#include "base/error.h"
#include "base/log.h"
#include "engine/delayed_scaling.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

static int64_t least_common_multiple(int64_t a, int64_t b)
{
    int64_t x = a, y = b;
    while (y != 0) {
        int64_t rest = x % y;
        x = y;
        y = rest;
    }
    return a / x > INT64_MAX / b ? INT64_MAX : a / x * b;
}

static int64_t checkpoints_that_stay(const struct setup *setup)
{
    const struct saving_settings *saving = &setup->saving;
    const int64_t steps = setup->steps, every = saving->every, keep_every = saving->keep_every;
    int64_t written = every > 0 ? steps / every : 0;
    if (saving->at_end && (every == 0 || steps % every != 0))
        written++;
    int64_t stay = saving->keep;
    if (saving->seconds > 0)
        written = steps;
    if (keep_every > 0 && every > 0)
        stay += steps / least_common_multiple(every, keep_every);
    return (stay < written ? stay : written) + (saving->keep_best ? 1 : 0);
}

struct disk_space disk_space_of(const struct setup *setup)
{
    const struct model_settings *model = &setup->model;
    struct disk_space space = {.model = model_parameter_count(model) * (int64_t)sizeof(float),
                               .checkpoints = checkpoints_that_stay(setup)};
    const int64_t trained = model_trained_count(model) * (int64_t)sizeof(float);
    const int64_t muon = model_muon_count(model) * (int64_t)sizeof(float); /* has one moment, the others two */
    space.checkpoint = space.model + 2 * trained - muon + delayed_scaling_bytes(model);
    const int models = setup->saving.at_end ? 1 + setup->saving.export_final : 0;
    const int64_t all = space.checkpoints > 0 ? space.checkpoints + 1 : 0; /* and the one being written */
    space.total = all * space.checkpoint + models * space.model;
    if (!disk_free(setup->folder, &space.free))
        space.free = -1;
    return space;
}

/* Returns the bytes of .h5 files that the run's folder already has. */
static int64_t existing_bytes(const char *folder)
{
    int64_t bytes = 0;
    DIR *listing = opendir(folder);
    if (listing == NULL)
        return 0;
    for (const struct dirent *entry; (entry = readdir(listing)) != NULL;) {
        struct stat status;
        size_t length = strlen(entry->d_name);
        if (length > 3 && strcmp(entry->d_name + length - 3, ".h5") == 0 &&
            fstatat(dirfd(listing), entry->d_name, &status, 0) == 0)
            bytes += status.st_size;
    }
    closedir(listing);
    return bytes;
}

static int check(const struct setup *setup)
{
    const char *folder = setup->folder;
    const struct disk_space space = disk_space_of(setup);
    char there[BYTES_TEXT], one[BYTES_TEXT], all[BYTES_TEXT];
    if (space.free < 0 || space.total == 0)
        return ERROR_NONE;
    bytes_text(there, (double)space.free);
    bytes_text(one, (double)space.checkpoint);
    if (space.free < space.checkpoint)
        return error_user("key output.folder = \"%s\": a checkpoint needs %s, but the disk has %s free; free some "
                          "space or choose another folder",
                          folder, one, there);
    const int64_t more = space.total - existing_bytes(folder);
    if (space.free < more)
        log_warn("key output.folder = \"%s\": the run will need %s more (%lld checkpoints of %s to keep, one being "
                 "written, the final model), but the disk has %s free; free some space or lower checkpoint.keep",
                 folder, bytes_text(all, (double)more), (long long)space.checkpoints, one, there);
    return ERROR_NONE;
}

int disk_space_check(struct comm *world, const struct setup *setup)
{
    return comm_agree(world, world->rank == 0 ? check(setup) : ERROR_NONE);
}
