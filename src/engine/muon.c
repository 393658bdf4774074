#include "engine/muon.h"
#include "base/memory.h"
#include "base/range.h"

#include <math.h>

/* The polynomial a x + b x^3 + c x^5, and the smallest norm that a matrix is divided by: those of torch.optim.Muon. */
static const double a = 3.4445, b = -4.7750, c = 2.0315, eps = 1e-7;

double muon_adjust(enum deck_adjust_lr adjustment, int64_t rows, int64_t cols)
{
    const double ratio = (double)rows / (double)cols;
    switch (adjustment) {
    case DECK_ADJUST_MATCH_RMS_ADAMW:
        return 0.2 * sqrt((double)MAX(rows, cols));
    case DECK_ADJUST_SPECTRAL_UNCLAMPED:
        return sqrt(ratio);
    default:
        return sqrt(fmax(1, ratio));
    }
}

/* -- Memory -------------------------------------------------------------------------------------------------------- */

/* Allocates `count` elements; group: as in budget_allocate_gathered. */
static struct tensor vector(const struct muon *muon, struct budget *budget, int64_t count,
                            enum budget_category category, struct group *group)
{
    const int64_t bytes = count * dtype_size(muon->compute);
    return tensor_vector(budget_allocate_gathered(budget, bytes, category, group), muon->compute, count);
}

/* Returns whether the parameter is a matrix of which this rank has at least a part. */
static bool is_matrix(const struct parameter *p)
{
    return p->storage == STORAGE_MATRIX && p->part.rows > 0;
}

/* Returns the elements at the start of the unit's flat buffer that contain all matrices that are not on one tensor rank
 * alone. Matrices of experts come after them. */
static int64_t split_elements(const struct unit *unit)
{
    int64_t end = 0;
    for (int i = 0; i < unit->parameter_count; i++) {
        const struct parameter *p = &unit->parameters[i];
        if (is_matrix(p) && !parameter_on_one_rank(p))
            end = MAX(end, p->offset + p->part.rows * p->part.cols);
    }
    return unit_aligned(end);
}

/* Returns the multiply-adds of an iteration, but for a factor that hardly depends on the shape. */
static double cost_of(const struct parameter *p)
{
    return (double)p->rows * (double)p->cols * (double)MIN(p->rows, p->cols);
}

/* Returns the matrix of a unit with the most work among those without an owner (-1); NULL: all have one. */
static const struct parameter *next_matrix(const struct unit *unit, const int *owner)
{
    const struct parameter *next = NULL;
    for (int i = 0; i < unit->parameter_count; i++) {
        const struct parameter *p = &unit->parameters[i];
        if (is_matrix(p) && owner[i] < 0 && (next == NULL || cost_of(p) > cost_of(next)))
            next = p;
    }
    return next;
}

/* Load balancing: the largest matrix left goes to the rank with the least work, of equal ones to the first. So the
 * first rank, at which estimates look, has about the most. */
static void assign_owners(const struct unit *unit, int *owner, double *work, int ranks)
{
    for (int i = 0; i < unit->parameter_count; i++)
        owner[i] = -1;
    for (int r = 0; r < ranks; r++)
        work[r] = 0;
    for (const struct parameter *p; (p = next_matrix(unit, owner)) != NULL;) {
        int least = 0;
        for (int r = 1; r < ranks; r++)
            if (work[r] < work[least])
                least = r;
        owner[p - unit->parameters] = least;
        work[least] += cost_of(p);
    }
}

static void create_owners(struct muon *muon, const struct model *model)
{
    const int ranks = group_size(muon->owners);
    double *work = memory_allocate(ranks * (int64_t)sizeof *work);
    for (int u = 0; u < model->unit_count; u++)
        muon->parameters = MAX(muon->parameters, model->units[u].parameter_count);
    muon->owner = memory_allocate((int64_t)model->unit_count * muon->parameters * (int64_t)sizeof *muon->owner);
    for (int u = 0; u < model->unit_count; u++)
        assign_owners(&model->units[u], muon->owner + (int64_t)u * muon->parameters, work, ranks);
    memory_free(work);
}

void muon_destroy(struct muon *muon)
{
    memory_free(muon->owner);
}

