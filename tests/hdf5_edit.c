/* Changes one number or text of an HDF5 file in place, for tests of files that are whole but wrong, adds a tensor to
 * those that a checkpoint has none of, or puts something hostile in a member's place:
 *   hdf5_edit FILE ATTRIBUTE VALUE            of the root, or GROUP/ATTRIBUTE; VALUE as the attribute's type wants it
 *   hdf5_edit FILE DATASET[INDEX] VALUE       one integer of a one-dimensional dataset
 *   hdf5_edit FILE NAME=DTYPE VALUE           carried along (checkpoint/carried.h): the bytes of the text VALUE
 *   hdf5_edit FILE DATASET@external OTHER     a dataset like the one that was there, with its data in the file OTHER
 *   hdf5_edit FILE DATASET@virtual OTHER      the same, made of the dataset OTHER of the same file, which may be itself
 *   hdf5_edit FILE NAME@soft OTHER            a soft link to OTHER
 *   hdf5_edit FILE NAME@link OTHER            a link to the same name in the file OTHER
 *   hdf5_edit FILE GROUP@many N               N more datasets and, one in the other, N / 10 groups */
#include "checkpoint/carried.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int set_attribute(hid_t file, char *name, const char *value)
{
    char *slash = strrchr(name, '/');
    if (slash != NULL)
        *slash = '\0';
    hid_t group = slash == NULL ? file : H5Gopen2(file, name, H5P_DEFAULT);
    hid_t attribute = H5Aopen(group, slash == NULL ? name : slash + 1, H5P_DEFAULT), type = H5Aget_type(attribute);
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
    const struct carried_files carried = {.count = 1, .tensors = &tensor};
    tensor.shape[0] = tensor.bytes;
    snprintf(tensor.dtype, sizeof tensor.dtype, "%s", dtype);
    return carried_write(file, &carried);
}

static int replace_dataset(hid_t file, const char *name, const char *how, const char *other)
{
    hid_t old = H5Dopen2(file, name, H5P_DEFAULT), type = H5Dget_type(old), space = H5Dget_space(old);
    hid_t plan = H5Pcreate(H5P_DATASET_CREATE);
    if (strcmp(how, "external") == 0)
        H5Pset_external(plan, other, 0, H5F_UNLIMITED);
    else
        H5Pset_virtual(plan, space, ".", other, space);
    return H5Dclose(old) >= 0 && H5Ldelete(file, name, H5P_DEFAULT) >= 0 &&
           H5Dcreate2(file, name, type, space, H5P_DEFAULT, plan, H5P_DEFAULT) >= 0;
}

static int replace_link(hid_t file, const char *name, const char *how, const char *other)
{
    return H5Ldelete(file, name, H5P_DEFAULT) >= 0 &&
           (strcmp(how, "soft") == 0 ? H5Lcreate_soft(other, file, name, H5P_DEFAULT, H5P_DEFAULT)
                                     : H5Lcreate_external(other, name, file, name, H5P_DEFAULT, H5P_DEFAULT)) >= 0;
}

static int add_many(hid_t file, const char *name, int count)
{
    hid_t group = H5Gopen2(file, name, H5P_DEFAULT), space = H5Screate(H5S_SCALAR), inner = group;
    for (int i = 0; i < count; i++) {
        char own[32];
        snprintf(own, sizeof own, "more%d", i);
        if (H5Dclose(H5Dcreate2(group, own, H5T_IEEE_F32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT)) < 0)
            return 0;
        if (i % 10 == 0)
            inner = H5Gcreate2(inner, "inner", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    }
    return inner >= 0;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    hid_t file = H5Fopen(argv[1], H5F_ACC_RDWR, H5P_DEFAULT);
    char *bracket = strchr(argv[2], '['), *equals = strchr(argv[2], '='), *how = strchr(argv[2], '@');
    int good = bracket == NULL && equals == NULL && how == NULL ? set_attribute(file, argv[2], argv[3]) : 0;
    if (how != NULL) {
        *how++ = '\0';
        good = strcmp(how, "many") == 0                               ? add_many(file, argv[2], atoi(argv[3]))
               : strcmp(how, "soft") == 0 || strcmp(how, "link") == 0 ? replace_link(file, argv[2], how, argv[3])
                                                                      : replace_dataset(file, argv[2], how, argv[3]);
    }
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
