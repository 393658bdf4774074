/* Vectors of protein records match transformers to 1e-5 (tests/golden/make_embed.py), for each way of pooling and all
 * layers, on the CPU executor and the oracle. A record's vectors have the same bits whatever other records the file
 * has. L2 norms, f16, NumPy's format and contacts are checked. Injected faults in launches, pooling and layers are
 * noticed. */
#include "check.h"
#include "inference_faults.h"

#include "base/error.h"
#include "base/memory.h"
#include "bridge/import.h"
#include "cpu/cpu.h"
#include "infer/embed.h"
#include "ref/golden.h"

#include <hdf5.h>
#include <stdlib.h>
#include <unistd.h>

enum { HIDDEN = 32, LAYERS = 2, RECORDS = 4, LONGEST = 256 };

static const double bound = 1e-5;
static const char *const names[RECORDS] = {"P42212", "insulin_B", "rare", "one"};
static const int64_t residues[RECORDS] = {238, 30, 6, 1};
static char *golden_path(const char *name)
{
    const char *top = getenv("abs_top_srcdir");
    return memory_format("%s/tests/golden/%s", top != NULL ? top : ".", name);
}

/* -- Comparing ---------------------------------------------------------------------------------------------------- */

struct generate_result {
    int64_t lengths[RECORDS];
    float vectors[RECORDS * LONGEST * HIDDEN];
};

static void read_all(hid_t file, const char *name, hid_t type, int64_t capacity, void *out)
{
    hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT), space = H5Dget_space(dataset);
    CHECK((int64_t)H5Sget_simple_extent_npoints(space) <= capacity);
    CHECK(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, out) >= 0);
    H5Sclose(space);
    H5Dclose(dataset);
}

static void run(struct comm *self, struct embed_settings settings, device_make *make_executor,
                struct generate_result *result)
{
    CHECK(embed_run(self, &settings, make_executor) == ERROR_NONE);
    hid_t file = H5Fopen(settings.output, H5F_ACC_RDONLY, H5P_DEFAULT);
    CHECK(file >= 0);
    memset(result, 0, sizeof *result);
    read_all(file, "lengths", H5T_NATIVE_INT64, RECORDS, result->lengths);
    read_all(file, "vectors", H5T_NATIVE_FLOAT, RECORDS * LONGEST * HIDDEN, result->vectors);
    H5Fclose(file);
}

static double distance(const float *own, const double *expected, int64_t count)
{
    double *values = memory_allocate((int64_t)sizeof *values * count);
    for (int64_t i = 0; i < count; i++)
        values[i] = own[i];
    double worst = golden_distance(values, expected, count);
    memory_free(values);
    return worst;
}

/* /name/what of the golden file, [count]. */
static double *expected_of(hid_t golden, const char *name, const char *what, int64_t count)
{
    char *path = memory_format("/%s/%s", name, what);
    double *values = memory_allocate((int64_t)sizeof *values * count);
    read_all(golden, path, H5T_NATIVE_DOUBLE, count, values);
    free(path);
    return values;
}

/* The worst record's relative L2 distance. */
static double compare(hid_t golden, const struct generate_result *result, const char *pool)
{
    const float *own = result->vectors;
    double worst = 0;
    for (int r = 0; r < RECORDS; r++) {
        const int64_t tokens = residues[r] + 2;
        const bool all = strcmp(pool, "none") == 0, mean = strcmp(pool, "mean") == 0;
        const int64_t skipped = strcmp(pool, "last") == 0 ? tokens - 1 : 0, rows = all ? tokens : 1;
        double *expected = expected_of(golden, names[r], mean ? "mean" : "states", (mean ? 1 : tokens) * HIDDEN);
        double d = distance(own, expected + skipped * HIDDEN, rows * HIDDEN);
        worst = d <= worst ? worst : d;
        CHECK(result->lengths[r] == residues[r]);
        own += rows * HIDDEN;
        memory_free(expected);
    }
    return worst;
}

/* A mean that takes special tokens in, made of all tokens' vectors. */
static double mean_of_all(hid_t golden, const struct generate_result *every)
{
    const float *own = every->vectors;
    double worst = 0;
    for (int r = 0; r < RECORDS; r++) {
        const int64_t tokens = residues[r] + 2;
        float mean[HIDDEN] = {0};
        for (int64_t i = 0; i < tokens * HIDDEN; i++)
            mean[i % HIDDEN] += own[i] / (float)tokens;
        double *expected = expected_of(golden, names[r], "mean", HIDDEN), d = distance(mean, expected, HIDDEN);
        worst = d <= worst ? worst : d;
        own += tokens * HIDDEN;
        memory_free(expected);
    }
    return worst;
}

