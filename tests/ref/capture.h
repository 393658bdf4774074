/* Checks the rules of stream capture (CUDA C++ Programming Guide, "Stream Capture"), for an executor of the tests. A
 * stream joins a capture by waiting for an event recorded in it, and the stream that began the capture must wait for
 * all launches of the joined streams. Events of a capture must not be used outside, nor other events inside. Breaking a
 * rule is a fatal error that names it. */
#ifndef TESTS_REF_CAPTURE_H
#define TESTS_REF_CAPTURE_H

#include "core/executor.h"

struct capture_mark;

/* State of a capture; zero = none yet. */
struct capture {
    bool open;
    int origin;                                  /* stream that began the capture */
    bool joined[STREAM_COUNT];                   /* streams that take part */
    int64_t reached[STREAM_COUNT][STREAM_COUNT]; /* [a][b]: number of b's launches for which a has waited */
    int64_t number;                              /* number of this capture */
    struct capture_mark *marks;                  /* events recorded in this capture or an earlier one */
    int count, capacity;
};

void capture_opens(struct capture *capture, int stream);
void capture_closes(struct capture *capture);
/* Note a launch, a recorded event or a wait on a stream, inside or outside a capture. */
void capture_launches(struct capture *capture, int stream);
void capture_records(struct capture *capture, const struct event *event, int stream);
void capture_waits(struct capture *capture, const struct event *event, int stream);
/* Frees what the struct owns. */
void capture_destroy(struct capture *capture);

#endif
