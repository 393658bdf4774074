/* Expands the inputs of cistron prepare to files. */
#ifndef PREPARE_INPUTS_H
#define PREPARE_INPUTS_H

#include <stdint.h>

struct prepare_inputs {
    char **paths; /* [count] */
    int64_t count;
};

/* Expands given[count]. "-" and paths of files are unchanged. A folder stands for the files in it, except those in
 * subfolders and those whose names begin with a dot. A shell pattern (* ? [...]) stands for the files that match. Files
 * of a folder or pattern are sorted by name, byte by byte. Call inputs_destroy also after an error. ERROR_USER: a
 * pattern that no file matches, a folder without files. */
int inputs_expand(struct prepare_inputs *inputs, const char *const given[], int64_t count);
void inputs_destroy(struct prepare_inputs *inputs);

#endif
