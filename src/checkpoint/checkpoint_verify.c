/* Compares a checkpoint with its hashes. */
#include "base/error.h"
#include "base/log.h"
#include "base/progress.h"
#include "file/open.h"
#include "file/path.h"
#include "base/thread.h"
#include "file/block.h"
#include "checkpoint/checkpoint_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { VERIFY_THREADS = 4 /* enough for any storage; the ranks of a node also divide the work */ };

/* Reads the side file's list on rank 0, and checks the file's size. If there is no side file, *present is false, and
 * the file must open as a checkpoint. */
static int read_list(const char *path, struct block_list *list, bool *present)
{
    struct stat status;
    int64_t bytes = 0;
    *present = false;
    if (stat(path, &status) != 0)
        return error_user("%s: cannot open it: %s", path, path_failure(path, errno));
    char *side = block_side_path(path);
    int code;
    if (access(side, F_OK) != 0) {
        struct hdf5_silence silence;
        hid_t file;
        hdf5_silence_begin(&silence);
        code = checkpoint_open(&file, path);
        if (code == ERROR_NONE)
            H5Fclose(file);
        hdf5_silence_end(&silence);
        if (code == ERROR_NONE)
            log_warn("%s: its side file %s (hashes) is missing, so damage cannot be detected", path, side);
    } else {
        *present = true;
        code = block_list_read(list, side, &bytes);
        if (code == ERROR_NONE && status.st_size != bytes)
            code = error_user("%s: is damaged: it has %lld bytes, of %lld that were written", path,
                              (long long)status.st_size, (long long)bytes);
    }
    free(side);
    return code;
}

int checkpoint_compare_block(const struct hash_block *block, uint64_t hash, const char *path)
{
    if (hash == block->hash)
        return ERROR_NONE;
    return error_user(
        "%s: is damaged: bytes %lld to %lld differ from those written (if you rewrote it on purpose, remove %s.xxh3)",
        path, (long long)block->offset, (long long)(block->offset + block->length - 1), path);
}

int checkpoint_check_block(int descriptor, const char *path, const struct hash_block *block)
{
    uint64_t hash;
    int code = block_hash_range(descriptor, path, block->offset, block->length, &hash);
    return code == ERROR_NONE ? checkpoint_compare_block(block, hash, path) : code;
}

/* The blocks that start in a range of bytes; with tensors: also those of tensors. */
struct checking {
    const struct block_list *list;
    const char *path;
    int descriptor;
    int64_t begin, end;
    bool tensors;
    struct progress_line progress;
};

static bool is_checked(const struct checking *c, const struct hash_block *block)
{
    return block->offset >= c->begin && block->offset < c->end && (c->tensors || !block->tensor);
}

static int check_block(void *self, int64_t i)
{
    struct checking *c = self;
    const struct hash_block *block = &c->list->blocks[i];
    if (!is_checked(c, block))
        return ERROR_NONE;
    const int code = checkpoint_check_block(c->descriptor, c->path, block);
    progress_add(&c->progress, (double)block->length * 1e-6);
    return code;
}

/* Checks this rank's part of the file. */
static int check_blocks(const struct block_list *list, bool tensors, const char *path, int rank, int ranks)
{
    const struct hash_block *last = &list->blocks[list->count - 1];
    const int64_t bytes = last->offset + last->length;
    struct checking checking = {list,    path, open_file(path), bytes * rank / ranks, bytes * (rank + 1) / ranks,
                                tensors, {0}};
    double megabytes = 0;
    if (checking.descriptor < 0)
        return error_environment("%s: cannot open it: %s", path, open_failure());
    for (int64_t i = 0; i < list->count; i++)
        megabytes += is_checked(&checking, &list->blocks[i]) ? (double)list->blocks[i].length * 1e-6 : 0;
    progress_start(&checking.progress, "verifying", "MB", megabytes);
    /* a single thread would alternately wait for the disk and for the hash */
    const int code = thread_each(list->count, VERIFY_THREADS, check_block, &checking);
    progress_end(&checking.progress);
    close(checking.descriptor);
    return code;
}

void checkpoint_send_blocks(struct comm *world, struct block_list *list)
{
    int64_t count = list->count;
    comm_broadcast(world, &count, sizeof count, 0);
    if (world->rank != 0)
        for (int64_t i = 0; i < count; i++)
            block_list_add(list, (struct hash_block){0});
    comm_broadcast(world, list->blocks, count * (int64_t)sizeof *list->blocks, 0);
}

int checkpoint_share_blocks(struct comm *world, const char *path, struct block_list *list)
{
    bool present = false;
    *list = (struct block_list){NULL, 0, 0};
    int code = comm_share(world, world->rank == 0 ? read_list(path, list, &present) : ERROR_NONE);
    if (code != ERROR_NONE)
        return code;
    if (!present)
        list->count = 0;
    checkpoint_send_blocks(world, list);
    return ERROR_NONE;
}

int checkpoint_examine(struct comm *world, const char *path, bool tensors)
{
    struct block_list list;
    int code = checkpoint_share_blocks(world, path, &list);
    if (code == ERROR_NONE && list.count > 0)
        code = comm_share(world, check_blocks(&list, tensors, path, world->rank, world->size));
    block_list_destroy(&list);
    return code;
}

int checkpoint_verify(struct comm *world, const char *path)
{
    return comm_agree(world, checkpoint_examine(world, path, true));
}