/* The worst distance of all tokens' states of the embedding and all layers, with `shift` from those of another layer.
 */
static double compare_layers(hid_t golden, const struct generate_result *result, int shift)
{
    const float *own = result->vectors;
    double worst = 0;
    for (int r = 0; r < RECORDS; r++) {
        const int64_t tokens = residues[r] + 2;
        double *lower = expected_of(golden, names[r], "hidden_states", LAYERS * tokens * HIDDEN);
        double *last = expected_of(golden, names[r], "states", tokens * HIDDEN);
        float *of_layer = memory_allocate((int64_t)sizeof *of_layer * tokens * HIDDEN);
        for (int layer = 0; layer <= LAYERS; layer++) {
            const int wanted = (layer + shift) % (LAYERS + 1);
            for (int64_t i = 0; i < tokens * HIDDEN; i++)
                of_layer[i] = own[(i / HIDDEN * (LAYERS + 1) + layer) * HIDDEN + i % HIDDEN];
            double d = distance(of_layer, wanted == LAYERS ? last : lower + wanted * tokens * HIDDEN, tokens * HIDDEN);
            worst = d <= worst ? worst : d;
        }
        own += tokens * (LAYERS + 1) * HIDDEN;
        memory_free(lower);
        memory_free(last);
        memory_free(of_layer);
    }
    return worst;
}

static void check_layers(struct comm *self, struct embed_settings settings, hid_t golden,
                         struct generate_result *result)
{
    settings.pool = "none";
    settings.layers = "all";
    run(self, settings, make_oracle, result);
    CHECK(compare_layers(golden, result, 0) <= bound);
    run(self, settings, cpu_executor_make, result);
    double worst = compare_layers(golden, result, 0), shifted = compare_layers(golden, result, 1);
    printf("all layers: %.1e, of the next layer %.1e\n", worst, shifted);
    CHECK(worst <= bound && shifted > bound);
    struct generate_result *some = memory_allocate(sizeof *some);
    settings.layers = "-1,0";
    run(self, settings, cpu_executor_make, some);
    for (int i = 0; i < HIDDEN; i++) {
        CHECK(some->vectors[i] == result->vectors[LAYERS * HIDDEN + i]);
        CHECK(some->vectors[HIDDEN + i] == result->vectors[i]);
    }
    static const char *const wrong[] = {"3", "-4", "0-3", "2-1", "0,0", "1,", "x", "-1-0", ""};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        settings.layers = wrong[i];
        CHECK(embed_run(self, &settings, cpu_executor_make) == ERROR_USER);
    }
    memory_free(some);
}

/* -- Numbers and files -------------------------------------------------------------------------------------------- */

static double norm_of(const float *vector)
{
    double squares = 0;
    for (int i = 0; i < HIDDEN; i++)
        squares += (double)vector[i] * vector[i];
    return sqrt(squares);
}

/* f16 has 10 bits of mantissa, and steps of 2^-24 near zero. */
static void check_numbers(struct comm *self, struct embed_settings settings, struct generate_result *result)
{
    struct generate_result *other = memory_allocate(sizeof *other);
    settings.pool = "none";
    run(self, settings, cpu_executor_make, result);
    settings.dtype = "f16";
    run(self, settings, cpu_executor_make, other);
    int64_t rows = 0, differ = 0;
    for (int r = 0; r < RECORDS; r++)
        rows += residues[r] + 2;
    for (int64_t i = 0; i < rows * HIDDEN; i++) {
        const double of = fabs((double)result->vectors[i]),
                     apart = fabs((double)other->vectors[i] - result->vectors[i]);
        CHECK(apart <= fmax(of * 0x1p-11, 0x1p-25));
        differ += apart > 0;
    }
    CHECK(differ > rows);
    settings.dtype = "f32";
    settings.normalize = true;
    run(self, settings, cpu_executor_make, other);
    for (int64_t t = 0; t < rows; t++) {
        const float *a = result->vectors + t * HIDDEN, *b = other->vectors + t * HIDDEN;
        CHECK(fabs(norm_of(b) - 1) <= 1e-6 && fabs(norm_of(a) - 1) > 1e-6);
        CHECK(fabs(b[3] * norm_of(a) - a[3]) <= 1e-6 * norm_of(a));
    }
    settings.dtype = "f64";
    CHECK(embed_run(self, &settings, cpu_executor_make) == ERROR_USER);
    memory_free(other);
}

static void read_contacts(const char *output, float *contacts)
{
    hid_t file = H5Fopen(output, H5F_ACC_RDONLY, H5P_DEFAULT);
    read_all(file, "contacts", H5T_NATIVE_FLOAT, (int64_t)RECORDS * LONGEST * LONGEST, contacts);
    H5Fclose(file);
}

