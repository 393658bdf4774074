#include "file/striping.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>

extern char **environ;

/* Runs a program without input and output, and without fork, which MPI and CUDA do not like. */
static bool run_silently(char *const arguments[])
{
    posix_spawn_file_actions_t actions;
    pid_t child;
    int status = -1;
    posix_spawn_file_actions_init(&actions);
    for (int descriptor = 0; descriptor < 3; descriptor++)
        posix_spawn_file_actions_addopen(&actions, descriptor, "/dev/null", O_RDWR, 0);
    const bool started = posix_spawnp(&child, arguments[0], &actions, NULL, arguments, environ) == 0;
    posix_spawn_file_actions_destroy(&actions);
    while (started && waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return false;
    return started && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool striping_request(const char *folder, int64_t stripes)
{
    char count[24];
    snprintf(count, sizeof count, "%lld", (long long)stripes);
    /* stripes of 8 MiB, as long as the pieces that ranks write (PIECE_BYTES) */
    char *const arguments[] = {"lfs", "setstripe", "-E", "64M", "-c",           "1", "-E", "-1",
                               "-c",  count,       "-S", "8M",  (char *)folder, NULL};
    return run_silently(arguments);
}
