/* Import and export of Hugging Face folders need memory far below the largest tensor's size. */
#include "folders.h"
#include "stores.h"

#include <sys/resource.h>
#include <sys/wait.h>

static const char *work; /* the scratch folder */

/* A Llama whose embedding is far larger than what a process may take. */
enum { LARGE_ROWS = 1 << 20, LARGE_COLS = 32, LARGE_BYTES = LARGE_ROWS * LARGE_COLS * 4, MOST_RESIDENT = 64 << 20 };

static void write_large(const char *path)
{
    struct folder *f = load_folder(golden("llama_tiny"));
    drop(f, find(f, "lm_head.weight"));
    int64_t i = find(f, "model.embed_tokens.weight");
    f->entries[i].shape[0] = LARGE_ROWS;
    f->entries[i].dtype = SAFETENSORS_F32;
    f->entries[i].bytes = LARGE_BYTES;
    f->data[i] = memory_grow(f->data[i], LARGE_BYTES);
    for (int64_t k = 0; k < LARGE_BYTES / 4; k++)
        ((float *)f->data[i])[k] = (float)k;
    json_object_set_new(f->config, "vocab_size", json_integer(LARGE_ROWS));
    json_object_set_new(f->config, "tie_word_embeddings", json_true());
    save_folder(f, path);
    forget_folder(f);
}

/* In a process of its own: its peak resident memory in bytes. */
static int64_t peak_of(int (*body)(void), int *code)
{
    int status;
    struct rusage usage;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(body());
    wait4(child, &status, 0, &usage);
    *code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return (int64_t)usage.ru_maxrss << 10;
}

static int import_large(void)
{
    return import_folder(in_folder(work, "large"), in_folder(work, "large.h5"), NULL);
}

static int export_large(void)
{
    return export_file(in_folder(work, "large.h5"), in_folder(work, "large.out"), false, EXPORT_SHARD_BYTES, false);
}

static int export_large_rounded(void)
{
    return export_file(in_folder(work, "large.h5"), in_folder(work, "large.bf16"), true, EXPORT_SHARD_BYTES, false);
}

static int make_large(void)
{
    char *path = memory_format("%s/large", work);
    write_large(path);
    free(path);
    return ERROR_NONE;
}

/* The embedding is 0, 1, 2, ... wherever a piece may begin or end. */
static void check_large(const char *folder, enum safetensors_dtype dtype)
{
    enum { SEEN = 1 << 10, STRIDE = 1 << 19 };
    struct safetensors *st = open_good(in_folder(work, folder));
    const struct safetensors_entry *entry = safetensors_find(st, "model.embed_tokens.weight");
    const int64_t width = safetensors_dtype_size(dtype);
    float rounded[SEEN];
    uint8_t raw[SEEN * sizeof(float)], wanted[SEEN * sizeof(float)];
    CHECK(entry->dtype == dtype);
    for (int64_t first = 0; first < LARGE_BYTES / 4; first += STRIDE) {
        CHECK(safetensors_read(st, entry, first * width, SEEN * width, raw) == ERROR_NONE);
        for (int i = 0; i < SEEN; i++)
            rounded[i] = (float)(first + i);
        safetensors_from_float(dtype, rounded, SEEN, wanted);
        CHECK(memcmp(raw, wanted, (size_t)(SEEN * width)) == 0);
    }
    safetensors_close(st);
}

static void test_memory(void)
{
    int code;
    CHECK(peak_of(make_large, &code) > LARGE_BYTES && code == ERROR_NONE); /* the measure measures */
    int64_t import = peak_of(import_large, &code);
    CHECK(code == ERROR_NONE);
    int64_t export = peak_of(export_large, &code);
    CHECK(code == ERROR_NONE);
    printf("largest tensor %d MiB: import took %lld MiB, export %lld MiB\n", LARGE_BYTES >> 20,
           (long long)(import >> 20), (long long)(export >> 20));
    CHECK(import < MOST_RESIDENT && export < MOST_RESIDENT);
    check_large("large.out", SAFETENSORS_F32);
    CHECK(peak_of(export_large_rounded, &code) < MOST_RESIDENT && code == ERROR_NONE);
    check_large("large.bf16", SAFETENSORS_BF16);
}

int main(void)
{
    stores_begin();
    work = stores_folder;
    test_memory();
    stores_end();
    return check_end();
}
