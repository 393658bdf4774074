/* Injected faults of parallel layouts each break the bound that t_layouts holds layouts to: labels, norms, losses or
 * embedding gradients counted wrongly, sums over the wrong group or missing, shifted shards, keys or tokens of another
 * rank, weights of the step before.
 *
 * ranks: 4 */
#include "check.h"

#include "base/memory.h"
#include "cpu/cpu.h"
#include "ref/team.h"
#include "ref/wrapper.h"

#include <mpi.h>
#include <string.h>

static struct comm *world;
static struct executor *cpu;

enum fault {
    FAULT_NORMALISED,  /* each data rank's mean loss, not that of all labels */
    FAULT_GROUP,       /* replicas of a cut are summed over all ranks */
    FAULT_REPLICAS,    /* they are not summed */
    FAULT_CUT,         /* gradients are cut one alignment unit too late */
    FAULT_TIED,        /* the tied matrix counts twice in the norm */
    FAULT_OVERWRITTEN, /* what a micro-batch adds to a cut replaces it */
    FAULT_STALE,       /* the second step uses the weights that were gathered in the first */
    FAULT_SLICES,      /* keys and values of ranks that share rows are taken for each other's */
    FAULT_FORGOTTEN,   /* the last rank's tokens are missing from the embedding's gradient */
    FAULT_FACTORS,     /* and so are all tokens' factors */
    FAULT_TWICE,       /* complete gradients count twice */
    FAULT_ROWS,        /* tensor ranks take their rows of the vocabulary for the first rank's: as tokens, */
    FAULT_LABELS,      /* or as labels */
    FAULT_LARGEST,     /* a row's parts are merged as if they had one largest logit */
    FAULT_TOTAL,       /* losses count on every tensor rank */
    FAULT_TENSOR,      /* tensor ranks' tokens are taken for each other's */
    FAULT_RESIDUAL,    /* what comes behind a sum over tensor ranks does not */
    FAULT_SHARED,      /* each tensor rank keeps its part of the gradients of norms */
    FAULT_KV_REPLICAS, /* and of key and value heads */
    FAULT_COUNTED      /* all tensor ranks measure what they share */
};

struct planter {
    enum fault fault;
    struct team team;
    int64_t launched; /* otherwise than they should be */
};

static void rotate(struct tensor x, int64_t elements)
{
    const int64_t bytes = tensor_count(&x) * dtype_size(x.dtype), ahead = elements * dtype_size(x.dtype);
    char *copy = memory_allocate(bytes), *data = x.data;
    memcpy(copy, data + ahead, (size_t)(bytes - ahead));
    memcpy(copy + bytes - ahead, data, (size_t)ahead);
    memcpy(data, copy, (size_t)bytes);
    memory_free(copy);
}

static bool is_tied_gradient(struct team *team, const struct tensor *x)
{
    struct engine *engine = &team->toy.engine;
    const struct store_shard shard =
        engine->store->class->shard(engine->store, &team->toy.model.units[0], STORAGE_MATRIX);
    return tensor_present(&shard.gradient) && x->data == shard.gradient.data;
}

/* The group of a collective that such a fault may change; NULL: it is another op. */
static const struct group *group_of(enum op op, const void *args)
{
    switch (op) {
    case OP_ALL_REDUCE:
        return ((const struct all_reduce_args *)args)->group;
    case OP_REDUCE_SCATTER:
        return ((const struct reduce_scatter_args *)args)->group;
    case OP_ALL_GATHER:
        return ((const struct all_gather_args *)args)->group;
    default:
        return NULL;
    }
}

