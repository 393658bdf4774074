/* An executor in front of another that may change what is launched: for planting faults at the door. */
#ifndef TESTS_REF_WRAPPER_H
#define TESTS_REF_WRAPPER_H

#include "core/launch.h"

struct wrapper {
    struct executor executor;
    struct executor *inner; /* borrowed */
    /* Launches on inner, or does not. */
    void (*hook)(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args);
    void *self; /* the hook's */
};

/* Fills a wrapper; nothing to free. */
void wrapper_create(struct wrapper *wrapper, struct executor *inner,
                    void (*hook)(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args),
                    void *self);

/* Launches on the inner executor. */
void wrapper_pass(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args);

#endif