void muon_create(struct muon *muon, const struct muon_request *request)
{
    int64_t flat = 0, split = 0, most = 0, side = 0;
    *muon = (struct muon){.settings = *request->settings,
                          .tensor = group_size(request->tensor) > 1 ? request->tensor : NULL,
                          .owners = group_size(request->owners) > 1 ? request->owners : NULL,
                          .compute = request->compute};
    for (int u = 0; u < request->model->unit_count; u++) {
        const struct unit *unit = &request->model->units[u];
        const int64_t elements = request->store->class->flat_elements(request->store, unit);
        if (!unit->muon || elements == 0)
            continue;
        flat = MAX(flat, elements);
        split = MAX(split, split_elements(unit));
        for (int i = 0; i < unit->parameter_count; i++) {
            const struct parameter *p = &unit->parameters[i];
            if (is_matrix(p))
                most = MAX(most, p->rows * p->cols), side = MAX(side, MIN(p->rows, p->cols));
        }
    }
    if (flat == 0)
        return;
    create_owners(muon, request->model);
    muon->flat = vector(muon, request->budget, flat, BUDGET_EXCHANGE, request->shards);
    if (muon->tensor != NULL)
        muon->parts = vector(muon, request->budget, muon->tensor->size * split, BUDGET_EXCHANGE, NULL);
    for (int i = 0; i < MUON_ITERATES; i++)
        muon->x[i] = vector(muon, request->budget, most, BUDGET_TRANSIENT, NULL);
    for (int i = 0; i < MUON_SQUARES; i++)
        muon->square[i] = vector(muon, request->budget, side * side, BUDGET_TRANSIENT, NULL);
    muon->sum = tensor_vector(budget_allocate(request->budget, dtype_size(DTYPE_F64), BUDGET_TRANSIENT), DTYPE_F64, 1);
}

/* Returns a matrix in the memory of a vector that is as long or longer. */
static struct tensor matrix(const struct tensor *memory, int64_t rows, int64_t cols)
{
    return tensor_matrix(memory->data, memory->dtype, rows, cols);
}

/* -- Orthogonalization --------------------------------------------------------------------------------------------- */

/* One step of the iteration: to = a x + b A x + c A^2 x with A = x x', or the same from the right with A = x' x if x
 * has more rows than columns. Both are the polynomial of x's singular values. */
static void iterate(const struct muon *muon, struct stream *stream, struct tensor x, struct tensor to)
{
    const bool tall = x.rows > x.cols;
    const int64_t side = MIN(x.rows, x.cols);
    const struct tensor gram = matrix(&muon->square[0], side, side), scaled = matrix(&muon->square[1], side, side),
                        factor = matrix(&muon->square[2], side, side);
    LAUNCH(stream, GEMM, gemm, .a = x, .b = x, .d = gram, .transpose_a = tall, .transpose_b = !tall);
    LAUNCH(stream, AFFINE, affine, .from = gram, .to = scaled, .factor = c, .diagonal = b);
    LAUNCH(stream, GEMM, gemm, .a = gram, .b = scaled, .d = factor);
    LAUNCH(stream, AFFINE, affine, .from = factor, .to = factor, .factor = 1, .diagonal = a);
    LAUNCH(stream, GEMM, gemm, .a = tall ? x : factor, .b = tall ? factor : x, .d = to);
}

/* Orthogonalizes a matrix, a view of any memory but muon->x[0]; returns the result, in muon->x. */
static struct tensor orthogonalize(struct muon *muon, struct stream *stream, struct tensor whole)
{
    struct tensor x = matrix(&muon->x[0], whole.rows, whole.cols), next = matrix(&muon->x[1], whole.rows, whole.cols);
    LAUNCH(stream, SUM_SQUARES, sum_squares, .x = whole, .sum = muon->sum);
    LAUNCH(stream, AFFINE, affine, .from = whole, .squares = muon->sum, .to = x, .factor = 1, .eps = eps);
    for (int i = 0; i < muon->settings.steps; i++) {
        iterate(muon, stream, x, next);
        const struct tensor made = next;
        next = x;
        x = made;
    }
    return x;
}

/* -- Matrices and parts of tensor ranks ---------------------------------------------------------------------------- */

/* Copies between a whole matrix and a tensor rank's part of it, which is contiguous from `part` on, in pieces of rows
 * that are consecutive in the whole matrix. */
static void copy_part(struct stream *stream, const struct parameter *p, struct rectangle place, struct tensor whole,
                      struct tensor part, bool to_whole)
{
    for (int64_t row = 0; row < place.rows; row += p->height) {
        const struct tensor rows = tensor_rows(&whole, place.row + row / p->height * p->apart, p->height);
        const struct tensor inside = tensor_columns(&rows, place.col, place.cols);
        const struct tensor piece = tensor_rows(&part, row, p->height);
        LAUNCH(stream, COPY, copy, .from = to_whole ? piece : inside, .to = to_whole ? inside : piece);
    }
}

/* Returns a tensor rank's part of a parameter in a flat buffer. */
static struct tensor part_in(const struct tensor *flat, const struct parameter *p)
{
    const struct tensor part = tensor_columns(flat, p->offset, p->part.rows * p->part.cols);
    return matrix(&part, p->part.rows, p->part.cols);
}

