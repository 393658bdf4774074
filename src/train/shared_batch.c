#include "train/shared_batch.h"
#include "base/error.h"

#include <string.h>

/* The middle micro-batch of the step is used, because the first one may have the longest segments (loader/balance.h).
 */
void shared_batch_create(struct batch *batch, struct comm *world, const struct engine *engine, struct loader *loader)
{
    const struct memory_settings *m = &engine->settings.memory;
    struct blend_position position = loader_position(loader);
    const int64_t step = loader_step(loader);
    const struct batch *next = loader_next(loader) + (loader_micro_batches(loader) - 1) / 2;
    batch_create_targets(batch, m->rows, m->row_tokens, m->max_segments, next->numbers);
    CHECK_BUG(batch_bytes(next) == batch_bytes(batch));
    memcpy(batch->tokens, next->tokens, (size_t)batch_bytes(batch));
    batch->number = next->number;
    batch->full = next->full;
    comm_broadcast(world, batch->tokens, batch_bytes(batch), 0);
    comm_broadcast(world, &batch->number, sizeof batch->number, 0);
    comm_broadcast(world, &batch->full, sizeof batch->full, 0);
    loader_seek(loader, &position, step);
    blend_position_destroy(&position);
}
