/* Names and weights of the stores of one stream, parsed from keys data.train and data.weights. */
#ifndef LOADER_STORE_LIST_H
#define LOADER_STORE_LIST_H

#include "loader/blend.h"

#include <stdbool.h>

struct store_list {
    int count;
    char **paths;    /* [count] */
    bool weighted;   /* false: weights in proportion to the number of windows */
    double *weights; /* [count] if weighted: positive, with any sum */
};

/* If weights is NULL, `paths` is one path, used literally. Otherwise `paths` is a list (file/path.h) whose items, with
 * blanks around them removed, are paths or shell patterns (* ? [...]); and `weights` is a list of one positive number
 * per store, or "" for none. Local. ERROR_USER: an empty name, more than BLEND_STORES stores, a weight that is not a
 * positive number, or a wrong number of weights. Destroy the list also after an error. */
int store_list_parse(struct store_list *list, const char *paths, const char *weights);
void store_list_destroy(struct store_list *list);

#endif
