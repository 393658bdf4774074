/* Where the device's time goes: while a profile is on, the door takes the time of every launch where it runs, on its
 * stream, and adds up those of one shape. Executors that cannot tell such times (core/executor.h) are timed by the
 * host's clock, which is right where launches are synchronous. */
#ifndef CORE_PROFILE_H
#define CORE_PROFILE_H

#include "core/executor.h"

/* All launches of an op on tensors of one shape. */
struct profile_row {
    enum op op;
    int64_t rows, cols;   /* of the largest tensor that it writes */
    int64_t flops, bytes; /* of one launch: op_flops, op_bytes */
    int64_t calls;
    double seconds; /* of all calls */
};

/* From here on launches are timed; what another profile has found is dropped. Tools that watch the program
 * (cudaProfilerStart) are told. */
void profile_start(struct executor *executor);
/* Waits for what has been launched, and ends it: the rows, by falling time; they stay until the next start. */
const struct profile_row *profile_stop(int *count);

bool profile_running(void);

/* The door's part: begins the timing of a launch, and returns what ends it; -1 when there is no profile. */
int64_t profile_enter(struct stream *stream, enum op op, const void *args);
void profile_leave(struct stream *stream, int64_t entry);

#endif
