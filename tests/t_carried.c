/* Carried tensors and end tokens pass through a checkpoint bit for bit, whatever their type and shape. Every false
 * statement of a file about them is found. */
#include "check.h"
#include "tiny_training.h"

#include "base/error.h"
#include "base/memory.h"
#include "checkpoint/carried.h"
#include "checkpoint/checkpoint.h"
#include "file/hdf5_file.h"
#include "state/initialise.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

static struct comm *self;
static char folder[512], path[600];

static void add(struct carried_files *carried, const char *name, const char *dtype, int dims, int64_t a, int64_t b,
                int64_t c, int64_t bytes)
{
    struct carried_tensor like = {.name = (char *)name, .dims = dims, .shape = {a, b, c}, .bytes = bytes};
    snprintf(like.dtype, sizeof like.dtype, "%s", dtype);
    CHECK(carried_add(carried, "here", &like) == ERROR_NONE);
    struct carried_tensor *t = &carried->tensors[carried->count - 1];
    for (int64_t i = 0; i < bytes; i++)
        ((unsigned char *)t->data)[i] = (unsigned char)(31 * i + carried->count);
}

static bool same(const struct carried_tensor *a, const struct carried_tensor *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->dtype, b->dtype) == 0 && a->dims == b->dims &&
           memcmp(a->shape, b->shape, (size_t)a->dims * sizeof *a->shape) == 0 && a->bytes == b->bytes &&
           (a->bytes == 0 || memcmp(a->data, b->data, (size_t)a->bytes) == 0);
}

static int save(struct training *t, const struct carried_files *carried, bool with_optimizer)
{
    const struct checkpoint_meta meta = {
        .deck_text = "", .version = "0", .tokenizer = "nucleotide", .carried = carried};
    return checkpoint_write(self, &t->toy.engine, &meta, path, with_optimizer);
}

/* In alphabetical order, as they are read. */
static void make_some(struct carried_files *carried)
{
    add(carried, "empty", "F16", 2, 0, 5, 0, 0);
    add(carried, "esm.contact_head.regression.bias", "F32", 1, 1, 0, 0, 4);
    add(carried, "esm.contact_head.regression.weight", "BF16", 2, 1, 120, 0, 240);
    add(carried, "one", "I64", 0, 0, 0, 0, 8);
    add(carried, "three", "F8_E4M3", 3, 2, 3, 4, 24);
}

static void test_round(struct training *t, bool with_optimizer)
{
    struct carried_files written = {0}, read;
    struct checkpoint_meta meta;
    make_some(&written);
    written.ends = (struct model_ends){.config = {2, {3, 300}}, .generation = {1, {7}}};
    CHECK(save(t, &written, with_optimizer) == ERROR_NONE);
    CHECK(checkpoint_verify(self, path) == ERROR_NONE);
    CHECK(checkpoint_read_meta(self, path, &meta) == ERROR_NONE && meta.carried == NULL);
    checkpoint_meta_destroy(&meta);
    CHECK(checkpoint_read(self, &t->toy.engine, path, with_optimizer) == ERROR_NONE);
    CHECK(carried_read(path, &read) == ERROR_NONE);
    CHECK(read.count == 5 && carried_bytes(&read) == 276);
    for (int i = 0; i < read.count; i++)
        CHECK(same(&read.tensors[i], &written.tensors[i]));
    CHECK(memcmp(&read.ends, &written.ends, sizeof read.ends) == 0);
    carried_destroy(&read);
    carried_destroy(&written);
    written.ends = (struct model_ends){.generation = {1, {7}}}; /* nothing else is carried */
    CHECK(save(t, &written, with_optimizer) == ERROR_NONE && carried_read(path, &read) == ERROR_NONE);
    CHECK(read.count == 0 && memcmp(&read.ends, &written.ends, sizeof read.ends) == 0);
    carried_destroy(&read);
}

/* Nothing to carry is no group, and reads as nothing. */
static void test_none(struct training *t)
{
    const struct carried_files none = {0};
    struct carried_files read;
    hid_t file = H5I_INVALID_HID;
    CHECK(save(t, &none, true) == ERROR_NONE && hdf5_open(&file, path) == ERROR_NONE);
    CHECK(H5Lexists(file, "carried", H5P_DEFAULT) == 0);
    H5Fclose(file);
    CHECK(carried_read(path, &read) == ERROR_NONE && read.count == 0);
}

