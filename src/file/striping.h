/* Lustre: over how many of its servers' disks (OSTs) the files of a folder are spread. */
#ifndef FILE_STRIPING_H
#define FILE_STRIPING_H

#include <stdbool.h>
#include <stdint.h>

/* Asks Lustre's program lfs (on PATH) to spread later files of the folder over `stripes` OSTs, -1: over all, from their
 * 64th MiB on, so that small files stay on one. Returns whether lfs did; not if there is no lfs, or the folder is not
 * on Lustre. Local. */
bool striping_request(const char *folder, int64_t stripes);

#endif
