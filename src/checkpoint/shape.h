/* A tensor's shape as messages show it. */
#ifndef CHECKPOINT_SHAPE_H
#define CHECKPOINT_SHAPE_H

#include <stdint.h>

enum { SHAPE_TEXT = 256 /* up to 8 dimensions */ };

/* "[3, 5]", in out; "[]" without dimensions. */
const char *shape_text(char out[SHAPE_TEXT], const int64_t *shape, int dims);

#endif
