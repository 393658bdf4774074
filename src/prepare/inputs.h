/* The files that the inputs of prepare name. */
#ifndef PREPARE_INPUTS_H
#define PREPARE_INPUTS_H

#include <stdint.h>

struct prepare_inputs {
    char **paths; /* [count] */
    int64_t count;
};

/* Each of given[count] is "-" or a file's path, which stay as they are; a folder, for the files in it, not those of
 * folders in it nor those whose names begin with a dot; or a pattern of the shell (* ? [...]), for the files that
 * match. Files of a folder or a pattern are sorted by name, byte by byte. inputs_destroy in any case. User errors: a
 * pattern that no file matches, a folder without files. */
int inputs_expand(struct prepare_inputs *inputs, const char *const given[], int64_t count);
void inputs_destroy(struct prepare_inputs *inputs);

#endif
