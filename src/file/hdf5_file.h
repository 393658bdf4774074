/* What checkpoints and `cistron inspect` need of HDF5, beside opening files: attributes in the forms that this program,
 * h5py and h5repack give them. */
#ifndef FILE_HDF5_FILE_H
#define FILE_HDF5_FILE_H

#include "file/hdf5_member.h"
#include "file/hdf5_open.h"

#include <hdf5.h>
#include <stdbool.h>
#include <stdint.h>

/* A number attribute of an open object; false when it is absent or no number. */
bool hdf5_read_integer(hid_t object, const char *name, int64_t *value);
bool hdf5_read_real(hid_t object, const char *name, double *value);
/* Its values, one or an array, into values[room]; how many, 0 when it is absent, no numbers or more than room. */
int64_t hdf5_read_integers(hid_t object, const char *name, int64_t *values, int64_t room);
int64_t hdf5_read_reals(hid_t object, const char *name, double *values, int64_t room);
/* A text attribute, of fixed or variable length; NULL when it is absent or no single text. Freed with free(). */
char *hdf5_read_text(hid_t object, const char *name);
/* Create an attribute; false on failure. */
bool hdf5_write_integer(hid_t object, const char *name, int64_t value);
bool hdf5_write_real(hid_t object, const char *name, double value);
/* One value as hdf5_write_integer does it, several as an array. */
bool hdf5_write_integers(hid_t object, const char *name, const int64_t *values, int64_t count);
bool hdf5_write_reals(hid_t object, const char *name, const double *values, int64_t count);
bool hdf5_write_text(hid_t object, const char *name, const char *text);

/* All strings of a dataset, of fixed or variable length; *count < 0 when it holds no strings, or more than
 * HDF5_STRINGS_BYTES. Free each, then the array, with free(). */
enum { HDF5_STRINGS_BYTES = 64 << 20 };
char **hdf5_read_strings(hid_t dataset, int64_t *count);

/* "f32", "i64", "string", ... of a dataset's elements. */
const char *hdf5_type_name(hid_t dataset);

/* Names of a group's members, in alphabetical order. Free each, then the array, with free(). The time is that of
 * sorting them, however many there are. */
char **hdf5_list(hid_t group, int64_t *count);
void hdf5_strings_free(char **strings, int64_t count);

#endif
