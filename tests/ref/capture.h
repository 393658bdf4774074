/* What CUDA asks of a recording (CUDA C++ Programming Guide, "Stream Capture"), for an executor of tests: a stream is
 * part of it once it has waited for an event that was recorded in it, and all that is launched on it must be waited for
 * by the stream with which it began; events of a recording mean nothing outside it, nor others within. Breaking a rule
 * is fatal and named. */
#ifndef TESTS_REF_CAPTURE_H
#define TESTS_REF_CAPTURE_H

#include "core/executor.h"

struct capture_mark;

/* Zeros: no recording yet. */
struct capture {
    bool open;
    int origin;                                  /* stream */
    bool joined[STREAM_COUNT];                   /* streams that are part of it */
    int64_t reached[STREAM_COUNT][STREAM_COUNT]; /* [a][b]: of b's launches, how many a stands behind */
    int64_t number;                              /* of this recording */
    struct capture_mark *marks;                  /* events that were recorded in this recording or one before */
    int count, capacity;
};

void capture_opens(struct capture *capture, int stream);
void capture_closes(struct capture *capture);
/* Of streams in and outside a recording. */
void capture_launches(struct capture *capture, int stream);
void capture_records(struct capture *capture, const struct event *event, int stream);
void capture_waits(struct capture *capture, const struct event *event, int stream);
/* Frees what it owns. */
void capture_destroy(struct capture *capture);

#endif
