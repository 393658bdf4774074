#include "base/terminal.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

static int columns_of(int descriptor)
{
    struct winsize size = {0};
    return ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

/* Returns the columns of the parent's output: mpirun gives its processes a terminal without a size. */
static int launcher_columns(void)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/fd/1", (long)getppid());
    int descriptor = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (descriptor < 0)
        return 0;
    int columns = columns_of(descriptor);
    close(descriptor);
    return columns;
}

int terminal_columns(void)
{
    const char *given = getenv("COLUMNS");
    if (!isatty(STDOUT_FILENO))
        return 0;
    if (given != NULL && atoi(given) > 0)
        return atoi(given);
    int columns = columns_of(STDOUT_FILENO);
    return columns > 0 ? columns : launcher_columns();
}
