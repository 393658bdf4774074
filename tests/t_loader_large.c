/* A store of 100 million records opens within 10 seconds and 8 MB of private memory the second time. The test needs 3
 * GB of disk, and is skipped without. */
#include "base/clock.h"
#include "data/token_store.h"
#include "data/windows.h"
#include "loaders.h"

#include <hdf5.h>
#include <sys/statvfs.h>
#include <unistd.h>

static int64_t private_bytes(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    long long kilobytes = 0;
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        sscanf(line, "RssAnon: %lld", &kilobytes);
    if (file != NULL)
        fclose(file);
    return kilobytes * 1024;
}

static void add_attribute(hid_t file, const char *name, hid_t type, const void *value)
{
    hid_t space = H5Screate(H5S_SCALAR), attribute = H5Acreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    H5Awrite(attribute, type, value);
    H5Aclose(attribute);
    H5Sclose(space);
}

/* A store of `records` sequences of `length` tokens whose tokens are a hole in the file. */
static void write_sparse(const char *path, int64_t records, int64_t length)
{
    enum { CHUNK = 1 << 20 };
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), layout = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_alloc_time(layout, H5D_ALLOC_TIME_EARLY);
    H5Pset_fill_time(layout, H5D_FILL_TIME_NEVER);
    static const char *const names[] = {"tokens", "names", "offsets"};
    const hid_t types[] = {H5T_STD_U8LE, H5T_STD_U8LE, H5T_STD_I64LE};
    const hsize_t counts[] = {(hsize_t)(records * length), 0, (hsize_t)(records + 1)};
    for (int i = 0; i < 3; i++) {
        hid_t space = H5Screate_simple(1, &counts[i], NULL);
        hid_t dataset = H5Dcreate2(file, names[i], types[i], space, H5P_DEFAULT, layout, H5P_DEFAULT);
        int64_t *chunk = memory_allocate(CHUNK * 8);
        for (int64_t from = 0; i == 2 && from <= records; from += CHUNK) {
            hsize_t start = (hsize_t)from, count = (hsize_t)(records + 1 - from < CHUNK ? records + 1 - from : CHUNK);
            for (hsize_t k = 0; k < count; k++)
                chunk[k] = (from + (int64_t)k) * length;
            hid_t part = H5Screate_simple(1, &count, NULL);
            H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &count, NULL);
            H5Dwrite(dataset, H5T_NATIVE_INT64, part, space, H5P_DEFAULT, chunk);
            H5Sclose(part);
        }
        memory_free(chunk);
        H5Dclose(dataset);
        H5Sclose(space);
    }
    H5Pclose(layout);
    hid_t string = H5Tcopy(H5T_C_S1);
    H5Tset_size(string, sizeof "nucleotide");
    int64_t version = STORE_VERSION, vocabulary = 256;
    uint64_t checksum = 1;
    add_attribute(file, "cistron_store", H5T_NATIVE_INT64, &version);
    add_attribute(file, "vocabulary", H5T_NATIVE_INT64, &vocabulary);
    add_attribute(file, "checksum", H5T_NATIVE_UINT64, &checksum);
    add_attribute(file, "tokenizer", string, "nucleotide");
    H5Tclose(string);
    H5Fclose(file);
}

/* 100 million records: offsets beyond 2^31, start-up within 10 s once the side file is there, flat private memory. */
static void test_large(void)
{
    const int64_t records = 100000000, length = 45;
    const char *path = stores_path("large.h5");
    write_sparse(path, records, length);
    struct loader_settings settings = small_settings(path);
    double start = clock_seconds();
    struct loader *loader = create(&settings, 0, 1);
    double first = clock_seconds() - start;
    loader_destroy(loader);
    int64_t before = private_bytes();
    start = clock_seconds();
    loader = create(&settings, 0, 1);
    const struct batch *batches = loader_next(loader);
    double second = clock_seconds() - start;
    int64_t growth = private_bytes() - before;
    CHECK(batches[0].real == 2 * 96);
    CHECK(loader_windows(loader) == records && loader_window_tokens(loader) == records * (length + 2));
    loader_destroy(loader);
    printf("100 M records: side file made in %.2f s, start-up with it %.3f s, private memory %.2f MB more\n", first,
           second, (double)growth * 1e-6);
    CHECK(second < 10);
    CHECK(growth < 8000000);

    struct token_store *store;
    struct store_windows *windows;
    CHECK(token_store_open(&store, path) == ERROR_NONE);
    struct windows_layout layout = {settings.window, settings.overlap, WINDOWS_EACH, false, false};
    CHECK(windows_open(&windows, store, &layout, world) == ERROR_NONE);
    struct token_window last;
    windows_locate(windows, &(int64_t){records - 1}, 1, &last);
    CHECK(last.sequence == records - 1 && last.start == (records - 1) * length && last.length == length);
    CHECK(last.start > (int64_t)1 << 32);
    int32_t tokens[45];
    token_store_read(store, last.start, last.length, tokens);
    CHECK(tokens[44] == 0);
    windows_close(windows);
    token_store_close(store);
    unlink(path);
}

static bool disk_is_large(void)
{
    struct statvfs disk;
    return statvfs(stores_folder, &disk) == 0 && (double)disk.f_bavail * (double)disk.f_frsize >= 3e9;
}

int main(void)
{
    stores_begin();
    if (!disk_is_large()) {
        printf("skipped: less than 3 GB free for %s\n", stores_folder);
        stores_end();
        return CHECK_SKIP;
    }
    world = comm_self();
    test_large();
    comm_destroy(world);
    stores_end();
    return check_end();
}
