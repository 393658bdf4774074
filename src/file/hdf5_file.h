/* HDF5 helpers of checkpoints and `cistron inspect`: attributes in the forms that this program, h5py and h5repack
 * write, strings, names. */
#ifndef FILE_HDF5_FILE_H
#define FILE_HDF5_FILE_H

#include "file/hdf5_member.h"
#include "file/hdf5_open.h"

#include <hdf5.h>
#include <stdbool.h>
#include <stdint.h>

/* Read a number attribute of an open object. Return false if it is missing or not a number. */
bool hdf5_read_integer(hid_t object, const char *name, int64_t *value);
bool hdf5_read_real(hid_t object, const char *name, double *value);
/* Read an attribute of one or several numbers into values[capacity]. Return their number; 0 if the attribute is
 * missing, not numeric, or longer than `capacity`. */
int64_t hdf5_read_integers(hid_t object, const char *name, int64_t *values, int64_t capacity);
int64_t hdf5_read_reals(hid_t object, const char *name, double *values, int64_t capacity);
/* Returns a text attribute of fixed or variable length, freed with free(); NULL if it is missing or not a single text.
 */
char *hdf5_read_text(hid_t object, const char *name);
/* Create an attribute of one value. Return false on failure. */
bool hdf5_write_integer(hid_t object, const char *name, int64_t value);
bool hdf5_write_real(hid_t object, const char *name, double value);
/* Create an attribute: a scalar for one value, else an array. Return false on failure. */
bool hdf5_write_integers(hid_t object, const char *name, const int64_t *values, int64_t count);
bool hdf5_write_reals(hid_t object, const char *name, const double *values, int64_t count);
bool hdf5_write_text(hid_t object, const char *name, const char *text);

/* Returns all strings of a dataset, of fixed or variable length; *count < 0 if it does not contain strings, or more
 * than HDF5_STRINGS_BYTES bytes. Free the array with hdf5_strings_free. */
enum { HDF5_STRINGS_BYTES = 64 << 20 };
char **hdf5_read_strings(hid_t dataset, int64_t *count);

/* Returns the element type of a dataset: "f32", "i64", "string", ... A static string. */
const char *hdf5_type_name(hid_t dataset);

/* Returns the names of a group's members in alphabetical order; O(n log n). Free them with hdf5_strings_free. */
char **hdf5_list(hid_t group, int64_t *count);
void hdf5_strings_free(char **strings, int64_t count);

#endif
