#include "state/exchange.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/range.h"

#include <string.h>

void exchange_create(struct state_exchange *x, const struct exchange_source *source, char *sent, enum dtype dtype,
                     struct comm *comm)
{
    *x = (struct state_exchange){.comm = comm, .source = *source, .dtype = dtype, .sent = sent};
    x->shares = memory_allocate((int64_t)sizeof *x->shares * comm->size);
    x->received = memory_allocate(PIECE_BYTES);
    x->rows = memory_allocate(PIECE_BYTES);
}

bool exchange_needed(const struct comm *comm, const struct parameter *parameter)
{
    return comm != NULL && comm->size > 1 && parameter->part.cols < parameter->cols;
}

void exchange_destroy(struct state_exchange *x)
{
    memory_free(x->shares);
    memory_free(x->received);
    memory_free(x->rows);
}

/* Returns the rows of the tensor of which the share has all columns of the part. */
static struct rectangle whole_rows(const struct parameter_piece *share)
{
    const struct rectangle *part = &share->parameter->part;
    const struct parameter_slab slab = share->slab;
    const int64_t begin = (slab.first + part->cols - 1) / part->cols, end = (slab.first + slab.count) / part->cols;
    return (struct rectangle){part->row + begin, part->col, end > begin ? end - begin : 0, part->cols};
}

/* Returns the rows that all shares have; none unless the shares are side by side. */
static struct rectangle common_rows(const struct state_exchange *x, const struct parameter *parameter)
{
    int64_t row = 0, end = parameter->rows, col = 0;
    for (int r = 0; r < x->comm->size; r++) {
        const struct rectangle *share = &x->shares[r];
        if (share->col != col)
            return (struct rectangle){0};
        col += share->cols;
        row = MAX(share->row, row);
        end = MIN(share->row + share->rows, end);
    }
    return col == parameter->cols && row < end ? (struct rectangle){row, 0, end - row, col} : (struct rectangle){0};
}

/* Rows of the tensor that one all-to-all exchanges: each rank receives `height` of them, the last ranks fewer or none.
 */
struct turn {
    int64_t row, rows, height;
    int64_t bytes; /* bytes of a message */
};

/* Returns the rows that a rank receives, counted from the turn's first. */
static struct parameter_slab rows_of(const struct turn *turn, int rank)
{
    return slab_common((struct parameter_slab){rank * turn->height, turn->height},
                       (struct parameter_slab){0, turn->rows});
}

static void send_columns(struct state_exchange *x, const struct parameter_piece *share, const struct turn *turn)
{
    const struct rectangle *part = &share->parameter->part;
    for (int r = 0; r < x->comm->size; r++) {
        const struct parameter_slab rows = rows_of(turn, r);
        if (rows.count == 0)
            continue;
        struct parameter_piece piece = piece_part(
            share, (struct parameter_slab){(turn->row + rows.first - part->row) * part->cols, rows.count * part->cols});
        x->source.read(x->source.self, &piece, x->sent + r * turn->bytes);
    }
    x->source.finish(x->source.self);
    comm_all_to_all(x->comm, x->sent, x->received, turn->bytes);
}

/* Joins the received columns of each rank to this rank's rows. */
static void join_columns(struct state_exchange *x, const struct turn *turn, int64_t cols, int64_t width)
{
    const int64_t count = rows_of(turn, x->comm->rank).count;
    for (int r = 0; r < x->comm->size; r++) {
        const struct rectangle *share = &x->shares[r];
        const int64_t bytes = share->cols * width;
        for (int64_t row = 0; row < count; row++)
            memcpy(x->rows + (row * cols + share->col) * width, x->received + r * turn->bytes + row * bytes,
                   (size_t)bytes);
    }
}

struct parameter_slab exchange_rows(struct state_exchange *x, const struct parameter_piece *share, fetch_visit *visit,
                                    void *self, int *code)
{
    const struct parameter *p = share->parameter;
    const struct rectangle own = whole_rows(share);
    const int64_t size = x->comm->size, width = dtype_size(x->dtype);
    comm_all_gather(x->comm, &own, x->shares, sizeof own);
    int64_t widest = 0;
    for (int r = 0; r < size; r++)
        widest = MAX(x->shares[r].cols, widest);
    const struct rectangle all = common_rows(x, p);
    const int64_t height = PIECE_BYTES / (size * widest * width); /* the largest that fits */
    if (all.rows == 0 || height == 0)
        return (struct parameter_slab){share->slab.first, 0};
    for (int64_t done = 0; done < all.rows; done += height * size) {
        const int64_t left = all.rows - done, rows = MIN(left, height * size);
        struct turn turn = {.row = all.row + done, .rows = rows, .height = (rows + size - 1) / size};
        turn.bytes = turn.height * widest * width;
        send_columns(x, share, &turn);
        const struct parameter_slab mine = rows_of(&turn, x->comm->rank);
        if (mine.count == 0 || *code != ERROR_NONE)
            continue;
        join_columns(x, &turn, p->cols, width);
        const struct slab_run run = {(turn.row + mine.first) * p->cols, mine.count * p->cols};
        const struct fetched_elements fetched = {share->kind, p, share->number, x->dtype, run};
        *code = visit(self, &fetched, x->rows);
    }
    return (struct parameter_slab){(all.row - p->part.row) * p->part.cols, all.rows * p->part.cols};
}