/* Is it a launch that the fault changes? */
static bool is_target(struct planter *p, const struct stream *stream, enum op op, const void *args)
{
    const struct parallel_groups *groups = &p->team.groups;
    switch (p->fault) {
    case FAULT_NORMALISED:
        return op == OP_XENT_GRAD || op == OP_XENT_BOTH;
    case FAULT_GROUP:
    case FAULT_REPLICAS:
        return groups->replicas != NULL && group_of(op, args) == groups->replicas;
    case FAULT_CUT:
        return groups->reduce != NULL && group_of(op, args) == groups->reduce;
    case FAULT_TIED:
        return op == OP_SUM_SQUARES && is_tied_gradient(&p->team, &((const struct sum_squares_args *)args)->x);
    case FAULT_OVERWRITTEN:
        return op == OP_ADD && stream->id == STREAM_REDUCE;
    case FAULT_STALE:
        return p->team.step == 1 && groups->gather != NULL && group_of(op, args) == groups->gather;
    case FAULT_SLICES:
        return op == OP_ALL_GATHER && groups->context != NULL && group_of(op, args) == groups->context;
    case FAULT_FORGOTTEN:
    case FAULT_FACTORS:
        return op == OP_EMBEDDING_BACKWARD;
    case FAULT_TWICE:
        return op == OP_COPY && stream->id == STREAM_REDUCE;
    case FAULT_ROWS:
        return op == OP_EMBEDDING_FORWARD || op == OP_EMBEDDING_BACKWARD;
    case FAULT_LABELS:
        return op == OP_XENT_GRAD;
    case FAULT_LARGEST:
    case FAULT_TOTAL:
        return op == OP_XENT_MERGE;
    case FAULT_TENSOR:
        return op == OP_ALL_GATHER && group_of(op, args) == groups->tensor;
    case FAULT_RESIDUAL:
        return op == OP_ADD && stream->id == STREAM_COMPUTE;
    case FAULT_SHARED:
        return group_of(op, args) == groups->shared;
    case FAULT_KV_REPLICAS:
        return groups->kv_replicas != NULL && group_of(op, args) == groups->kv_replicas;
    case FAULT_COUNTED:
        return op == OP_SUM_SQUARES;
    }
    return false;
}

/* All that there is of a fault which is in the model, not in a launch. */
static void plant_in_model(struct planter *p)
{
    struct model *model = &p->team.toy.model;
    struct engine *engine = &p->team.toy.engine;
    if (p->fault == FAULT_TOTAL)
        engine->batches[0].total = engine->total;
    for (int u = 0; u < model->unit_count && p->fault == FAULT_COUNTED; u++)
        for (int i = 0; i < model->units[u].parameter_count; i++)
            model->units[u].parameters[i].owner = 0;
}

static void scale_gradient(const struct team *team, struct tensor gradient)
{
    const double factor = team->labels > 0 ? team->all_labels / team->grid.data_ranks / team->labels : 0;
    for (int64_t i = 0; i < tensor_count(&gradient); i++)
        ((float *)gradient.data)[i] *= (float)factor;
}

/* The embedding's rows taken for the first of the vocabulary. */
static void forget_origin(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args)
{
    if (op == OP_EMBEDDING_FORWARD) {
        struct embedding_forward_args first = *(const struct embedding_forward_args *)args;
        first.origin = 0;
        wrapper_pass(wrapper, stream, op, &first);
    } else {
        struct embedding_backward_args first = *(const struct embedding_backward_args *)args;
        first.origin = 0;
        wrapper_pass(wrapper, stream, op, &first);
    }
}

