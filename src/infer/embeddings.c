#include "infer/embeddings.h"
#include "base/error.h"
#include "base/memory.h"
#include "file/file.h"
#include "file/hdf5_file.h"
#include "file/hdf5_layout.h"
#include "file/open.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LAYOUT_VERSION = 1 };
enum { COLUMN_NAMES, COLUMN_LENGTHS, COLUMN_VECTORS, COLUMN_OFFSETS, COLUMN_CONTACTS, COLUMNS };

static const char *const column_names[COLUMNS] = {"names", "lengths", "vectors", "offsets", "contacts"};

/* A dataset that is filled from its beginning. */
struct embeddings_column {
    int64_t row_bytes;
    int64_t position; /* file offset of the next row */
};

struct embeddings {
    char *path;
    FILE *table;            /* borrowed; NULL: HDF5 */
    int64_t special_tokens; /* per record */
    bool all_tokens;        /* pool "none" */
    enum embeddings_dtype dtype;
    int64_t width; /* numbers of a row */
    int descriptor;
    struct embeddings_column column[COLUMNS];
    int64_t offset;   /* rows of the records so far */
    uint16_t *halves; /* [half_count] converted numbers, grown as needed */
    int64_t half_count;
    const struct embeddings_settings *settings; /* valid while the file is laid out */
};

const char *const embeddings_pool_names[EMBEDDINGS_POOLS] = {"mean", "first", "last", "none"};
const char *const embeddings_dtype_names[EMBEDDINGS_DTYPES] = {"f32", "f16"};

/* -- Numbers of 16 bits ------------------------------------------------------------------------------------------- */

static const int64_t dtype_bytes[EMBEDDINGS_DTYPES] = {4, 2};
static const float HALF_LEAST_NORMAL = 0x1p-14F, HALF_STEP = 0x1p-24F; /* of IEEE 754 binary16 */
static const float HALF_OVERFLOWS = 65520;                             /* rounds to infinity */

/* Rounds to nearest, ties to even. |value| < HALF_OVERFLOWS, or NaN. */
static uint16_t half_of(float value)
{
    enum { DROPPED = 13 /* bits of the mantissa */, BIAS = 127 - 15 };
    const float magnitude = fabsf(value);
    const uint16_t sign = signbit(value) ? 0x8000 : 0;
    uint32_t bits;
    if (isnan(value))
        return sign | 0x7e00;
    if (magnitude < HALF_LEAST_NORMAL)
        return (uint16_t)(sign | (uint16_t)lrintf(magnitude / HALF_STEP));
    memcpy(&bits, &magnitude, sizeof bits);
    bits += (1U << (DROPPED - 1)) - 1 + ((bits >> DROPPED) & 1);
    return (uint16_t)(sign | ((bits >> DROPPED) - (BIAS << (23 - DROPPED))));
}

static hid_t half_type(void)
{
    hid_t type = H5Tcopy(H5T_IEEE_F32LE);
    H5Tset_fields(type, 15, 10, 5, 0, 10);
    H5Tset_size(type, 2);
    H5Tset_ebias(type, 15);
    return type;
}

/* -- Files -------------------------------------------------------------------------------------------------------- */

static bool describe(hid_t file, const struct embeddings_settings *s)
{
    return hdf5_write_integer(file, "cistron_embeddings", LAYOUT_VERSION) &&
           hdf5_write_text(file, "version", PACKAGE_VERSION) && hdf5_write_text(file, "checkpoint", s->checkpoint) &&
           hdf5_write_integer(file, "step", s->step) && hdf5_write_text(file, "family", s->family) &&
           hdf5_write_text(file, "tokenizer", s->tokenizer) &&
           hdf5_write_text(file, "pool", embeddings_pool_names[s->pool]) &&
           hdf5_write_integer(file, "hidden", s->hidden) && hdf5_write_integer(file, "begin_tokens", s->begin_tokens) &&
           hdf5_write_integer(file, "end_tokens", s->end_tokens) &&
           hdf5_write_integer(file, "max_length", s->max_length) &&
           hdf5_write_integer(file, "truncated", s->truncated) &&
           hdf5_write_integer(file, "normalized", s->normalized) &&
           hdf5_write_integer(file, "both_strands", s->both_strands) &&
           (s->layers == NULL || hdf5_write_integers(file, "layers", s->layers, s->layer_count));
}