/* Returns the whole momentum of a parameter: a view of `flat`, or assembled in muon->x[1] from the tensor ranks' parts,
 * of `split` elements each. */
static struct tensor assemble(const struct muon *muon, struct stream *stream, const struct parameter *p,
                              const struct tensor *flat, int64_t split)
{
    const struct tensor whole = matrix(&muon->x[1], p->rows, p->cols);
    if (parameter_on_one_rank(p))
        return part_in(flat, p);
    for (int rank = 0; rank < muon->tensor->size; rank += p->owners) {
        const struct tensor other = tensor_columns(&muon->parts, rank * split, split);
        copy_part(stream, p, parameter_part_of(p, rank), whole, part_in(&other, p), true);
    }
    return whole;
}

/* -- The update ---------------------------------------------------------------------------------------------------- */

/* Computes the momenta of this rank's shard into its part of `flat`. */
static void compute_momenta(const struct muon *muon, struct stream *stream, const struct store_shard *shard,
                            const struct tensor *flat, const struct muon_step *step)
{
    if (tensor_present(&shard->gradient))
        LAUNCH(stream, MOMENTUM, momentum, .gradient = shard->gradient, .m = shard->m,
               .update = tensor_columns(flat, shard->first, shard->gradient.cols), .scale = step->scale,
               .momentum = muon->settings.momentum, .nesterov = muon->settings.nesterov);
}

/* Returns the owners of a unit's parameters. */
static const int *owners_of(const struct muon *muon, const struct unit *unit)
{
    return muon->owner + (int64_t)unit->index * muon->parameters;
}

/* Replaces the momenta of the matrices that this rank owns, in `flat`, by this tensor rank's part of the orthogonal
 * matrices. */
static void orthogonalize_own(struct muon *muon, const struct unit *unit, struct stream *stream,
                              const struct tensor *flat)
{
    for (int i = 0; i < unit->parameter_count; i++) {
        const struct parameter *p = &unit->parameters[i];
        if (!is_matrix(p) || owners_of(muon, unit)[i] != group_rank(muon->owners))
            continue;
        const struct tensor result = orthogonalize(muon, stream, assemble(muon, stream, p, flat, split_elements(unit)));
        copy_part(stream, p, p->part, result, part_in(flat, p), false);
    }
}

/* Updates the elements of a parameter that this rank's shard has. */
static void update_parameter(const struct muon *muon, struct stream *stream, const struct store_shard *shard,
                             const struct parameter *p, const struct tensor *flat, const struct muon_step *step)
{
    const struct index_range common = range_common((struct index_range){p->offset, p->part.rows * p->part.cols},
                                                   (struct index_range){shard->first, shard->gradient.cols});
    if (common.count == 0)
        return;
    const struct master_weights weight = master_part(&shard->weight, common.first - shard->first, common.count);
    LAUNCH(stream, MUON, muon, .weight = weight.value, .low = weight.low,
           .update = tensor_columns(flat, common.first, common.count), .rate = step->rate, .scale = step->scale,
           .lr_factor = muon->settings.lr_factor, .weight_decay = step->weight_decay,
           .adjustment = muon_adjust(muon->settings.adjustment, p->rows, p->cols));
}

void muon_update(struct muon *muon, struct weight_store *store, struct unit *unit, struct stream *stream,
                 const struct muon_step *step)
{
    const int64_t elements = store->class->flat_elements(store, unit);
    const struct store_shard shard = store->class->shard(store, unit, STORAGE_MATRIX);
    if (elements == 0)
        return;
    const struct tensor flat = tensor_columns(&muon->flat, 0, elements);
    compute_momenta(muon, stream, &shard, &flat, step);
    store->class->gather_flat(store, unit, flat, stream);
    if (muon->tensor != NULL)
        LAUNCH(stream, ALL_GATHER, all_gather, .group = muon->tensor,
               .in = tensor_columns(&flat, 0, split_elements(unit)),
               .out = matrix(&muon->parts, muon->tensor->size, split_elements(unit)));
    orthogonalize_own(muon, unit, stream, &flat);
    for (int i = 0; i < unit->parameter_count; i++) {
        const struct parameter *p = &unit->parameters[i];
        if (!is_matrix(p))
            continue;
        if (muon->owners != NULL)
            LAUNCH(stream, BROADCAST, broadcast, .group = muon->owners, .x = part_in(&flat, p),
                   .root = owners_of(muon, unit)[i]);
        update_parameter(muon, stream, &shard, p, &flat, step);
    }
}
