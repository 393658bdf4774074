#include "state/initialise.h"
#include "base/error.h"
#include "base/range.h"
#include "base/signals.h"
#include "state/piece.h"
#include "state/upload.h"

enum { MOST = 2048 /* values that a thread computes at a time: they fit the L1 cache */ };

struct initialiser {
    struct device_upload upload;
    uint64_t seed;
};

/* Writes the slab's initial values to `to` [1, slab.count]. */
static void fill_slab(const struct parameter *parameter, uint64_t seed, struct parameter_slab slab,
                      const struct tensor *to)
{
    for (int64_t done = 0; done < slab.count;) {
        struct slab_run run = slab_run(parameter, (struct parameter_slab){slab.first + done, slab.count - done});
        void *at = tensor_at(to, 0, done);
        if (to->dtype == DTYPE_F64)
            parameter_initial_values(parameter, seed, run.first, run.count, at);
        else
            parameter_initial_floats(parameter, seed, run.first, run.count, at);
        done += run.count;
    }
}

/* Each value depends only on its position, so threads may divide the values in any way. */
static void fill(const struct parameter *parameter, uint64_t seed, struct parameter_slab slab, const struct tensor *to)
{
#pragma omp parallel for schedule(dynamic) if (slab.count > MOST)
    for (int64_t begin = 0; begin < slab.count; begin += MOST) {
        const int64_t count = MIN(slab.count - begin, MOST);
        const struct tensor part = tensor_columns(to, begin, count);
        fill_slab(parameter, seed, (struct parameter_slab){slab.first + begin, count}, &part);
    }
}

static int fill_piece(void *self, const struct parameter_piece *piece)
{
    struct initialiser *own = self;
    struct tensor host = tensor_vector(upload_buffer(&own->upload), master_dtype(&piece->device), piece->slab.count);
    fill(piece->parameter, own->seed, piece->slab, &host);
    upload_put(&own->upload, &piece->device);
    return signals_stopping() ? ERROR_REQUEUE : ERROR_NONE;
}

void engine_initialise(struct engine *e, uint64_t seed)
{
    struct initialiser own = {.seed = seed};
    if (e->executor->class->dry)
        return;
    upload_create(&own.upload, &e->streams[STREAM_COMPUTE], PIECE_BYTES);
    piece_visit(e, PIECE_WEIGHT + 1, fill_piece, &own);
    upload_destroy(&own.upload);
    engine_weights_written(e);
}
