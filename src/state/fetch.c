#include "state/fetch.h"
#include "base/error.h"
#include "base/thread.h"
#include "engine/engine.h"
#include "state/exchange.h"

enum { FETCH_THREADS = 4 /* enough for any storage; several ranks of a node share the work besides */ };

struct fetcher {
    struct engine *engine;
    struct state_exchange *exchange; /* NULL: none */
    fetch_visit *visit;
    void *self;
    char *staging; /* [FETCH_THREADS * PIECE_BYTES] */
    struct parameter_piece pieces[FETCH_THREADS];
    int64_t visited[FETCH_THREADS]; /* elements visited of each piece */
    int count;                      /* pieces whose copies have been launched */
    int code;
};

int fetch_visit_runs(const struct parameter_piece *piece, const char *content, int64_t *visited, fetch_visit *visit,
                     void *self)
{
    const enum dtype dtype = master_dtype(&piece->device);
    while (*visited < piece->slab.count) {
        const struct parameter_slab rest = {piece->slab.first + *visited, piece->slab.count - *visited};
        const struct fetched_elements fetched = {piece->kind, piece->parameter, piece->number, dtype,
                                                 slab_run(piece->parameter, rest)};
        int code = visit(self, &fetched, content + *visited * dtype_size(dtype));
        if (code != ERROR_NONE)
            return code;
        *visited += fetched.run.count;
    }
    return ERROR_NONE;
}

/* Visits the rest of piece i: after a failed call, the next one begins with the same run. */
static int visit_fetched(void *self, int64_t i)
{
    struct fetcher *f = self;
    return fetch_visit_runs(&f->pieces[i], f->staging + i * PIECE_BYTES, &f->visited[i], f->visit, f->self);
}

static int visit_all_fetched(struct fetcher *f)
{
    engine_synchronize(f->engine);
    const int code = thread_each(f->count, FETCH_THREADS, visit_fetched, f);
    f->count = 0;
    return code;
}

static int start_fetch(void *self, const struct parameter_piece *piece)
{
    struct fetcher *f = self;
    master_read(&f->engine->streams[STREAM_COMPUTE], &piece->device, f->staging + (int64_t)f->count * PIECE_BYTES);
    f->visited[f->count] = 0;
    f->pieces[f->count++] = *piece;
    return f->count < FETCH_THREADS ? ERROR_NONE : visit_all_fetched(f);
}

static void fetch_slab(struct fetcher *f, const struct parameter_piece *share, int64_t first, int64_t end)
{
    struct parameter_piece piece = piece_part(share, (struct parameter_slab){first, end - first});
    if (f->code == ERROR_NONE)
        f->code = piece_split(&piece, start_fetch, f);
}

static void read_device(void *self, const struct parameter_piece *piece, char *to)
{
    struct engine *engine = self;
    master_read(&engine->streams[STREAM_COMPUTE], &piece->device, to);
}

static void finish_reading(void *self)
{
    engine_synchronize(self);
}

/* Always continues, because other ranks wait in exchanges. */
static int fetch_share(void *self, const struct parameter_piece *share)
{
    struct fetcher *f = self;
    struct parameter_slab exchanged = {share->slab.first, 0};
    if (f->exchange != NULL && exchange_needed(f->exchange->comm, share->parameter))
        exchanged = exchange_rows(f->exchange, share, f->visit, f->self, &f->code);
    fetch_slab(f, share, share->slab.first, exchanged.first);
    fetch_slab(f, share, exchanged.first + exchanged.count, share->slab.first + share->slab.count);
    return ERROR_NONE;
}

int fetch_shares(struct engine *engine, struct comm *exchange, int kinds, fetch_visit *visit, void *self)
{
    struct executor *executor = engine->executor;
    struct fetcher fetcher = {.engine = engine, .visit = visit, .self = self};
    struct state_exchange exchanger;
    char *sent = NULL;
    if (exchange != NULL) {
        const struct exchange_source device = {engine, read_device, finish_reading};
        sent = executor->class->allocate(executor, PIECE_BYTES, MEMORY_HOST);
        exchange_create(&exchanger, &device, sent, piece_dtype(engine), exchange);
        fetcher.exchange = &exchanger;
    }
    fetcher.staging = executor->class->allocate(executor, (int64_t)FETCH_THREADS * PIECE_BYTES, MEMORY_HOST);
    piece_visit_shares(engine, kinds, fetch_share, &fetcher);
    if (fetcher.code == ERROR_NONE)
        fetcher.code = visit_all_fetched(&fetcher);
    executor->class->release(executor, fetcher.staging, MEMORY_HOST);
    if (exchange != NULL) {
        exchange_destroy(&exchanger);
        executor->class->release(executor, sent, MEMORY_HOST);
    }
    return fetcher.code;
}
