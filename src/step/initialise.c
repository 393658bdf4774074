#include "step/initialise.h"
#include "base/error.h"
#include "base/signals.h"
#include "step/piece.h"
#include "step/upload.h"

enum { RUN = 2048 /* values that a thread makes at a time: they fit the first cache */ };

struct initialiser {
    struct upload upload;
    uint64_t seed;
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

static int fill_piece(void *self, const struct piece *piece)
{
    struct initialiser *own = self;
    struct tensor host = tensor_vector(upload_buffer(&own->upload), master_dtype(&piece->device), piece->slab.count);
    fill(piece->parameter, own->seed, piece->slab.first, &host);
    upload_put(&own->upload, &piece->device);
    return signals_stopping() ? ERROR_REQUEUE : ERROR_NONE;
}

void engine_initialise(struct engine *e, uint64_t seed)
{
    struct initialiser own = {.seed = seed};
    if (e->executor->class->dry)
        return;
    upload_create(&own.upload, &e->streams[STREAM_COMPUTE], PIECE_BYTES);
    piece_visit(e, PIECE_HELD, PIECE_WEIGHT + 1, fill_piece, &own);
    upload_destroy(&own.upload);
    engine_weights_written(e);
}
