/* Changes one number or text of an HDF5 file in place, for tests of files that are whole but wrong, or adds a tensor to
 * those that a checkpoint has none of:
 *   hdf5_edit FILE ATTRIBUTE VALUE            of the root; VALUE as the attribute's type wants it
 *   hdf5_edit FILE DATASET[INDEX] VALUE       one integer of a one-dimensional dataset
 *   hdf5_edit FILE NAME=DTYPE VALUE           carried along (io/carried.h): the bytes of the text VALUE */
#include "io/carried.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int set_attribute(hid_t file, const char *name, const char *value)
{
    hid_t attribute = H5Aopen(file, name, H5P_DEFAULT), type = H5Aget_type(attribute);
    char text[256] = "";
    const long long number = atoll(value);
    if (H5Tget_class(type) != H5T_STRING)
        return H5Awrite(attribute, H5T_NATIVE_LLONG, &number) >= 0;
    if (H5Tget_size(type) >= sizeof text || strlen(value) > H5Tget_size(type))
        return 0;
    strcpy(text, value);
    return H5Awrite(attribute, type, text) >= 0;
}

static int set_element(hid_t file, const char *name, hsize_t index, const char *value)
{
    hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT), space = H5Dget_space(dataset);
    hid_t memory = H5Screate(H5S_SCALAR);
    const long long number = atoll(value);
    return H5Sselect_elements(space, H5S_SELECT_SET, 1, &index) >= 0 &&
           H5Dwrite(dataset, H5T_NATIVE_LLONG, memory, space, H5P_DEFAULT, &number) >= 0;
}

static int add_carried(hid_t file, char *name, const char *dtype, char *value)
{
    struct carried_tensor tensor = {.name = name, .dims = 1, .bytes = (int64_t)strlen(value), .data = value};
    const struct carried carried = {1, &tensor};
    tensor.shape[0] = tensor.bytes;
    snprintf(tensor.dtype, sizeof tensor.dtype, "%s", dtype);
    return carried_write(file, &carried);
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    hid_t file = H5Fopen(argv[1], H5F_ACC_RDWR, H5P_DEFAULT);
    char *bracket = strchr(argv[2], '['), *equals = strchr(argv[2], '=');
    int good = bracket == NULL && equals == NULL ? set_attribute(file, argv[2], argv[3]) : 0;
    if (equals != NULL) {
        *equals = '\0';
        good = add_carried(file, argv[2], equals + 1, argv[3]);
    }
    if (bracket != NULL) {
        *bracket = '\0';
        good = set_element(file, argv[2], strtoull(bracket + 1, NULL, 10), argv[3]);
    }
    return !good || H5Fclose(file) < 0; /* closing leaves what was opened to the end of the process */
}