/* The worst distance of contacts from transformers in float64. They are 0.46 to 0.59. */
static double worst_contact(hid_t golden, const float *contacts)
{
    double worst = 0;
    for (int r = 0; r < RECORDS; r++) {
        const int64_t count = residues[r] * residues[r];
        double *expected = expected_of(golden, names[r], "contacts", count);
        for (int64_t i = 0; i < count; i++)
            worst = fabs(contacts[i] - expected[i]) <= worst ? worst : fabs(contacts[i] - expected[i]);
        contacts += count;
        memory_free(expected);
    }
    return worst;
}

/* Contacts of the third record in a file of its own: the same bits. */
static void check_lonely_contacts(struct comm *self, struct embed_settings settings, const float *together)
{
    static float alone[36];
    char *path = memory_format("%s.fa", settings.output);
    FILE *file = fopen(path, "w");
    fprintf(file, ">rare\nMXUBZO\n");
    fclose(file);
    settings.input = path;
    CHECK(embed_run(self, &settings, cpu_executor_make) == ERROR_NONE);
    read_contacts(settings.output, alone);
    CHECK(memcmp(alone, together + residues[0] * residues[0] + residues[1] * residues[1], sizeof alone) == 0);
    unlink(path);
    free(path);
}

static void check_contacts(struct comm *self, struct embed_settings settings, hid_t golden)
{
    static const enum inference_fault faults[] = {ROPE_FORM, NO_FAULT};
    float *contacts = memory_allocate((int64_t)sizeof *contacts * RECORDS * LONGEST * LONGEST);
    settings.pool = "mean";
    settings.contacts = true;
    CHECK(embed_run(self, &settings, make_oracle) == ERROR_NONE);
    read_contacts(settings.output, contacts);
    CHECK(worst_contact(golden, contacts) <= 1e-6);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        planted.fault = faults[i];
        CHECK(embed_run(self, &settings, make_planted) == ERROR_NONE);
        planted.cpu->class->destroy(planted.cpu);
        read_contacts(settings.output, contacts);
        const double worst = worst_contact(golden, contacts);
        printf("contacts, %s: %.1e\n", inference_fault_names[faults[i]], worst);
        CHECK((worst <= 1e-6) == (faults[i] == NO_FAULT));
    }
    check_lonely_contacts(self, settings, contacts);
    memory_free(contacts);
}

/* NumPy's format 1.0 as its documentation has it; the numbers are those of the HDF5 file. */
static void check_npy(struct comm *self, struct embed_settings settings, struct generate_result *result)
{
    char *npy = memory_format("%s.npy", settings.output), *tsv = memory_format("%s.tsv", settings.output);
    char header[256] = "", lines[256] = "";
    static float vectors[RECORDS * HIDDEN];
    settings.pool = "mean";
    run(self, settings, cpu_executor_make, result);
    settings.output = npy;
    CHECK(embed_run(self, &settings, cpu_executor_make) == ERROR_NONE);
    FILE *file = fopen(npy, "r");
    CHECK(file != NULL && fread(header, 1, 10, file) == 10 && memcmp(header, "\x93NUMPY\x01\x00", 8) == 0);
    const int bytes = (unsigned char)header[8] + 256 * (unsigned char)header[9];
    CHECK((10 + bytes) % 64 == 0 && bytes < (int)sizeof header && (int)fread(header, 1, (size_t)bytes, file) == bytes);
    CHECK(strstr(header, "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 32), }") == header);
    CHECK(header[bytes - 1] == '\n');
    CHECK(fread(vectors, sizeof *vectors, RECORDS * HIDDEN + 1, file) == RECORDS * HIDDEN);
    CHECK(memcmp(vectors, result->vectors, sizeof vectors) == 0);
    fclose(file);
    file = fopen(tsv, "r");
    CHECK(file != NULL && fread(lines, 1, sizeof lines - 1, file) > 0);
    CHECK(strcmp(lines, "name\tlength\trow\nP42212\t238\t0\ninsulin_B\t30\t1\nrare\t6\t2\none\t1\t3\n") == 0);
    fclose(file);
    unlink(npy);
    unlink(tsv);
    free(npy);
    free(tsv);
}

