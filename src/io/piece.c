#include "io/piece.h"
#include "base/error.h"
#include "comm/comm.h"
#include "step/engine.h"

enum dtype piece_dtype(const struct engine *engine)
{
    return engine->settings.memory.statistic;
}

static struct tensor memory_of(const struct shard *shard, enum piece_kind kind)
{
    return kind == PIECE_WEIGHT ? shard->weight : kind == PIECE_M ? shard->m : shard->v;
}

/* The part of the flat buffer, in elements of it, that is this rank's to hand on. */
static struct slab cut_of(const struct shard *shard, int64_t elements, const struct comm *sharers)
{
    int64_t count = shard->weight.cols;
    if (sharers == NULL || count < elements)
        return (struct slab){shard->first, count};
    int64_t begin = elements * sharers->rank / sharers->size;
    return (struct slab){begin, elements * (sharers->rank + 1) / sharers->size - begin};
}

struct visitor {
    int (*visit)(void *self, const struct piece *piece);
    void *self;
};

/* One slab, `memory` its elements on the device, in pieces that fit the staging buffer. */
static int visit_slab(const struct visitor *visitor, struct piece piece, struct tensor memory)
{
    const int64_t most = PIECE_BYTES / dtype_size(memory.dtype), count = piece.slab.count;
    int code = ERROR_NONE;
    for (int64_t done = 0; done < count && code == ERROR_NONE; done += most) {
        piece.slab.count = count - done < most ? count - done : most;
        piece.device = tensor_columns(&memory, done, piece.slab.count);
        code = visitor->visit(visitor->self, &piece);
        piece.slab.first += piece.slab.count;
    }
    return code;
}

int piece_visit(struct engine *engine, const struct comm *sharers, int kinds,
                int (*visit)(void *self, const struct piece *piece), void *self)
{
    const struct model *model = engine->model;
    const struct visitor visitor = {visit, self};
    struct store *store = engine->store;
    int code = ERROR_NONE;
    for (int kind = 0; kind < kinds; kind++) {
        int number = 0;
        for (int u = 0; u < model->unit_count; u++) {
            struct unit *unit = &model->units[u];
            for (int i = 0; i < unit->parameter_count && code == ERROR_NONE; i++, number++) {
                const struct parameter *p = &unit->parameters[i];
                struct shard shard = store->class->shard(store, unit, p->storage);
                struct slab cut = cut_of(&shard, unit->elements[p->storage], sharers);
                struct slab slab = slab_of(p, cut.first, cut.count);
                if (slab.count == 0)
                    continue;
                struct tensor memory = memory_of(&shard, (enum piece_kind)kind);
                memory = tensor_columns(&memory, p->offset + slab.first - shard.first, slab.count);
                code = visit_slab(&visitor, (struct piece){(enum piece_kind)kind, p, number, slab, memory}, memory);
            }
        }
    }
    return code;
}

void piece_fetch(struct engine *engine, const struct piece *piece, void *host)
{
    LAUNCH(&engine->streams[STREAM_COMPUTE], COPY, copy, .from = piece->device,
           .to = tensor_vector(host, piece->device.dtype, piece->slab.count));
    engine_synchronize(engine);
}

void piece_put(struct engine *engine, const struct piece *piece, void *host)
{
    LAUNCH(&engine->streams[STREAM_COMPUTE], COPY, copy,
           .from = tensor_vector(host, piece->device.dtype, piece->slab.count), .to = piece->device);
    engine_synchronize(engine);
}
