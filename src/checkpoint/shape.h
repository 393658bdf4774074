/* Formats a tensor's shape for messages. */
#ifndef CHECKPOINT_SHAPE_H
#define CHECKPOINT_SHAPE_H

#include <stdint.h>

enum { SHAPE_TEXT = 256 /* up to 8 dimensions */ };

/* Writes "[3, 5]" to out ("[]" for no dimensions), and returns out. */
const char *shape_text(char out[SHAPE_TEXT], const int64_t *shape, int dims);

#endif
