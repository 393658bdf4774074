#include "step/piece.h"
#include "base/error.h"
#include "step/engine.h"

enum dtype piece_dtype(const struct engine *engine)
{
    return engine->settings.memory.statistic;
}

static struct master memory_of(const struct shard *shard, enum piece_kind kind)
{
    return kind == PIECE_WEIGHT ? shard->weight : (struct master){.value = kind == PIECE_M ? shard->m : shard->v};
}

/* Elements of the flat buffer. */
static struct slab cut_of(const struct shard *shard, enum piece_scope scope)
{
    const int64_t count = shard->weight.value.cols;
    if (scope == PIECE_HELD)
        return (struct slab){shard->first, count};
    const int64_t begin = count * shard->holder / shard->holders, end = count * (shard->holder + 1) / shard->holders;
    return (struct slab){shard->first + begin, end - begin};
}

struct visitor {
    int (*visit)(void *self, const struct piece *piece);
    void *self;
};

/* One slab, `memory` its elements on the device, in pieces that fit the staging buffer. */
static int visit_slab(const struct visitor *visitor, struct piece piece, const struct master *memory)
{
    const int64_t most = PIECE_BYTES / dtype_size(master_dtype(memory)), count = piece.slab.count;
    int code = ERROR_NONE;
    for (int64_t done = 0; done < count && code == ERROR_NONE; done += most) {
        piece.slab.count = count - done < most ? count - done : most;
        piece.device = master_part(memory, done, piece.slab.count);
        code = visitor->visit(visitor->self, &piece);
        piece.slab.first += piece.slab.count;
    }
    return code;
}

int piece_visit(struct engine *engine, enum piece_scope scope, int kinds,
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
                struct slab cut = cut_of(&shard, scope);
                struct slab slab = slab_of(p, cut.first, cut.count);
                if (slab.count == 0)
                    continue;
                struct master memory = memory_of(&shard, (enum piece_kind)kind);
                memory = master_part(&memory, p->offset + slab.first - shard.first, slab.count);
                code = visit_slab(&visitor, (struct piece){(enum piece_kind)kind, p, number, slab, memory}, &memory);
            }
        }
    }
    return code;
}

/* -- To the host ------------------------------------------------------------------------------------------------- */

enum { FETCH_THREADS = 4 /* enough for any storage; several ranks of a node share the work besides */ };

struct fetcher {
    struct engine *engine;
    int (*visit)(void *self, const struct piece *piece, const void *content);
    void *self;
    char *staging; /* [FETCH_THREADS * PIECE_BYTES] */
    struct piece pieces[FETCH_THREADS];
    int count; /* whose copies have begun */
};

static int visit_fetched(const struct fetcher *f, int i)
{
    return f->visit(f->self, &f->pieces[i], f->staging + (int64_t)i * PIECE_BYTES);
}

static int visit_all_fetched(struct fetcher *f)
{
    bool failed[FETCH_THREADS] = {false};
    int code = ERROR_NONE;
    engine_synchronize(f->engine);
#pragma omp parallel for schedule(static) num_threads(FETCH_THREADS) if (f->count > 1)
    for (int i = 0; i < f->count; i++) {
        failed[i] = visit_fetched(f, i) != ERROR_NONE;
        if (failed[i])
            error_clear(); /* the message is this thread's */
    }
    for (int i = 0; i < f->count && code == ERROR_NONE; i++)
        if (failed[i])
            code = visit_fetched(f, i);
    f->count = 0;
    return code;
}

static int start_fetch(void *self, const struct piece *piece)
{
    struct fetcher *f = self;
    master_read(&f->engine->streams[STREAM_COMPUTE], &piece->device, f->staging + (int64_t)f->count * PIECE_BYTES);
    f->pieces[f->count++] = *piece;
    return f->count < FETCH_THREADS ? ERROR_NONE : visit_all_fetched(f);
}

int piece_fetch(struct engine *engine, enum piece_scope scope, int kinds,
                int (*visit)(void *self, const struct piece *piece, const void *content), void *self)
{
    struct executor *executor = engine->executor;
    struct fetcher fetcher = {.engine = engine, .visit = visit, .self = self};
    fetcher.staging = executor->class->allocate(executor, (int64_t)FETCH_THREADS * PIECE_BYTES, MEMORY_HOST);
    int code = piece_visit(engine, scope, kinds, start_fetch, &fetcher);
    if (code == ERROR_NONE)
        code = visit_all_fetched(&fetcher);
    executor->class->release(executor, fetcher.staging, MEMORY_HOST);
    return code;
}