/* Where files may have so many bytes as the tensors need, but not the carried ones too, this shows before HDF5 is met
 * by it: an error, not a signal or a crash, and the file before stands. */
static void test_disk_full(struct training *t)
{
    struct carried_files large = {0}, read;
    struct rlimit old, small = {8 << 20, 0};
    add(&large, "large", "U8", 1, 16 << 20, 0, 0, 16 << 20);
    getrlimit(RLIMIT_FSIZE, &old);
    small.rlim_max = old.rlim_max;
    setrlimit(RLIMIT_FSIZE, &small);
    CHECK(save(t, &large, false) == ERROR_ENVIRONMENT);
    setrlimit(RLIMIT_FSIZE, &old);
    CHECK(carried_read(path, &read) == ERROR_NONE && read.count == 0);
    CHECK(save(t, &large, false) == ERROR_NONE);
    CHECK(carried_read(path, &read) == ERROR_NONE && read.count == 1 && same(&read.tensors[0], &large.tensors[0]));
    carried_destroy(&read);
    carried_destroy(&large);
}

static void refuse_adding(const char *name, const char *dtype, int dims, int64_t a, int64_t b, int64_t bytes,
                          const char *why)
{
    struct carried_files carried = {0};
    add(&carried, "taken", "U8", 1, 1, 0, 0, 1);
    struct carried_tensor like = {.name = (char *)name, .dims = dims, .shape = {a, b}, .bytes = bytes};
    snprintf(like.dtype, sizeof like.dtype, "%s", dtype);
    CHECK(carried_add(&carried, "here", &like) == ERROR_USER);
    if (!CHECK(strstr(error_message(), why) != NULL))
        fprintf(stderr, "    %s\n", error_message());
    error_clear();
    CHECK(carried.count == 1);
    carried_destroy(&carried);
}

static void test_adding(void)
{
    char longer[CARRIED_NAME_BYTES + 1];
    memset(longer, 'n', sizeof longer - 1);
    longer[CARRIED_NAME_BYTES] = '\0';
    refuse_adding("", "U8", 1, 1, 0, 1, "name");
    refuse_adding("a/b", "U8", 1, 1, 0, 1, "name");
    refuse_adding(".", "U8", 1, 1, 0, 1, "name");
    refuse_adding(longer, "U8", 1, 1, 0, 1, "name");
    refuse_adding("taken", "U8", 1, 1, 0, 1, "twice");
    refuse_adding("x", "F4", 1, 1, 0, 1, "element type F4");
    refuse_adding("x", "", 1, 1, 0, 1, "element type");
    refuse_adding("x", "F32", 1, 2, 0, 4, "do not match its shape");
    refuse_adding("x", "F32", 0, 0, 0, 8, "do not match its shape");
    refuse_adding("x", "F32", 9, 1, 1, 4, "do not match its shape");
    refuse_adding("x", "U8", 2, -1, -1, 1, "do not match its shape");
    refuse_adding("x", "U8", 2, (int64_t)1 << 32, (int64_t)1 << 32, 0, "do not match its shape"); /* 2^64 wraps to 0 */
    refuse_adding("x", "U8", 1, 64 << 20, 0, 64 << 20, "64 MiB");
}

