#include "file/hdf5_open.h"
#include "base/error.h"
#include "file/open.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void hdf5_silence_begin(struct hdf5_silence *silence)
{
    H5Eget_auto2(H5E_DEFAULT, &silence->print, &silence->data);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
}

void hdf5_silence_end(const struct hdf5_silence *silence)
{
    H5Eset_auto2(H5E_DEFAULT, silence->print, silence->data);
}

/* HDF5 has a property for locks since 1.10.7 and 1.12.1; before, only the environment variable. If the user has set the
 * variable, it overrides both. */
#if H5_VERSION_GE(1, 12, 1) || (H5_VERS_MINOR == 10 && H5_VERS_RELEASE >= 7)
#define HAS_LOCK_PROPERTY 1
#else
#define HAS_LOCK_PROPERTY 0
#endif

void hdf5_prepare(void)
{
#if !HAS_LOCK_PROPERTY
    setenv("HDF5_USE_FILE_LOCKING", "FALSE", 0); /* some versions read it once, when HDF5 starts */
#endif
    H5dont_atexit(); /* at exit HDF5 1.10 would retry a failed write, and crash */
}

hid_t hdf5_access(void)
{
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
#if HAS_LOCK_PROPERTY
    H5Pset_file_locking(access, false, true);
#endif
    return access;
}

/* HDF5's messages about intact files that it does not open, and our explanations. */
static const struct {
    const char *said, *reason;
} known[] = {{"unable to lock", "it cannot be locked: the file system has no locks, or another process has locked it; "
                                "the environment variable HDF5_USE_FILE_LOCKING requests the lock; set it to FALSE"},
             {"file is already open for", "it is marked as open: another process writes to it, or was killed while it "
                                          "did; then \"h5clear -s\" clears the mark"}};

static herr_t find_reason(unsigned number, const H5E_error2_t *error, void *found)
{
    (void)number;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (error->desc != NULL && strncmp(error->desc, known[i].said, strlen(known[i].said)) == 0)
            *(const char **)found = known[i].reason;
    return 0;
}

const char *hdf5_open_failure(const char *otherwise)
{
    const char *found = otherwise;
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, find_reason, &found);
    return found;
}

int hdf5_open(hid_t *file, const char *path)
{
    static const char damage[] = "the file is truncated or damaged";
    *file = -1;
    int descriptor = open_file(path); /* HDF5 would wait for the writer of a pipe */
    if (descriptor < 0)
        return error_user("%s: cannot open it: %s", path, open_failure());
    close(descriptor);
    if (H5Fis_hdf5(path) <= 0)
        return error_user("%s: is not an HDF5 file", path);
    hid_t access = hdf5_access();
    *file = H5Fopen(path, H5F_ACC_RDONLY, access);
    const char *why = *file < 0 ? hdf5_open_failure(damage) : NULL; /* must precede any other call of HDF5 */
    H5Pclose(access);
    if (why == NULL)
        return ERROR_NONE;
    return why == damage ? error_user("%s: HDF5 cannot open it: %s", path, why)
                         : error_environment("%s: HDF5 cannot open it: %s", path, why);
}
