#include "ref/wrapper.h"

static struct executor *inner_of(struct executor *executor)
{
    return ((struct wrapper *)executor)->inner;
}

static void wrapper_launch(struct executor *executor, struct stream *stream, enum op op, const void *args)
{
    struct wrapper *wrapper = (struct wrapper *)executor;
    wrapper->hook(wrapper, stream, op, args);
}

static void *wrapper_allocate(struct executor *executor, int64_t bytes, enum memory_kind kind)
{
    return inner_of(executor)->class->allocate(inner_of(executor), bytes, kind);
}

static void wrapper_release(struct executor *executor, void *memory, enum memory_kind kind)
{
    inner_of(executor)->class->release(inner_of(executor), memory, kind);
}

static struct stream inner_stream(struct executor *executor, const struct stream *stream)
{
    return (struct stream){inner_of(executor), stream->id, stream->native};
}

static void wrapper_event_record(struct executor *executor, struct event *event, struct stream *stream)
{
    struct stream inner = inner_stream(executor, stream);
    inner_of(executor)->class->event_record(inner_of(executor), event, &inner);
}

static void wrapper_event_wait(struct executor *executor, struct event *event, struct stream *stream)
{
    struct stream inner = inner_stream(executor, stream);
    inner_of(executor)->class->event_wait(inner_of(executor), event, &inner);
}

static bool wrapper_event_passed(struct executor *executor, struct event *event, bool wait)
{
    return event_passed(event, inner_of(executor), wait);
}

static void wrapper_synchronize(struct executor *executor, struct stream *stream)
{
    struct stream inner = inner_stream(executor, stream);
    stream_synchronize(&inner);
}

static int64_t wrapper_workspace(struct executor *executor, enum op op, const void *args)
{
    return inner_of(executor)->class->workspace(inner_of(executor), op, args);
}

static void wrapper_reserve(struct executor *executor, int stream, int64_t bytes)
{
    inner_of(executor)->class->reserve(inner_of(executor), stream, bytes);
}

static void wrapper_destroy(struct executor *executor)
{
    (void)executor;
}

static const struct executor_class wrapper_class = {
    .name = "wrapper",
    .launch = wrapper_launch,
    .allocate = wrapper_allocate,
    .release = wrapper_release,
    .event_record = wrapper_event_record,
    .event_wait = wrapper_event_wait,
    .event_passed = wrapper_event_passed,
    .synchronize = wrapper_synchronize,
    .workspace = wrapper_workspace,
    .reserve = wrapper_reserve,
    .destroy = wrapper_destroy,
};

void wrapper_create(struct wrapper *wrapper, struct executor *inner,
                    void (*hook)(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args),
                    void *self)
{
    *wrapper = (struct wrapper){*inner, inner, hook, self};
    wrapper->executor.class = &wrapper_class;
}

void wrapper_pass(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args)
{
    struct stream inner = inner_stream(&wrapper->executor, stream);
    wrapper->inner->class->launch(wrapper->inner, &inner, op, args);
}