/* Each record in a file of its own: the same bits. */
static void check_company(struct comm *self, struct embed_settings settings, const struct generate_result *together)
{
    static const char *const sequences[2] = {"MXUBZO", "W"};
    struct generate_result *alone = memory_allocate(sizeof *alone);
    char *path = memory_format("%s.fa", settings.output);
    const float *own = together->vectors + (residues[0] + residues[1] + 4) * HIDDEN;
    settings.input = path;
    for (int r = 2; r < RECORDS; r++) {
        const int64_t count = (residues[r] + 2) * HIDDEN;
        FILE *file = fopen(path, "w");
        fprintf(file, ">%s\n%s\n", names[r], sequences[r - 2]);
        fclose(file);
        run(self, settings, cpu_executor_make, alone);
        double *expected = memory_allocate((int64_t)sizeof *expected * count);
        for (int64_t i = 0; i < count; i++)
            expected[i] = own[i];
        double d = distance(alone->vectors, expected, count);
        printf("%s alone: %.1e\n", names[r], d);
        CHECK(d == 0);
        own += count;
        memory_free(expected);
    }
    unlink(path);
    free(path);
    memory_free(alone);
}

/* A device whose memory is its own, with so much free, of which it takes some by itself. */
static int64_t device_free, device_margin;

static int64_t available(struct executor *executor)
{
    (void)executor;
    return device_free;
}

static int64_t margin(struct executor *executor)
{
    (void)executor;
    return device_margin;
}

static int make_device(struct executor **executor, const struct device_request *request)
{
    static const struct executor_device device = {.available = available, .margin = margin};
    planted.fault = NO_FAULT;
    int code = make_planted(executor, request);
    (*executor)->device = &device;
    return code;
}

/* What the engine needs must be free on the device, whatever the host has. */
static void check_memory(struct comm *self, struct embed_settings settings, struct generate_result *result)
{
    device_free = (int64_t)1 << 30;
    run(self, settings, make_device, result);
    device_margin = (int64_t)1 << 30;
    CHECK(embed_run(self, &settings, make_device) == ERROR_USER);
    device_margin = 0;
    device_free = 1 << 10;
    CHECK(embed_run(self, &settings, make_device) == ERROR_USER);
}

int main(void)
{
    static const enum inference_fault faults[] = {NO_FAULT, NO_DROPOUT, ROPE_FORM, CAUSAL, POSITIONS};
    static const char *const pools[] = {"mean", "last", "first", "none"};
    struct comm *self = comm_self();
    struct generate_result *result = memory_allocate(sizeof *result);
    char folder[] = "/tmp/cistron-embed.XXXXXX";
    CHECK(mkdtemp(folder) != NULL);
    char *checkpoint = memory_format("%s/model.h5", folder), *output = memory_format("%s/out.h5", folder);
    char *fasta = golden_path("embed_esm2.fa"), *path = golden_path("embed_esm2.h5");
    char *weights = golden_path("esm2_tiny");
    hid_t golden = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    CHECK(golden >= 0);
    const struct import_settings model = {.folder = weights, .output = checkpoint, .version = "t_embed"};
    CHECK(import_run(&model) == ERROR_NONE);
    struct embed_settings settings = {
        .checkpoint = checkpoint, .input = fasta, .dtype = "f32", .output = output, .replace = true};
    for (int p = 0; p < 4; p++) {
        settings.pool = pools[p];
        run(self, settings, cpu_executor_make, result);
        double cpu = compare(golden, result, pools[p]);
        run(self, settings, make_oracle, result);
        double oracle = compare(golden, result, pools[p]);
        printf("%s: %.1e on the CPU executor, %.1e on the oracle\n", pools[p], cpu, oracle);
        CHECK(cpu <= bound && oracle <= bound);
    }
    double with_specials = mean_of_all(golden, result);
    printf("    %-32s %.1e\n", "special tokens in the mean", with_specials);
    CHECK(!(with_specials <= bound));
    run(self, settings, cpu_executor_make, result);
    check_company(self, settings, result);
    settings.pool = "mean";
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        const enum inference_fault fault = planted.fault = faults[i];
        run(self, settings, make_planted, result);
        planted.cpu->class->destroy(planted.cpu);
        double d = compare(golden, result, "mean");
        printf("    %-32s %.1e\n", inference_fault_names[fault], d);
        CHECK((d <= bound) == (fault == NO_FAULT));
    }
    check_memory(self, settings, result);
    check_layers(self, settings, golden, result);
    check_numbers(self, settings, result);
    check_npy(self, settings, result);
    check_contacts(self, settings, golden);
    H5Fclose(golden);
    char *side = memory_format("%s.xxh3", checkpoint);
    unlink(side);
    unlink(checkpoint);
    unlink(output);
    rmdir(folder);
    free(side);
    free(checkpoint);
    free(output);
    free(fasta);
    free(path);
    free(weights);
    memory_free(result);
    comm_destroy(self);
    return check_end();
}
