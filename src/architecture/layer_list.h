/* Lists of layers, as written in decks: "2-5,9". */
#ifndef ARCHITECTURE_LAYER_LIST_H
#define ARCHITECTURE_LAYER_LIST_H

#include <stdbool.h>
#include <stdint.h>

/* Layers 0, 1, ... as ranges; count 0: none. */
enum { LAYER_RANGES = 32 };
struct layer_list {
    int count;
    struct {
        int first, last;
    } ranges[LAYER_RANGES];
};

bool layer_list_has(const struct layer_list *list, int layer);

/* Reads a number or a range ("9", "2-5") with blanks around it, and moves *at to the text after it; returns false if
 * there is none. Numbers too large for any model stay too large. */
bool layer_range_read(const char **at, int64_t *first, int64_t *last);

#endif
