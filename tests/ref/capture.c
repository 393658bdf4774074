#include "ref/capture.h"

#include "base/error.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

struct capture_mark {
    const struct event *event;
    uint64_t serial;
    int64_t number; /* of the capture */
    int64_t reached[STREAM_COUNT];
};

static struct capture_mark *find(struct capture *capture, const struct event *event)
{
    for (int i = 0; i < capture->count; i++)
        if (capture->marks[i].event == event)
            return &capture->marks[i];
    return NULL;
}

void capture_opens(struct capture *capture, int stream)
{
    capture->open = true;
    capture->origin = stream;
    capture->number++;
    memset(capture->joined, 0, sizeof capture->joined);
    memset(capture->reached, 0, sizeof capture->reached);
    capture->joined[stream] = true;
}

void capture_closes(struct capture *capture)
{
    capture->open = false;
    for (int s = 0; s < STREAM_COUNT; s++)
        if (capture->reached[capture->origin][s] < capture->reached[s][s])
            error_fatal("recording: what stream %d launched is not waited for by stream %d, with which it began", s,
                        capture->origin);
}

void capture_launches(struct capture *capture, int stream)
{
    if (!capture->open)
        return;
    if (!capture->joined[stream])
        error_fatal("recording: stream %d launches, but has waited for no event of it", stream);
    capture->reached[stream][stream]++;
}

void capture_records(struct capture *capture, const struct event *event, int stream)
{
    struct capture_mark *mark = find(capture, event);
    if (!capture->open || !capture->joined[stream]) {
        if (mark != NULL)
            *mark = capture->marks[--capture->count];
        return;
    }
    if (mark == NULL) {
        if (capture->count == capture->capacity) {
            capture->capacity = capture->capacity ? 2 * capture->capacity : 64;
            capture->marks = memory_grow(capture->marks, (int64_t)sizeof *capture->marks * capture->capacity);
        }
        mark = &capture->marks[capture->count++];
    }
    *mark = (struct capture_mark){.event = event, .serial = event->serial, .number = capture->number};
    memcpy(mark->reached, capture->reached[stream], sizeof mark->reached);
}

void capture_waits(struct capture *capture, const struct event *event, int stream)
{
    const struct capture_mark *mark = find(capture, event);
    if (mark != NULL && mark->serial != event->serial)
        mark = NULL;
    const bool within = mark != NULL && capture->open && mark->number == capture->number;
    if (mark != NULL && !within)
        error_fatal("recording: stream %d waits for an event of another recording", stream);
    if (mark == NULL && capture->open && capture->joined[stream])
        error_fatal("recording: stream %d waits in it for an event that is not of it", stream);
    if (!within)
        return;
    capture->joined[stream] = true;
    for (int s = 0; s < STREAM_COUNT; s++)
        if (capture->reached[stream][s] < mark->reached[s])
            capture->reached[stream][s] = mark->reached[s];
}

void capture_destroy(struct capture *capture)
{
    free(capture->marks);
}
