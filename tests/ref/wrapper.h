/* An executor in front of another one whose hook may change launches, for injecting faults. */
#ifndef TESTS_REF_WRAPPER_H
#define TESTS_REF_WRAPPER_H

#include "core/launch.h"

struct wrapper {
    struct executor executor;
    struct executor *inner; /* borrowed */
    /* Called instead of each launch; may launch on inner. */
    void (*hook)(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args);
    void *self; /* for the hook */
};

/* Fills in a wrapper, which does not own anything. */
void wrapper_create(struct wrapper *wrapper, struct executor *inner,
                    void (*hook)(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args),
                    void *self);

/* Launches the op on the inner executor. */
void wrapper_pass(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args);

#endif
