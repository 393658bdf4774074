#include "estimate/timed.h"
#include "base/clock.h"

double timed_launches(struct stream *stream, enum op op, const void *args, int64_t times)
{
    const struct executor *executor = stream->executor;
    stream_synchronize(stream);
    const double start = clock_seconds();
    if (executor->profiling != NULL)
        executor->profiling->stamp(executor->owner, stream, 0);
    for (int64_t i = 0; i < times; i++)
        launch(stream, op, args);
    if (executor->profiling != NULL)
        executor->profiling->stamp(executor->owner, stream, 1);
    stream_synchronize(stream);
    return executor->profiling != NULL ? executor->profiling->stamp_seconds(executor->owner, 0, 1)
                                       : clock_seconds() - start;
}
