#include "file/file.h"
#include "file/disk.h"
#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int file_write(int descriptor, const char *path, const void *data, int64_t bytes, int64_t offset)
{
    for (int64_t done = 0; done < bytes;) {
        ssize_t n = pwrite(descriptor, (const char *)data + done, (size_t)(bytes - done), (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return error_environment("%s: cannot write %lld bytes at %lld: %s", path, (long long)(bytes - done),
                                     (long long)(offset + done), n == 0 ? "nothing was written" : strerror(errno));
        done += n;
    }
    return ERROR_NONE;
}

void file_start_flush(int descriptor, int64_t offset, int64_t bytes)
{
    sync_file_range(descriptor, (off_t)offset, (off_t)bytes, SYNC_FILE_RANGE_WRITE);
}

int file_read(int descriptor, const char *path, void *data, int64_t bytes, int64_t offset)
{
    for (int64_t done = 0; done < bytes;) {
        ssize_t n = pread(descriptor, (char *)data + done, (size_t)(bytes - done), (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_environment("%s: cannot read %lld bytes at %lld: %s", path, (long long)(bytes - done),
                                     (long long)(offset + done), strerror(errno));
        if (n == 0)
            return error_user("%s: is truncated: it ends at byte %lld", path, (long long)(offset + done));
        done += n;
    }
    return ERROR_NONE;
}

int file_close(int descriptor, const char *path, int code)
{
    /* some network file systems report a failed write only here */
    if (close(descriptor) != 0 && code == ERROR_NONE)
        code = error_environment("%s: cannot close it: %s", path, strerror(errno));
    return code;
}

int file_finish(int descriptor, const char *path, int code)
{
    if (code == ERROR_NONE && fsync(descriptor) != 0)
        code = error_environment("%s: cannot flush it to the disk: %s", path, strerror(errno));
    return file_close(descriptor, path, code);
}

int file_check_place(const char *path)
{
    struct stat status;
    char *folder = disk_folder(path);
    int code = ERROR_NONE;
    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode))
        code = error_user("%s: cannot be written: %s", path, strerror(EISDIR));
    else if (stat(folder, &status) == 0 && !S_ISDIR(status.st_mode))
        code = error_user("%s: cannot be written: %s (%s)", path, strerror(ENOTDIR), folder);
    else if (access(folder, W_OK | X_OK) != 0)
        code = error_user("%s: cannot be written: %s (folder %s)", path, strerror(errno), folder);
    free(folder);
    return code;
}

int file_rename(const char *from, const char *to)
{
    return rename(from, to) == 0 ? ERROR_NONE
                                 : error_environment("%s: cannot rename it to %s: %s", from, to, strerror(errno));
}

int file_move(const char *from, const char *to)
{
    const int code = file_rename(from, to);
    return code == ERROR_NONE ? disk_sync_folder(to) : code;
}

int file_remove(const char *path)
{
    if (unlink(path) != 0 && errno != ENOENT)
        return error_environment("%s: cannot remove it: %s", path, strerror(errno));
    return ERROR_NONE;
}
