#include "file/hdf5_file.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

/* -- Names ------------------------------------------------------------------------------------------------------- */

/* The names of links found so far. */
struct listing {
    char **names;
    int64_t count;
};

static herr_t add_name(hid_t group, const char *name, const H5L_info_t *info, void *self)
{
    struct listing *listing = self;
    (void)group;
    (void)info;
    if ((listing->count & (listing->count - 1)) == 0) /* 0, 1, 2, 4, 8, ... */
        listing->names = memory_grow(listing->names,
                                     (listing->count > 0 ? 2 * listing->count : 1) * (int64_t)sizeof *listing->names);
    listing->names[listing->count++] = memory_string(name);
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

char **hdf5_list(hid_t group, int64_t *count)
{
    struct listing listing = {NULL, 0};
    /* in the file's own order: to sort names, HDF5 1.10 makes a table, and frees entries that it has not set if the
     * file is damaged */
    H5Literate(group, H5_INDEX_NAME, H5_ITER_NATIVE, NULL, add_name, &listing);
    if (listing.count > 0)
        qsort(listing.names, (size_t)listing.count, sizeof *listing.names, by_name);
    *count = listing.count;
    return listing.names;
}

/* -- Attributes -------------------------------------------------------------------------------------------------- */

static hid_t open_attribute(hid_t object, const char *name)
{
    return H5Aexists(object, name) > 0 ? H5Aopen(object, name, H5P_DEFAULT) : -1;
}

static int64_t read_numbers(hid_t object, const char *name, hid_t type, void *values, int64_t capacity)
{
    hid_t attribute = open_attribute(object, name);
    if (attribute < 0)
        return 0;
    hid_t space = H5Aget_space(attribute);
    int64_t count = (int64_t)H5Sget_simple_extent_npoints(space);
    if (count < 0 || count > capacity || H5Aread(attribute, type, values) < 0)
        count = 0;
    H5Sclose(space);
    H5Aclose(attribute);
    return count;
}

int64_t hdf5_read_integers(hid_t object, const char *name, int64_t *values, int64_t capacity)
{
    return read_numbers(object, name, H5T_NATIVE_INT64, values, capacity);
}

bool hdf5_read_integer(hid_t object, const char *name, int64_t *value)
{
    return hdf5_read_integers(object, name, value, 1) == 1;
}

int64_t hdf5_read_reals(hid_t object, const char *name, double *values, int64_t capacity)
{
    return read_numbers(object, name, H5T_NATIVE_DOUBLE, values, capacity);
}

bool hdf5_read_real(hid_t object, const char *name, double *value)
{
    return hdf5_read_reals(object, name, value, 1) == 1;
}

/* Returns the strings of an attribute or a dataset, read in the file's own type. */
static char **read_strings(hid_t object, hid_t type, hid_t space, bool is_attribute, int64_t *count)
{
    *count = -1;
    if (H5Tget_class(type) != H5T_STRING)
        return NULL;
    bool variable = H5Tis_variable_str(type) > 0;
    int64_t points = (int64_t)H5Sget_simple_extent_npoints(space), size = (int64_t)H5Tget_size(type);
    if (points < 0 || size <= 0 || points > HDF5_STRINGS_BYTES / size)
        return NULL;
    char *raw = memory_allocate(points * size);
    herr_t status =
        is_attribute ? H5Aread(object, type, raw) : H5Dread(object, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, raw);
    char **strings = NULL;
    if (status >= 0) {
        *count = points;
        strings = memory_grow(NULL, (points + 1) * (int64_t)sizeof *strings);
        for (int64_t i = 0; i < points; i++) {
            const char *text = variable ? ((char **)(void *)raw)[i] : raw + i * size;
            strings[i] = text == NULL ? memory_string("")
                                      : memory_format("%.*s", variable ? (int)strlen(text) : (int)size, text);
        }
        if (variable)
            H5Dvlen_reclaim(type, space, H5P_DEFAULT, raw);
    }
    memory_free(raw);
    return strings;
}

char *hdf5_read_text(hid_t object, const char *name)
{
    hid_t attribute = open_attribute(object, name);
    if (attribute < 0)
        return NULL;
    hid_t type = H5Aget_type(attribute), space = H5Aget_space(attribute);
    int64_t count;
    char **strings = read_strings(attribute, type, space, true, &count);
    char *text = NULL;
    if (count == 1) {
        text = strings[0];
        free(strings);
    } else {
        hdf5_strings_free(strings, count);
    }
    H5Sclose(space);
    H5Tclose(type);
    H5Aclose(attribute);
    return text;
}

char **hdf5_read_strings(hid_t dataset, int64_t *count)
{
    hid_t type = H5Dget_type(dataset), space = H5Dget_space(dataset);
    char **strings = read_strings(dataset, type, space, false, count);
    H5Sclose(space);
    H5Tclose(type);
    return strings;
}

/* count 1 makes a scalar. */
static bool write_attribute(hid_t object, const char *name, hid_t type, int64_t count, const void *values)
{
    const hsize_t length = (hsize_t)count;
    hid_t space = count == 1 ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &length, NULL);
    hid_t attribute = H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    bool good = attribute >= 0 && H5Awrite(attribute, type, values) >= 0;
    if (attribute >= 0)
        good = H5Aclose(attribute) >= 0 && good;
    H5Sclose(space);
    return good;
}

bool hdf5_write_integers(hid_t object, const char *name, const int64_t *values, int64_t count)
{
    return write_attribute(object, name, H5T_NATIVE_INT64, count, values);
}

bool hdf5_write_integer(hid_t object, const char *name, int64_t value)
{
    return hdf5_write_integers(object, name, &value, 1);
}

bool hdf5_write_reals(hid_t object, const char *name, const double *values, int64_t count)
{
    return write_attribute(object, name, H5T_NATIVE_DOUBLE, count, values);
}

bool hdf5_write_real(hid_t object, const char *name, double value)
{
    return hdf5_write_reals(object, name, &value, 1);
}

bool hdf5_write_text(hid_t object, const char *name, const char *text)
{
    hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, strlen(text) + 1);
    H5Tset_cset(type, H5T_CSET_UTF8);
    bool good = write_attribute(object, name, type, 1, text);
    H5Tclose(type);
    return good;
}

const char *hdf5_type_name(hid_t dataset)
{
    static const char *const whole[2][4] = {{"u8", "u16", "u32", "u64"}, {"i8", "i16", "i32", "i64"}};
    hid_t type = H5Dget_type(dataset);
    H5T_class_t class = H5Tget_class(type);
    size_t size = H5Tget_size(type), sign, exponent, exponent_bits = 0, mantissa, mantissa_bits;
    const char *name = "other";
    int log = size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : size == 8 ? 3 : -1;
    if (class == H5T_STRING)
        name = "string";
    if (class == H5T_INTEGER && log >= 0)
        name = whole[H5Tget_sign(type) == H5T_SGN_2][log];
    if (class == H5T_FLOAT) {
        H5Tget_fields(type, &sign, &exponent, &exponent_bits, &mantissa, &mantissa_bits);
        name = size == 8 ? "f64" : size == 4 ? "f32" : size == 2 ? (exponent_bits == 8 ? "bf16" : "f16") : "float";
    }
    H5Tclose(type);
    return name;
}

void hdf5_strings_free(char **strings, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        free(strings[i]);
    free(strings);
}
