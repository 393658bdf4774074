/* The names and weights of the stores of one stream, as keys data.train and data.weights give them. */
#ifndef LOADER_STORE_LIST_H
#define LOADER_STORE_LIST_H

#include "loader/blend.h"

#include <stdbool.h>

struct store_list {
    int count;
    char **paths;    /* [count] */
    bool weighted;   /* else stores count by their windows */
    double *weights; /* [count] where weighted: positive, of any sum */
};

/* weights NULL: `paths` is one path, as it stands. Else paths as a list (file/path.h), blanks around them dropped,
 * each a path or a pattern of the shell (* ? [...]) for several, and as many weights, positive
 * numbers, or "" for none. Local. User errors: an empty name, more than BLEND_STORES, weights that are no positive
 * numbers or not as many. Destroy the list in any case. */
int store_list_parse(struct store_list *list, const char *paths, const char *weights);
void store_list_destroy(struct store_list *list);

#endif