static int64_t rows_of(const struct embeddings_settings *s, int column)
{
    return column == COLUMN_VECTORS    ? s->rows
           : column == COLUMN_CONTACTS ? s->contacts
                                       : s->records + (column == COLUMN_OFFSETS);
}

static bool has_column(const struct embeddings_settings *s, int column)
{
    return column == COLUMN_OFFSETS ? s->pool == EMBEDDINGS_NONE : column != COLUMN_CONTACTS || s->contacts > 0;
}

static bool create(hid_t file, void *self)
{
    struct embeddings *e = self;
    const struct embeddings_settings *s = e->settings;
    hid_t string = H5Tcopy(H5T_C_S1), half = half_type();
    H5Tset_size(string, (size_t)s->name_bytes);
    H5Tset_strpad(string, H5T_STR_NULLPAD);
    H5Tset_cset(string, H5T_CSET_UTF8);
    const hid_t types[COLUMNS] = {string, H5T_STD_I64LE, s->dtype == EMBEDDINGS_F16 ? half : H5T_IEEE_F32LE,
                                  H5T_STD_I64LE, H5T_IEEE_F32LE};
    bool good = describe(file, s);
    for (int i = 0; i < COLUMNS && good; i++) {
        if (!has_column(s, i))
            continue;
        const hsize_t rows = (hsize_t)rows_of(s, i), hidden = (hsize_t)s->hidden;
        const hsize_t extent[3] = {rows, s->layers != NULL ? (hsize_t)s->layer_count : hidden, hidden};
        const int dims = i != COLUMN_VECTORS ? 1 : s->layers != NULL ? 3 : 2;
        good = hdf5_layout_dataset(file, column_names[i], types[i], dims, extent, &e->column[i].position);
    }
    H5Tclose(string);
    H5Tclose(half);
    return good;
}

static int put(struct embeddings *e, int column, const void *values, int64_t rows)
{
    struct embeddings_column *c = &e->column[column];
    int code = file_write(e->descriptor, e->path, values, rows * c->row_bytes, c->position);
    c->position += rows * c->row_bytes;
    return code;
}

static int create_hdf5(struct embeddings *e, const struct embeddings_settings *s)
{
    int64_t most = HDF5_LAYOUT_FIXED + (int64_t)strlen(s->checkpoint) + s->layer_count * (int64_t)sizeof *s->layers;
    for (int i = 0; i < COLUMNS; i++)
        most += HDF5_LAYOUT_DATASET + rows_of(s, i) * e->column[i].row_bytes;
    int code = hdf5_layout_write(e->descriptor, e->path, most, create, e);
    return code == ERROR_NONE && e->all_tokens ? put(e, COLUMN_OFFSETS, &e->offset, 1) : code;
}

/* The header of format 1.0: magic, version, length of the text, and a text that ends with a line feed where the numbers
 * begin, at a multiple of 64 bytes. */
static int create_npy(struct embeddings *e, const struct embeddings_settings *s)
{
    enum { BEGINS = 192, MAGIC = 10 };
    char header[BEGINS + 1], shape[80];
    if (s->layers != NULL)
        snprintf(shape, sizeof shape, "%lld, %lld, %lld", (long long)s->rows, (long long)s->layer_count,
                 (long long)s->hidden);
    else
        snprintf(shape, sizeof shape, "%lld, %lld", (long long)s->rows, (long long)s->hidden);
    memcpy(header, "\x93NUMPY\x01\x00", 8);
    header[8] = (char)(BEGINS - MAGIC);
    header[9] = 0;
    const int used =
        snprintf(header + MAGIC, sizeof header - MAGIC, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }",
                 s->dtype == EMBEDDINGS_F16 ? "<f2" : "<f4", shape);
    memset(header + MAGIC + used, ' ', (size_t)(BEGINS - MAGIC - used));
    header[BEGINS - 1] = '\n';
    e->column[COLUMN_VECTORS].position = BEGINS;
    fprintf(e->table, "name\tlength\trow\n");
    return file_write(e->descriptor, e->path, header, BEGINS, 0);
}

