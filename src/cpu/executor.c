#include "cpu/cpu.h"
#include "cpu/kernel.h"

#include "base/error.h"
#include "base/memory.h"

#include <stdlib.h>
#include <sys/mman.h>

static int64_t workspace(struct executor *executor, enum op op, const void *args)
{
    const struct cpu *cpu = (const struct cpu *)executor;
    switch (op) {
#define X(NAME, name)                                                                                                  \
    case OP_##NAME:                                                                                                    \
        return cpu_##name##_workspace(cpu, args);
        CPU_WORKSPACE_TABLE(X)
#undef X
    default:
        return 0;
    }
}

static void run(struct executor *executor, struct stream *stream, enum op op, const void *args)
{
    struct cpu *cpu = (struct cpu *)executor;
    int64_t scratch = workspace(executor, op, args);
    if (scratch > executor->workspace_bytes[stream->id])
        error_fatal("cpu executor: %s needs %lld bytes of workspace, %lld are reserved on stream %d", op_info(op)->name,
                    (long long)scratch, (long long)executor->workspace_bytes[stream->id], stream->id);
    switch (op) {
#define X(NAME, name)                                                                                                  \
    case OP_##NAME:                                                                                                    \
        cpu_##name(cpu, args);                                                                                         \
        return;
        OP_DEVICE_TABLE(X)
#undef X
    default:
        launch_collective(stream, op, args);
    }
}

/* Blocks are whole pages, so they are aligned to more than is promised; they are zero, and count only once they are
 * touched. A page in front of each block stores its size. */
enum { PAGE = 4096 };

static void *allocate_pages(int64_t bytes)
{
    size_t size = (size_t)bytes + PAGE;
    char *block = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED)
        error_fatal("out of memory: %lld bytes requested", (long long)bytes);
    memcpy(block, &size, sizeof size);
    return block + PAGE;
}

static void release_pages(void *memory)
{
    if (memory == NULL)
        return;
    char *block = (char *)memory - PAGE;
    size_t size;
    memcpy(&size, block, sizeof size);
    munmap(block, size);
}

static void *allocate(struct executor *executor, int64_t bytes, enum memory_kind kind)
{
    (void)executor;
    if (kind == MEMORY_HOST)
        return memory_allocate(bytes);
    return bytes > 0 ? allocate_pages(bytes) : NULL;
}

static void release(struct executor *executor, void *memory, enum memory_kind kind)
{
    (void)executor;
    if (kind == MEMORY_HOST)
        memory_free(memory);
    else
        release_pages(memory);
}

static void reserve(struct executor *executor, int stream, int64_t bytes)
{
    struct cpu *cpu = (struct cpu *)executor;
    if (bytes > executor->workspace_bytes[stream])
        executor->workspace_bytes[stream] = bytes;
    if (bytes <= cpu->workspace_bytes)
        return;
    release_pages(cpu->workspace);
    cpu->workspace = allocate_pages(bytes);
    cpu->workspace_bytes = bytes;
}

/* Launches are synchronous, so streams have nothing to wait for. */
static void no_event(struct executor *executor, struct event *event, struct stream *stream)
{
    (void)executor;
    (void)event;
    (void)stream;
}

static void no_wait(struct executor *executor, struct stream *stream)
{
    (void)executor;
    (void)stream;
}

static void destroy(struct executor *executor)
{
    struct cpu *cpu = (struct cpu *)executor;
    release_pages(cpu->workspace);
    memory_free(cpu);
}

struct executor *cpu_executor_create(int threads)
{
    static const struct executor_class class = {
        .name = "cpu",
        .launch = run,
        .allocate = allocate,
        .release = release,
        .event_record = no_event,
        .event_wait = no_event,
        .synchronize = no_wait,
        .workspace = workspace,
        .reserve = reserve,
        .destroy = destroy,
    };
    struct cpu *cpu = memory_allocate(sizeof *cpu);
    cpu->executor.class = &class;
    cpu->executor.owner = &cpu->executor;
    cpu->threads = threads;
    return &cpu->executor;
}

int cpu_executor_make(struct executor **executor, const struct device_request *request)
{
    *executor = cpu_executor_create(request->threads);
    return ERROR_NONE;
}
