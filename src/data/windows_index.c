#include "data/windows_index.h"
#include "file/disk.h"
#include "file/file.h"
#include "file/temporary.h"
#include "base/error.h"
#include "base/memory.h"
#include "file/open.h"
#include "base/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

enum { BUFFER_ENTRIES = 1 << 16 };

static const char magic[8] = "CISTWIN2";

static struct windows_header header_of(const struct token_store *store, const struct windows_layout *layout)
{
    struct windows_header header = {.checksum = store->checksum,
                                    .window = layout->window,
                                    .overlap = layout->overlap,
                                    .code = windows_code(layout),
                                    .sequences = store->sequences,
                                    .store_bytes = store->map->bytes,
                                    .store_modified = store->map->modified,
                                    .store_inode = store->map->inode};
    memcpy(header.magic, magic, sizeof magic);
    return header;
}

static int stopped(const struct token_store *store)
{
    char *message = memory_format("%s: a signal interrupted the counting of its windows; nothing is lost, start again",
                                  store->path);
    int code = error_restate(ERROR_REQUEUE, message);
    free(message);
    return code;
}

/* Receives `count` entries of first[], in order. */
typedef int (*receiver)(void *self, const uint64_t *entries, int64_t count);

/* Scans the store's offsets, passes all entries of first[] to `receive`, and sets the header's totals. Checks for
 * signals, since billions of sequences take minutes. */
static int scan(const struct token_store *store, const struct windows_layout *layout, struct windows_header *header,
                receiver receive, void *self)
{
    uint64_t *entries = memory_allocate(BUFFER_ENTRIES * (int64_t)sizeof *entries);
    int64_t used = 0, before = 0;
    int code = ERROR_NONE;
    for (int64_t i = 0; i <= store->sequences && code == ERROR_NONE; i++) {
        code = token_store_check_offset(store, i);
        if (code != ERROR_NONE)
            break;
        int64_t offset = token_store_offset(store, i);
        header->windows += windows_count(layout, offset - before);
        header->tokens += windows_tokens(layout, offset - before);
        before = offset;
        entries[used++] = (uint64_t)header->windows;
        if (used == BUFFER_ENTRIES || i == store->sequences) {
            code = receive(self, entries, used);
            if (code == ERROR_NONE && i < store->sequences && signals_stopping())
                code = stopped(store);
            used = 0;
        }
    }
    memory_free(entries);
    return code;
}

static int receive_nothing(void *self, const uint64_t *entries, int64_t count)
{
    (void)self, (void)entries, (void)count;
    return ERROR_NONE;
}

int windows_index_measure(const struct token_store *store, const struct windows_layout *layout,
                          struct windows_header *header)
{
    *header = header_of(store, layout);
    return scan(store, layout, header, receive_nothing, NULL);
}

static int receive_in_memory(void *self, const uint64_t *entries, int64_t count)
{
    uint64_t **next = self;
    memcpy(*next, entries, (size_t)count * sizeof *entries);
    *next += count;
    return ERROR_NONE;
}

int windows_index_tabulate(struct windows_index *index, const struct windows_layout *layout)
{
    index->table = memory_allocate((index->store->sequences + 1) * (int64_t)sizeof *index->table);
    index->first = index->table;
    index->header = header_of(index->store, layout);
    uint64_t *next = index->table;
    return scan(index->store, layout, &index->header, receive_in_memory, &next);
}

void windows_index_close(struct windows_index *index)
{
    mapping_close(index->map);
    memory_free(index->table);
}

/* Returns the side file's path, freed with free(). */
static char *index_path(const struct token_store *store, const struct windows_layout *layout)
{
    static const char *const modes[] = {[WINDOWS_EACH] = "each", [WINDOWS_ENDS] = "ends", [WINDOWS_FIRST] = "first"};
    return memory_format("%s.windows-%lld-%lld-%s%s%s", store->path, (long long)layout->window,
                         (long long)layout->overlap, modes[layout->mode], layout->no_bos ? "-no_bos" : "",
                         layout->no_eos ? "-no_eos" : "");
}

/* -- Reading the side file ------------------------------------------------------------------------------------- */

/* Returns the hash for the header: of the entries, then of the header's members before the hash. */
static uint64_t finish_hash(XXH3_state_t *entries, const struct windows_header *header)
{
    XXH3_64bits_update(entries, header, offsetof(struct windows_header, hash));
    return XXH3_64bits_digest(entries);
}

static XXH3_state_t *start_hash(void)
{
    XXH3_state_t *state = XXH3_createState();
    if (state == NULL)
        error_fatal("out of memory");
    XXH3_64bits_reset(state);
    return state;
}

static bool has_its_hash(const struct windows_header *header, const uint64_t *first)
{
    XXH3_state_t *state = start_hash();
    XXH3_64bits_update(state, first, (size_t)(header->sequences + 1) * sizeof *first);
    const uint64_t hash = finish_hash(state, header);
    XXH3_freeState(state);
    return hash == header->hash;
}

/* Maps the side file. With `file` it must belong to the store file that is open, not only to a store of equal
 * checksum. */
