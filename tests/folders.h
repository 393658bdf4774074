/* Hugging Face folders for tests: makes, changes, saves, imports, exports and compares them. */
#ifndef TESTS_FOLDERS_H
#define TESTS_FOLDERS_H

#include "bridge/export.h"
#include "bridge/import.h"
#include "bridge/json_file.h"
#include "bridge/safetensors_writer.h"
#include "safetensors_files.h"

#include <sys/stat.h>

enum { MOST_TENSORS = 64 };

struct folder {
    json_t *config;
    int64_t count;
    struct safetensors_entry entries[MOST_TENSORS];
    void *data[MOST_TENSORS];
};

static inline struct folder *load_folder(const char *path)
{
    struct folder *f = memory_allocate(sizeof *f);
    struct safetensors *st = open_good(path);
    if (json_file_read(&f->config, in_folder(path, "config.json")) != ERROR_NONE)
        error_fatal("%s", error_message());
    for (f->count = 0; f->count < st->count; f->count++) {
        f->entries[f->count] = st->entries[f->count];
        f->entries[f->count].name = memory_string(st->entries[f->count].name);
        f->data[f->count] = read_whole(st, &st->entries[f->count]);
    }
    safetensors_close(st);
    return f;
}

static inline void forget_folder(struct folder *f)
{
    for (int64_t i = 0; i < f->count; i++) {
        free(f->entries[i].name);
        free(f->data[i]);
    }
    json_decref(f->config);
    memory_free(f);
}

static inline void save_folder(const struct folder *f, const char *path)
{
    struct safetensors_writer *writer;
    mkdir(path, 0777);
    int code = safetensors_writer_create(&writer, path, f->entries, f->count, EXPORT_SHARD_BYTES, 0);
    for (int64_t i = 0; i < f->count && code == ERROR_NONE; i++)
        code = safetensors_writer_write(writer, i, 0, f->entries[i].bytes, f->data[i]);
    if (code == ERROR_NONE)
        code = safetensors_writer_commit(writer);
    safetensors_writer_destroy(writer);
    if (code == ERROR_NONE)
        code = json_file_write(json_incref(f->config), in_folder(path, "config.json"));
    if (code != ERROR_NONE)
        error_fatal("%s", error_message());
}

static inline int64_t find(const struct folder *f, const char *name)
{
    for (int64_t i = 0; i < f->count; i++)
        if (strcmp(f->entries[i].name, name) == 0)
            return i;
    return -1;
}

/* Adds a copy of entry number `from`, with its data, under a new name. */
static inline void duplicate(struct folder *f, int64_t from, const char *name)
{
    f->entries[f->count] = f->entries[from];
    f->entries[f->count].name = memory_string(name);
    f->data[f->count] = memory_grow(NULL, f->entries[from].bytes);
    memcpy(f->data[f->count], f->data[from], (size_t)f->entries[from].bytes);
    f->count++;
}

static inline void drop(struct folder *f, int64_t i)
{
    free(f->entries[i].name);
    free(f->data[i]);
    f->count--;
    f->entries[i] = f->entries[f->count];
    f->data[i] = f->data[f->count];
}

static inline const char *golden(const char *name)
{
    static char paths[2][600];
    static int next;
    char *path = paths[next++ % 2];
    snprintf(path, sizeof paths[0], "%s/tests/golden/%s",
             getenv("abs_top_srcdir") != NULL ? getenv("abs_top_srcdir") : ".", name);
    return path;
}

static inline int import_folder(const char *folder, const char *output, const char *tokenizer)
{
    error_clear();
    return import_run(&(struct import_settings){
        .folder = folder, .output = output, .tokenizer = tokenizer, .version = "test", .replace = true});
}

static inline int export_as(enum checkpoint_dialect dialect, const char *checkpoint, const char *folder, bool bf16,
                            int64_t shard_bytes, bool replace)
{
    error_clear();
    return export_run(&(struct export_settings){.checkpoint = checkpoint,
                                                .folder = folder,
                                                .bf16 = bf16,
                                                .shard_bytes = shard_bytes,
                                                .replace = replace,
                                                .dialect = dialect});
}

static inline int export_file(const char *checkpoint, const char *folder, bool bf16, int64_t shard_bytes, bool replace)
{
    return export_as(DIALECT_HF, checkpoint, folder, bf16, shard_bytes, replace);
}

static inline bool is_there(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0;
}

/* Returns the modern name of parameters called gamma or beta. */
static inline char *todays_name(const char *name)
{
    size_t length = strlen(name);
    if (length > 6 && strcmp(name + length - 6, ".gamma") == 0)
        return memory_format("%.*s.weight", (int)length - 6, name);
    if (length > 5 && strcmp(name + length - 5, ".beta") == 0)
        return memory_format("%.*s.bias", (int)length - 5, name);
    return memory_string(name);
}

/* Checks that `after` has all entries of `before` except `dropped`, bit by bit, and `more` others. */
static inline void check_same(const struct folder *before, const struct folder *after, const char *dropped,
                              int64_t more)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < before->count; i++) {
        const struct safetensors_entry *a = &before->entries[i];
        if (dropped != NULL && strcmp(a->name, dropped) == 0)
            continue;
        char *name = todays_name(a->name);
        int64_t k = find(after, name);
        const struct safetensors_entry *b = &after->entries[k < 0 ? 0 : k];
        kept++;
        if (!CHECK(k >= 0 && a->dtype == b->dtype && a->dims == b->dims && a->bytes == b->bytes &&
                   memcmp(a->shape, b->shape, (size_t)a->dims * sizeof *a->shape) == 0 &&
                   memcmp(before->data[i], after->data[k], (size_t)a->bytes) == 0))
            fprintf(stderr, "    %s\n", name);
        free(name);
    }
    CHECK(after->count == kept + more);
}

#endif
