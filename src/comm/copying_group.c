#include "comm/copying_group.h"
#include "base/memory.h"

enum { TENSORS = TRANSFER_DIRECTIONS /* at most, in one collective */ };

struct copying_group {
    struct group group;
    struct group *host; /* runs the collectives */
    struct executor *executor;
    void *memory[TENSORS]; /* host buffers, one for each tensor of a collective */
    int64_t bytes[TENSORS];
};

/* Returns a tensor in host memory with the shape of `device`. */
static struct tensor in_host(struct copying_group *own, int field, const struct tensor *device)
{
    const struct executor_class *class = own->executor->class;
    int64_t bytes = tensor_count(device) * dtype_size(device->dtype);
    if (bytes > own->bytes[field]) {
        class->release(own->executor, own->memory[field], MEMORY_HOST);
        own->memory[field] = class->allocate(own->executor, bytes, MEMORY_HOST);
        own->bytes[field] = bytes;
    }
    return tensor_matrix(own->memory[field], device->dtype, device->rows, device->cols);
}

/* Copies without launch(): the flight recorder has the whole collective. */
static void copy(struct stream *stream, struct tensor from, struct tensor to)
{
    stream->executor->class->launch(stream->executor, stream, OP_COPY, &(struct copy_args){.from = from, .to = to});
}

/* Runs a collective through host memory; overwrites the tensors in args. */
static void run(struct copying_group *own, struct stream *stream, enum op op, void *args)
{
    const struct op_info *info = op_info(op);
    struct tensor device[TENSORS];
    for (int i = 0; i < info->field_count; i++) {
        struct tensor *tensor = (struct tensor *)((char *)args + info->fields[i].offset);
        device[i] = *tensor;
        if (!tensor_present(tensor))
            continue;
        *tensor = in_host(own, i, tensor);
        if (op_field_access(op, args, i) & OP_READ)
            copy(stream, device[i], *tensor);
    }
    stream_synchronize(stream);
    launch_collective(stream, op, args);
    for (int i = 0; i < info->field_count; i++)
        if (tensor_present(&device[i]) && (op_field_access(op, args, i) & OP_WRITE))
            copy(stream, *op_tensor(op, args, i), device[i]);
    stream_synchronize(stream); /* the next collective uses the same memory */
}

#define X(NAME, name)                                                                                                  \
    static void copying_##name(struct group *group, struct stream *stream, const struct name##_args *args)             \
    {                                                                                                                  \
        struct copying_group *own = group->self;                                                                       \
        struct name##_args moved = *args;                                                                              \
        moved.group = own->host;                                                                                       \
        run(own, stream, OP_##NAME, &moved);                                                                           \
    }
OP_COLLECTIVE_TABLE(X)
#undef X

static void copying_destroy(struct group *group)
{
    struct copying_group *own = group->self;
    for (int i = 0; i < TENSORS; i++)
        own->executor->class->release(own->executor, own->memory[i], MEMORY_HOST);
    comm_group_destroy(own->host);
    memory_free(own);
}

static const struct group_class copying_class = {.name = "copying",
                                                 .waits = true,
#define X(NAME, name) .name = copying_##name,
                                                 OP_COLLECTIVE_TABLE(X)
#undef X
                                                     .destroy = copying_destroy};

struct group *copying_group_create(struct comm *comm, struct executor *executor, const char *name)
{
    struct copying_group *own = memory_allocate(sizeof *own);
    own->group =
        (struct group){.name = name, .rank = comm->rank, .size = comm->size, .class = &copying_class, .self = own};
    own->host = comm_group_create(comm, NULL, name);
    own->executor = executor;
    return &own->group;
}