static bool map(struct windows_index *index, const struct windows_layout *layout, bool hash, bool file)
{
    struct windows_header wanted = header_of(index->store, layout), header;
    char *path = index_path(index->store, layout);
    struct file_mapping *mapping;
    int code = mapping_open(&mapping, path, "window index");
    free(path);
    if (code != ERROR_NONE) {
        error_clear();
        return false;
    }
    bool good = mapping->bytes == (int64_t)sizeof header + (wanted.sequences + 1) * (int64_t)sizeof(uint64_t);
    if (good) {
        memcpy(&header, mapping->data, sizeof header);
        if (!file) {
            wanted.store_bytes = header.store_bytes;
            wanted.store_modified = header.store_modified;
            wanted.store_inode = header.store_inode;
        }
        const uint64_t *first = (const uint64_t *)(mapping->data + sizeof header);
        good = memcmp(&header, &wanted, offsetof(struct windows_header, windows)) == 0 &&
               first[header.sequences] == (uint64_t)header.windows && (!hash || has_its_hash(&header, first));
        index->first = first;
    }
    if (!good) {
        index->first = NULL;
        mapping_close(mapping);
        return false;
    }
    index->header = header;
    index->map = mapping;
    return true;
}

bool windows_index_map(struct windows_index *index, const struct windows_layout *layout, bool hash)
{
    return map(index, layout, hash, false);
}

/* -- Writing the side file ------------------------------------------------------------------------------------- */

/* A file being written. Its lock shows that the writing process is alive. */
struct index_file {
    FILE *file;
    XXH3_state_t *hash;
};

static int receive_in_file(void *self, const uint64_t *entries, int64_t count)
{
    struct index_file *index = self;
    XXH3_64bits_update(index->hash, entries, (size_t)count * sizeof *entries);
    return fwrite(entries, sizeof *entries, (size_t)count, index->file) == (size_t)count ? ERROR_NONE
                                                                                         : ERROR_ENVIRONMENT;
}

/* Returns whether the path still names the open file; the lock's previous owner may have renamed or removed it. */
static bool still_named(int descriptor, const char *path)
{
    struct stat mine, there;
    return fstat(descriptor, &mine) == 0 && lstat(path, &there) == 0 && mine.st_ino == there.st_ino &&
           mine.st_dev == there.st_dev;
}

enum index_lock { LOCK_MINE, LOCK_BUSY, LOCK_NONE /* the file system has no locks */ };

static enum index_lock take_lock(int descriptor)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(descriptor, F_OFD_SETLK, &whole) == 0)
        return LOCK_MINE;
    return errno == EAGAIN || errno == EACCES ? LOCK_BUSY : LOCK_NONE;
}

/* Opens the file for writing; with `create` creates it if missing. Returns -1 if it cannot be opened. *busy: a living
 * process is writing it. */
static int open_temporary(const char *path, bool create, bool *busy)
{
    *busy = false;
    int descriptor = open_own(path, O_RDWR | (create ? O_CREAT : 0));
    if (descriptor < 0)
        return -1;
    enum index_lock lock = take_lock(descriptor);
    *busy = lock == LOCK_BUSY || (lock == LOCK_MINE && !still_named(descriptor, path));
    if (!*busy && (create || lock == LOCK_MINE) && ftruncate(descriptor, 0) == 0)
        return descriptor;
    close(descriptor);
    return -1;
}

static int write_index(const struct token_store *store, const struct windows_layout *layout, struct index_file *index)
{
    struct windows_header header = header_of(store, layout);
    int code = fwrite(&header, sizeof header, 1, index->file) == 1 ? ERROR_NONE : ERROR_ENVIRONMENT;
    if (code == ERROR_NONE)
        code = scan(store, layout, &header, receive_in_file, index);
    if (code == ERROR_NONE && store->has_checksum)
        code = token_store_verify(store);
    header.hash = finish_hash(index->hash, &header);
    bool written = code == ERROR_NONE && fseeko(index->file, 0, SEEK_SET) == 0 &&
                   fwrite(&header, sizeof header, 1, index->file) == 1 && fflush(index->file) == 0 &&
                   fsync(fileno(index->file)) == 0;
    return code != ERROR_NONE ? code : written ? ERROR_NONE : ERROR_ENVIRONMENT;
}

/* Writes the file under a temporary name and renames it. A failure to write is not an error. */
static int make(const struct token_store *store, const struct windows_layout *layout, const char *path,
                const char *temporary, int descriptor)
{
    struct index_file made = {fdopen(descriptor, "wb"), start_hash()};
    int code = ERROR_ENVIRONMENT;
    if (made.file == NULL)
        close(descriptor);
    else
        code = write_index(store, layout, &made);
    if (code == ERROR_NONE)
        code = file_rename(temporary, path); /* while the lock is still held */
    if (code != ERROR_NONE)
        unlink(temporary);
    if (made.file != NULL)
        fclose(made.file);
    XXH3_freeState(made.hash);
    return code == ERROR_ENVIRONMENT ? ERROR_NONE : code;
}

static void remove_leftover(const char *temporary)
{
    bool busy;
    int descriptor = open_temporary(temporary, false, &busy);
    if (descriptor < 0)
        return;
    unlink(temporary);
    close(descriptor);
}

int windows_index_obtain(struct windows_index *index, const struct windows_layout *layout)
{
    char *path = index_path(index->store, layout), *temporary = temporary_shared(path);
    int code = ERROR_NONE, descriptor = -1;
    bool busy = true, mapped = false;
    while (code == ERROR_NONE && busy && !mapped) {
        mapped = map(index, layout, true, true);
        if (mapped)
            break;
        descriptor = open_temporary(temporary, true, &busy);
        if (busy && signals_stopping())
            code = stopped(index->store);
        if (busy)
            nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
    if (mapped)
        remove_leftover(temporary);
    if (descriptor >= 0) {
        char *earlier = memory_format("%s-", temporary); /* name of temporary files of earlier versions */
        disk_remove_leftovers(earlier, false);
        free(earlier);
        code = make(index->store, layout, path, temporary, descriptor);
        if (code == ERROR_NONE)
            map(index, layout, true, true);
    }
    free(temporary);
    free(path);
    return code;
}