int embeddings_create(struct embeddings **out, const struct embeddings_settings *s)
{
    struct embeddings *e = *out = memory_allocate(sizeof *e);
    e->path = memory_string(s->path);
    e->table = s->table;
    e->special_tokens = s->begin_tokens + s->end_tokens;
    e->all_tokens = s->pool == EMBEDDINGS_NONE;
    e->dtype = s->dtype;
    e->width = s->layer_count * s->hidden;
    e->settings = s;
    const int64_t row_bytes[COLUMNS] = {s->name_bytes, sizeof(int64_t), e->width * dtype_bytes[s->dtype],
                                        sizeof(int64_t), sizeof(float)};
    for (int i = 0; i < COLUMNS; i++)
        e->column[i].row_bytes = row_bytes[i];
    e->descriptor = open_own(s->path, O_WRONLY | O_TRUNC);
    int code = e->descriptor < 0  ? error_environment("%s: cannot open it: %s", s->path, open_failure())
               : e->table != NULL ? create_npy(e, s)
                                  : create_hdf5(e, s);
    if (code != ERROR_NONE) {
        embeddings_close(e, code);
        *out = NULL;
    }
    return code;
}

/* Writes a name. The rest of its space is a hole, which reads as zeros. */
static int put_name(struct embeddings *e, const char *name)
{
    struct embeddings_column *c = &e->column[COLUMN_NAMES];
    int code = file_write(e->descriptor, e->path, name, (int64_t)strlen(name), c->position);
    c->position += c->row_bytes;
    return code;
}

/* Returns the number of rows of a record. */
static int64_t rows_of_record(const struct embeddings *e, int64_t length)
{
    return e->all_tokens ? length + e->special_tokens : 1;
}

static int put_lines(struct embeddings *e, char *const *names, const int64_t *lengths, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        fprintf(e->table, "%s\t%lld\t%lld\n", names[i], (long long)lengths[i], (long long)e->offset);
        e->offset += rows_of_record(e, lengths[i]);
    }
    return ERROR_NONE; /* closing the table notices a failure */
}

int embeddings_put_records(struct embeddings *e, char *const *names, const int64_t *lengths, int64_t count)
{
    if (e->table != NULL)
        return put_lines(e, names, lengths, count);
    int code = put(e, COLUMN_LENGTHS, lengths, count);
    for (int64_t i = 0; i < count && code == ERROR_NONE; i++)
        code = put_name(e, names[i]);
    if (code != ERROR_NONE || !e->all_tokens)
        return code;
    int64_t *offsets = memory_allocate((int64_t)sizeof *offsets * count);
    for (int64_t i = 0; i < count; i++)
        offsets[i] = e->offset += rows_of_record(e, lengths[i]);
    code = put(e, COLUMN_OFFSETS, offsets, count);
    memory_free(offsets);
    return code;
}

int embeddings_put_vectors(struct embeddings *e, const float *vectors, int64_t count)
{
    const int64_t numbers = count * e->width;
    if (e->dtype == EMBEDDINGS_F32)
        return put(e, COLUMN_VECTORS, vectors, count);
    if (numbers > e->half_count) {
        memory_free(e->halves);
        e->halves = memory_allocate((int64_t)sizeof *e->halves * numbers);
        e->half_count = numbers;
    }
    for (int64_t i = 0; i < numbers; i++) {
        if (fabsf(vectors[i]) >= HALF_OVERFLOWS)
            return error_user("a vector has the number %g, beyond the largest of f16, 65504; use --dtype f32 or "
                              "--normalize",
                              (double)vectors[i]);
        e->halves[i] = half_of(vectors[i]);
    }
    return put(e, COLUMN_VECTORS, e->halves, count);
}

int embeddings_put_contacts(struct embeddings *e, const float *contacts, int64_t count)
{
    return put(e, COLUMN_CONTACTS, contacts, count);
}

int embeddings_close(struct embeddings *e, int code)
{
    if (e == NULL)
        return code;
    if (e->descriptor >= 0)
        code = file_finish(e->descriptor, e->path, code);
    free(e->path);
    memory_free(e->halves);
    memory_free(e);
    return code;
}
