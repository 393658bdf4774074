#include "step/initialise.h"
#include "base/signals.h"
#include "step/upload.h"

enum {
    PIECE = 2 << 20, /* values, so that threads have work for some milliseconds */
    RUN = 2048       /* values that a thread makes at a time: they fit the first cache */
};

/* Values first .. first + to->cols - 1. Each depends on its place alone, so threads may share them in any way. */
static void fill(const struct parameter *parameter, uint64_t seed, int64_t first, const struct tensor *to)
{
    int64_t count = to->cols;
#pragma omp parallel for schedule(static) if (count > RUN)
    for (int64_t begin = 0; begin < count; begin += RUN) {
        double values[RUN];
        int64_t run = count - begin < RUN ? count - begin : RUN;
        parameter_initial_values(parameter, seed, first + begin, run, values);
        for (int64_t i = 0; i < run; i++)
            tensor_put(to, 0, begin + i, values[i]);
    }
}

static void fill_parameter(struct upload *upload, const struct shard *shard, const struct parameter *parameter,
                           uint64_t seed)
{
    int64_t count = parameter->rows * parameter->cols;
    for (int64_t first = 0; first < count; first += PIECE) {
        int64_t piece = count - first < PIECE ? count - first : PIECE;
        struct master to = master_part(&shard->weight, parameter->offset + first - shard->first, piece);
        struct tensor host = tensor_vector(upload_buffer(upload), master_dtype(&to), piece);
        fill(parameter, seed, first, &host);
        upload_put(upload, &to);
    }
}

void engine_initialise(struct engine *e, uint64_t seed)
{
    struct upload upload;
    if (e->executor->class->dry)
        return;
    upload_create(&upload, &e->streams[STREAM_COMPUTE], PIECE * dtype_size(e->settings.memory.statistic));
    for (int u = 0; u < e->model->unit_count && !signals_stopping(); u++) {
        struct unit *unit = &e->model->units[u];
        for (int i = 0; i < unit->parameter_count; i++) {
            const struct parameter *parameter = &unit->parameters[i];
            struct shard shard = e->store->class->shard(e->store, unit, parameter->storage);
            fill_parameter(&upload, &shard, parameter, seed);
        }
    }
    upload_destroy(&upload);
}