/* Changes launches that the fault is about, and counts them. */
static void plant(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args)
{
    struct planter *p = wrapper->self;
    const bool target = is_target(p, stream, op, args);
    if (!target || p->fault == FAULT_NORMALISED || p->fault == FAULT_TIED || p->fault == FAULT_SLICES ||
        p->fault == FAULT_TENSOR || p->fault == FAULT_COUNTED || p->fault == FAULT_TOTAL)
        wrapper_pass(wrapper, stream, op, args);
    if (!target)
        return;
    p->launched++;
    switch (p->fault) {
    case FAULT_NORMALISED:
        scale_gradient(&p->team, op == OP_XENT_BOTH ? ((const struct xent_both_args *)args)->logits
                                                    : ((const struct xent_grad_args *)args)->logits);
        break;
    case FAULT_GROUP: {
        struct all_reduce_args wrong = *(const struct all_reduce_args *)args;
        wrong.group = p->team.groups.data;
        wrong.scratch = (struct tensor){0};
        wrapper_pass(wrapper, stream, op, &wrong);
        break;
    }
    case FAULT_CUT:
        rotate(((const struct reduce_scatter_args *)args)->in, UNIT_ALIGNMENT);
        wrapper_pass(wrapper, stream, op, args);
        break;
    case FAULT_TIED:
        *(double *)((const struct sum_squares_args *)args)->sum.data *= 2;
        break;
    case FAULT_OVERWRITTEN: {
        const struct add_args *a = args;
        wrapper_pass(wrapper, stream, OP_COPY, &(struct copy_args){.from = a->from, .to = a->to});
        break;
    }
    case FAULT_SLICES:
    case FAULT_TENSOR: {
        const struct tensor out = ((const struct all_gather_args *)args)->out;
        rotate(out, out.cols);
        break;
    }
    case FAULT_ROWS:
        forget_origin(wrapper, stream, op, args);
        break;
    case FAULT_LABELS: {
        struct xent_grad_args first = *(const struct xent_grad_args *)args;
        first.origin = 0;
        wrapper_pass(wrapper, stream, op, &first);
        break;
    }
    case FAULT_LARGEST: {
        const struct tensor parts = ((const struct xent_merge_args *)args)->statistics;
        for (int64_t i = XENT_STATISTICS; i < parts.rows; i += XENT_STATISTICS)
            memcpy(tensor_at(&parts, i + XENT_LARGEST, 0), parts.data, (size_t)parts.cols * sizeof(float));
        wrapper_pass(wrapper, stream, op, args);
        break;
    }
    case FAULT_FORGOTTEN: {
        struct embedding_backward_args few = *(const struct embedding_backward_args *)args;
        few.tokens.cols = few.dy.rows -= few.dy.rows / p->team.groups.data->size;
        if (tensor_present(&few.scale))
            few.scale.cols = few.dy.rows;
        wrapper_pass(wrapper, stream, op, &few);
        break;
    }
    case FAULT_FACTORS: {
        struct embedding_backward_args plain = *(const struct embedding_backward_args *)args;
        plain.scale = (struct tensor){0};
        wrapper_pass(wrapper, stream, op, &plain);
        break;
    }
    case FAULT_TWICE: {
        const struct copy_args *a = args;
        wrapper_pass(wrapper, stream, op, args);
        wrapper_pass(wrapper, stream, OP_ADD, &(struct add_args){.from = a->from, .to = a->to});
        break;
    }
    case FAULT_REPLICAS: /* they are left out */
    case FAULT_STALE:
    case FAULT_RESIDUAL:
    case FAULT_SHARED:
    case FAULT_KV_REPLICAS:
    case FAULT_TOTAL: /* these two are not: plant_in_model */
    case FAULT_COUNTED:
        break;
    }
}

/* A fault in a layout where it has a place: there must be one, and the result beyond a bound. What spoils the norm
 * alone is seen by the length of the gradient, too, which needs no other training. */
struct planted {
    enum fault fault;
    const char *name;
    const struct layout *layout;
};

static void test_faults(const struct form *form, const struct planted *faults, int count)
{
    struct run_outcome alone = train_alone(world, cpu, form, false);
    for (int i = 0; i < count; i++) {
        struct planter planter = {.fault = faults[i].fault};
        struct wrapper wrapper;
        wrapper_create(&wrapper, cpu, plant, &planter);
        struct team *team = &planter.team;
        team_create(team, world, &wrapper.executor, faults[i].layout, form);
        plant_in_model(&planter);
        struct run_outcome outcome = team_train(team);
        const struct distances apart = outcome_apart(&outcome, &alone, &team->whole);
        const bool equal = outcome_within(&outcome, &apart, &alone, &bound_f32);
        const bool planted = comm_sum_i64(world, planter.launched) > 0;
        const bool of_norm = faults[i].fault == FAULT_TIED || faults[i].fault == FAULT_COUNTED;
        const bool seen_by_length = apart.length > bound_f32.length;
        if (!CHECK(planted && !equal && (seen_by_length || !of_norm)) && world->rank == 0)
            fprintf(stderr, "    %s in %s: loss %.2e, norm %.2e, gradients %.2e and %.2e\n", faults[i].name,
                    team_text(world->size, faults[i].layout, form), apart.loss, apart.norm, apart.first, apart.last);
        outcome_destroy(&outcome);
        team_destroy(team);
    }
    outcome_destroy(&alone);
}

