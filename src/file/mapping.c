#include "file/mapping.h"
#include "base/error.h"
#include "base/memory.h"
#include "file/open.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct file_mapping *open_mappings;
static struct sigaction before;

/* Handles SIGBUS. A load of this very thread raises it, so no other function is interrupted, and the handler may do
 * everything that error_lost does. */
static void on_bus_error(int number, siginfo_t *info, void *context)
{
    (void)context;
    const unsigned char *where = info->si_addr;
    for (const struct file_mapping *m = open_mappings; m != NULL; m = m->next)
        if (where >= m->data && where - m->data < m->bytes)
            error_lost("%s: cannot be read any more: it was truncated while it was open, or its disk failed", m->path);
    sigaction(number, &before, NULL); /* not our mapping: the load is repeated under the previous handler */
}

static void catch_bus_errors(void)
{
    static bool caught;
    struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};
    if (!caught)
        sigaction(SIGBUS, &action, &before);
    caught = true;
}

static int64_t modified(const struct stat *status)
{
    return (int64_t)status->st_mtim.tv_sec * 1000000000 + status->st_mtim.tv_nsec;
}

static int map_descriptor(struct file_mapping *mapping, int descriptor, const char *what)
{
    struct stat status;
    if (fstat(descriptor, &status) != 0 || status.st_size == 0)
        return error_user("%s: is not a valid %s: it is empty", mapping->path, what);
    void *data = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED, descriptor, 0);
    if (data == MAP_FAILED)
        return error_environment("%s: cannot map the %s: %s", mapping->path, what, strerror(errno));
    mapping->data = data;
    mapping->bytes = status.st_size;
    mapping->modified = modified(&status);
    mapping->device = status.st_dev;
    mapping->inode = status.st_ino;
    return ERROR_NONE;
}

int mapping_open(struct file_mapping **out, const char *path, const char *what)
{
    *out = NULL;
    int descriptor = open_file(path);
    if (descriptor < 0)
        return error_user("%s: cannot open the %s: %s", path, what, open_failure());
    struct file_mapping *mapping = memory_allocate(sizeof *mapping);
    mapping->path = memory_string(path);
    int code = map_descriptor(mapping, descriptor, what);
    close(descriptor);
    if (code != ERROR_NONE) {
        mapping_close(mapping);
        return code;
    }
    catch_bus_errors();
    mapping->next = open_mappings;
    open_mappings = mapping;
    *out = mapping;
    return ERROR_NONE;
}

enum mapping_state mapping_state(const struct file_mapping *mapping)
{
    struct stat status;
    if (stat(mapping->path, &status) != 0 || status.st_dev != mapping->device || status.st_ino != mapping->inode)
        return MAPPING_REPLACED;
    return modified(&status) == mapping->modified && status.st_size == mapping->bytes ? MAPPING_SAME : MAPPING_CHANGED;
}

void mapping_close(struct file_mapping *mapping)
{
    if (mapping == NULL)
        return;
    for (struct file_mapping **at = &open_mappings; *at != NULL; at = &(*at)->next)
        if (*at == mapping) {
            *at = mapping->next;
            break;
        }
    if (mapping->data != NULL)
        munmap((void *)mapping->data, (size_t)mapping->bytes);
    free(mapping->path);
    memory_free(mapping);
}
