/* A folder for a test's files, shared by all ranks. */
#ifndef TESTS_RANK_FOLDER_H
#define TESTS_RANK_FOLDER_H

#include "base/error.h"
#include "base/memory.h"
#include "comm/comm.h"

#include <stdio.h>
#include <stdlib.h>

/* rank_folder_create makes the folder on rank 0, below TMPDIR or in the current folder; rank_folder_remove removes it
 * and frees the path. Both are collective. */
static inline char *rank_folder_create(struct comm *world, const char *test)
{
    const char *base = getenv("TMPDIR");
    char path[4096] = "";
    if (world->rank == 0) {
        snprintf(path, sizeof path, "%s/%s.XXXXXX", base == NULL || *base == '\0' ? "." : base, test);
        if (mkdtemp(path) == NULL)
            error_fatal("cannot make the folder %s", path);
    }
    comm_broadcast(world, path, sizeof path, 0);
    return memory_string(path);
}

static inline void rank_folder_remove(struct comm *world, char *folder)
{
    comm_barrier(world);
    char *command = memory_format("rm -r '%s'", folder);
    if (world->rank == 0 && system(command) != 0)
        fprintf(stderr, "%s stays behind\n", folder);
    free(command);
    free(folder);
}

#endif