static void test_all_faults(void)
{
    static const struct layout gradients = {.context = 1, .shard = 2, .sharding.level = SHARD_GRADIENTS},
                               full = {.context = 1, .shard = 2, .sharding.level = SHARD_FULL},
                               rows = {.context = 2,
                                       .shard = 4,
                                       .method = DECK_CONTEXT_GATHER,
                                       .sharding.level = SHARD_FULL},
                               layers = {.context = 1, .shard = 2, .sharding.level = SHARD_FULL, .tensor = 2},
                               heads = {.context = 1, .shard = 1, .tensor = 4, .whole_rows = true},
                               none = {.context = 1, .shard = 1};
    static const struct planted of_any[] = {{FAULT_NORMALISED, "normalised per rank", &full},
                                            {FAULT_GROUP, "summed over the wrong group", &gradients},
                                            {FAULT_GROUP, "summed over the wrong group", &full},
                                            {FAULT_REPLICAS, "replicas not summed", &gradients},
                                            {FAULT_REPLICAS, "replicas not summed", &full},
                                            {FAULT_CUT, "cut off by a unit", &gradients},
                                            {FAULT_CUT, "cut off by a unit", &full},
                                            {FAULT_TIED, "tied matrix twice", &full},
                                            {FAULT_OVERWRITTEN, "contribution overwritten", &gradients},
                                            {FAULT_OVERWRITTEN, "contribution overwritten", &full},
                                            {FAULT_STALE, "stale weights", &gradients},
                                            {FAULT_STALE, "stale weights", &full},
                                            {FAULT_NORMALISED, "normalised per rank", &rows},
                                            {FAULT_STALE, "stale weights", &rows},
                                            {FAULT_SLICES, "swapped slices", &rows},
                                            {FAULT_TENSOR, "swapped tokens of tensor ranks", &layers},
                                            {FAULT_RESIDUAL, "residual forgotten", &layers},
                                            {FAULT_SHARED, "norms' gradients not summed", &layers},
                                            {FAULT_COUNTED, "norms measured twice", &layers},
                                            {FAULT_KV_REPLICAS, "kv heads' gradients not summed", &heads},
                                            {FAULT_ROWS, "rows of the first rank", &layers},
                                            {FAULT_LABELS, "labels of the first rank", &layers},
                                            {FAULT_LARGEST, "one largest logit for all parts", &layers},
                                            {FAULT_TOTAL, "losses counted twice", &heads}},
                                of_gathered[] = {{FAULT_FORGOTTEN, "a rank's tokens forgotten", &none},
                                                 {FAULT_FORGOTTEN, "a rank's tokens forgotten", &rows},
                                                 {FAULT_FACTORS, "factors forgotten", &full},
                                                 {FAULT_TWICE, "complete gradients twice", &gradients}};
    const struct form tied = {.kind = TOY_LLAMA_TIED, .packed = true, .micro_batches = 3, .slots = 1};
    const struct form gathered = {.kind = TOY_ESM2, .gathers = true, .packed = true, .micro_batches = 1, .slots = 1};
    test_faults(&tied, of_any, LENGTH(of_any));
    test_faults(&gathered, of_gathered, LENGTH(of_gathered));
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    world = comm_open_mpi();
    cpu = cpu_executor_create(1);
    cpu->copies = true; /* as devices do, so that sums have scratch */
    test_all_faults();
    cpu->class->destroy(cpu);
    comm_destroy(world);
    MPI_Finalize();
    return check_end();
}