/* A file whose group /carried holds what `make` puts there. */
static void refuse_file(void (*make)(hid_t group), const char *why)
{
    struct carried_files read;
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t group = H5Gcreate2(file, "carried", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    make(group);
    H5Gclose(group);
    H5Fclose(file);
    CHECK(carried_read(path, &read) == ERROR_USER && read.count == 0);
    if (!CHECK(strstr(error_message(), why) != NULL))
        fprintf(stderr, "    %s\n", error_message());
    error_clear();
}

static void dataset(hid_t group, hid_t type, int dims, hsize_t elements, const char *dtype, const int64_t *shape,
                    int64_t shape_count)
{
    const hsize_t sizes[2] = {elements, 1};
    hid_t space = H5Screate_simple(dims, sizes, NULL);
    hid_t set = H5Dcreate2(group, "x", type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    if (dtype != NULL)
        CHECK(hdf5_write_text(set, "dtype", dtype));
    if (shape_count > 0)
        CHECK(hdf5_write_integers(set, "shape", shape, shape_count));
    H5Dclose(set);
    H5Sclose(space);
}

static const int64_t four[] = {4, 1, 1, 1, 1, 1, 1, 1, 1};

static void a_group(hid_t group)
{
    H5Gclose(H5Gcreate2(group, "x", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
}

static void without_dtype(hid_t group)
{
    dataset(group, H5T_STD_U8LE, 1, 4, NULL, four, 1);
}

static void long_dtype(hid_t group)
{
    dataset(group, H5T_STD_U8LE, 1, 4, "F8_E4M3FN", four, 1);
}

static void floats(hid_t group)
{
    dataset(group, H5T_IEEE_F32LE, 1, 4, "U8", four, 1);
}

static void wide(hid_t group)
{
    dataset(group, H5T_STD_I32LE, 1, 4, "U8", four, 1);
}

static void matrix(hid_t group)
{
    dataset(group, H5T_STD_U8LE, 2, 4, "U8", four, 1);
}

static void short_shape(hid_t group)
{
    dataset(group, H5T_STD_U8LE, 1, 8, "U8", four, 1);
}

static void nine_dimensions(hid_t group)
{
    dataset(group, H5T_STD_U8LE, 1, 4, "U8", four, 9);
}

static void unknown_dtype(hid_t group)
{
    dataset(group, H5T_STD_U8LE, 1, 4, "Q8", four, 1);
}

/* A terabyte of which nothing was ever written: the claim costs the file nothing. */
static void enormous(hid_t group)
{
    const int64_t shape = (int64_t)1 << 40;
    dataset(group, H5T_STD_U8LE, 1, (hsize_t)1 << 40, "U8", &shape, 1);
}

static void negative_end(hid_t group)
{
    CHECK(hdf5_write_integers(group, "end_tokens", (const int64_t[]){4, -1}, 2));
}

static void wide_end(hid_t group)
{
    CHECK(hdf5_write_integers(group, "generation_end_tokens", (const int64_t[]){(int64_t)1 << 31}, 1));
}

static void many_ends(hid_t group)
{
    static const int64_t ids[END_TOKENS_MOST + 1];
    CHECK(hdf5_write_integers(group, "end_tokens", ids, END_TOKENS_MOST + 1));
}

static void end_in_words(hid_t group)
{
    CHECK(hdf5_write_text(group, "end_tokens", "</s>"));
}

static void test_files(void)
{
    refuse_file(negative_end, "/carried: attribute end_tokens is not a list of token ids");
    refuse_file(wide_end, "/carried: attribute generation_end_tokens is not a list of token ids");
    refuse_file(many_ends, "/carried: attribute end_tokens is not a list");
    refuse_file(end_in_words, "/carried: attribute end_tokens is not a list");
    refuse_file(a_group, "/carried/x");
    refuse_file(without_dtype, "is not a carried tensor");
    refuse_file(long_dtype, "is not a carried tensor");
    refuse_file(floats, "is not a carried tensor");
    refuse_file(wide, "is not a carried tensor");
    refuse_file(matrix, "is not a carried tensor");
    refuse_file(short_shape, "do not match its shape");
    refuse_file(nine_dimensions, "is not a carried tensor");
    refuse_file(unknown_dtype, "Q8");
    refuse_file(enormous, "64 MiB");
}

int main(void)
{
    const char *below = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/carried.XXXXXX", below != NULL ? below : ".");
    if (mkdtemp(folder) == NULL)
        return 1;
    snprintf(path, sizeof path, "%s/step_00000001.h5", folder);
    signal(SIGXFSZ, SIG_IGN);
    self = comm_self();
    struct model_settings settings = toy_settings(false);
    struct training t;
    training_create(&t, self, &settings, DTYPE_F32);
    engine_initialise(&t.toy.engine, 5);
    test_round(&t, false);
    test_round(&t, true);
    test_none(&t);
    test_disk_full(&t);
    test_adding();
    test_files();
    training_destroy(&t);
    comm_destroy(self);
    char *command = memory_format("rm -r '%s'", folder);
    CHECK(system(command) == 0);
    free(command);
    return check_end();
}
