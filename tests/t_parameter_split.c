/* Parameters that tensor ranks shard by rows or columns have the initial values, digests and checkpoints of the whole
 * model, on 6, 4, 2 and 1 ranks; slabs of them are the expected rectangles and runs. Injected faults: a replica that
 * writes too, and a forgotten row or column. A full disk on one rank stops all ranks.
 *
 * ranks: 6 */
#include "check.h"
#include "rank_folder.h"
#include "shard_view.h"
#include "tiny_training.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "comm/grid.h"
#include "cpu/cpu.h"
#include "checkpoint/checkpoint.h"
#include "state/fetch.h"
#include "state/initialise.h"
#include "state/slab.h"

#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum { TENSOR_RANKS = 2 };

static struct comm *world, *self;
static struct executor *cpu;
static char *folder;

/* -- Slabs ----------------------------------------------------------------------------------------------------- */

/* Elements of the part before it in a row-major walk through the global tensor. */
static int64_t place_in_part(const struct parameter *p, int64_t row, int64_t col)
{
    const int64_t below = row - p->part.row, piece = p->apart > 0 ? below / p->apart : 0;
    return (below - piece * (p->apart - p->height)) * p->part.cols + col - p->part.col;
}

/* Rectangles cover a slab's elements in order, once each, inside of the part. */
static bool rectangles_right(const struct parameter *p, struct parameter_slab slab)
{
    struct rectangle r[SLAB_RECTANGLES];
    int64_t next = slab.first;
    const int rectangles = slab_rectangles(p, slab, r);
    bool right = rectangles <= SLAB_RECTANGLES;
    for (int i = 0; i < rectangles; i++) {
        right &= place_in_part(p, r[i].row, r[i].col) == next && (r[i].rows == 1 || r[i].cols == p->part.cols);
        right &= place_in_part(p, r[i].row + r[i].rows - 1, p->part.col) < p->part.rows * p->part.cols;
        right &= r[i].col >= p->part.col && r[i].col + r[i].cols <= p->part.col + p->part.cols;
        next += r[i].rows * r[i].cols;
    }
    return right && next == slab.first + slab.count;
}

/* So do runs, each as long as it can be. */
static bool runs_right(const struct parameter *p, struct parameter_slab slab)
{
    bool right = true;
    int64_t end = -1; /* of the run before, in the global tensor */
    while (slab.count > 0 && right) {
        const struct slab_run run = slab_run(p, slab);
        const int64_t last = run.first + run.count - 1;
        right = run.count > 0 && run.first != end &&
                place_in_part(p, run.first / p->cols, run.first % p->cols) == slab.first;
        right &= place_in_part(p, last / p->cols, last % p->cols) == slab.first + run.count - 1;
        end = run.first + run.count;
        slab = (struct parameter_slab){slab.first + run.count, slab.count - run.count};
    }
    return right && slab.count == 0;
}

/* For every slab of a small tensor, whole or a part of a larger one, of one piece or of two. */
static void test_slabs(void)
{
    enum { SHARD_FIRST = 90, OFFSET = 100, MOST = 5 };
    bool right = true;
    for (int64_t shape = 0; shape < MOST * MOST * 6; shape++) {
        const int64_t rows = shape / 6 / MOST + 1, cols = shape / 6 % MOST + 1, around = shape % 3;
        const bool two = shape / 3 % 2 == 1;
        struct parameter p = {.part = {0, 0, rows, cols}, .height = rows, .offset = OFFSET};
        if (two && (rows % 2 != 0 || around == 0))
            continue;
        p.height = two ? rows / 2 : rows;
        p.apart = two ? rows / 2 + around : 0;
        parameter_place(&p, rows + 2 * around, cols + (around == 2 ? 3 : 0), around, around == 2);
        for (int64_t first = SHARD_FIRST; first <= OFFSET + rows * cols; first++) {
            for (int64_t count = 0; count <= rows * cols + 12; count++) {
                struct parameter_slab slab = slab_of(&p, first, count);
                int64_t wanted = 0;
                for (int64_t e = first; e < first + count; e++)
                    wanted += e >= OFFSET && e < OFFSET + rows * cols;
                right &= slab.count == wanted;
                right &= wanted == 0 || slab.first == (first > OFFSET ? first - OFFSET : 0);
                right &= rectangles_right(&p, slab) && runs_right(&p, slab);
            }
        }
    }
    CHECK(right);
}

/* -- Cuts -------------------------------------------------------------------------------------------------------- */

/* A model, and what each tensor rank has of it. */
struct split {
    struct model_settings whole, parts[TENSOR_RANKS];
    bool even; /* the parts have one shape */
};

/* Heads, hidden units of the MLP and the vocabulary divided, `first` of them the first rank's; key-value heads too, or
 * all ranks have the same. */
static struct split split_layers(enum toy_kind kind, int64_t first_heads, int64_t first_ffn, int64_t first_vocabulary)
{
    struct split split = {.whole = toy_settings(kind)};
    struct model_settings *a = &split.parts[0], *b = &split.parts[1];
    if (kind == TOY_LLAMA_TIED)
        split.whole.kv_heads = 1;
    *a = *b = split.whole;
    a->heads = first_heads;
    a->ffn = first_ffn;
    a->vocabulary = first_vocabulary;
    b->heads -= a->heads;
    b->ffn -= a->ffn;
    b->vocabulary -= a->vocabulary;
    if (split.whole.kv_heads > 1) {
        a->kv_heads = split.whole.kv_heads * a->heads / split.whole.heads;
        b->kv_heads -= a->kv_heads;
    }
    split.even = a->heads == b->heads && a->ffn == b->ffn && a->vocabulary == b->vocabulary;
    return split;
}

/* Every tensor is split: by columns what reads the hidden states, with all norms, by rows what writes them. */
static struct split split_states(int64_t vocabulary)
{
    struct split split = {.whole = toy_settings(TOY_LLAMA_TIED), .even = true};
    split.whole.vocabulary = vocabulary;
    split.parts[0] = split.parts[1] = split.whole;
    split.parts[0].hidden = split.parts[1].hidden = split.whole.hidden / 2;
    return split;
}

struct json_place {
    const struct split *split;
    int rank; /* of the tensor ranks */
};

static void place_parameter(struct parameter *p, const struct parameter *whole, const struct parameter *first, int rank)
{
    const bool rows = p->part.rows < whole->rows, cols = p->part.cols < whole->cols;
    parameter_place(p, whole->rows, whole->cols, rows && rank > 0 ? first->part.rows : 0,
                    cols && rank > 0 ? first->part.cols : 0);
    if (!rows && !cols) {
        p->owner = rank;
        p->owners = TENSOR_RANKS;
    }
}

static void place_model(struct model *model, const void *data)
{
    const struct json_place *place = data;
    struct model whole, first;
    model_create(&whole, &place->split->whole, 1, 1);
    model_create(&first, &place->split->parts[0], 1, 1);
    for (int u = 0; u < model->unit_count; u++)
        for (int i = 0; i < model->units[u].parameter_count; i++)
            place_parameter(&model->units[u].parameters[i], &whole.units[u].parameters[i],
                            &first.units[u].parameters[i], place->rank);
    model_destroy(&first);
    model_destroy(&whole);
}

static struct parameter *parameter_named(struct model *model, const char *name)
{
    for (int u = 0; u < model->unit_count; u++)
        for (int i = 0; i < model->units[u].parameter_count; i++)
            if (strcmp(model->units[u].parameters[i].name, name) == 0)
                return &model->units[u].parameters[i];
    error_fatal("no parameter %s", name);
}

/* -- States ------------------------------------------------------------------------------------------------------ */

/* A rank's part of a model on the ranks of a comm. */
struct divided {
    struct comm *comm;
    struct grid grid;
    struct group *group;
    struct parallel_groups groups;
    struct json_place place;
    struct toy toy;
};

static struct toy_options small_options(void)
{
    struct toy_options options = toy_options(cpu);
    options.rows = 1;
    return options;
}

static void divided_create(struct divided *d, struct comm *comm, const struct split *split, struct toy_options options)
{
    d->comm = comm;
    CHECK(grid_create(&d->grid, comm, &(struct grid_shape){.tensor = TENSOR_RANKS, .context = 1}) == ERROR_NONE);
    d->group = comm_group_create(d->grid.data, NULL, "data");
    d->place = (struct json_place){split, d->grid.tensor->rank};
    options.settings = split->parts[d->place.rank];
    d->groups =
        options.sharding.level == SHARD_NONE
            ? groups_replicated(d->group)
            : (struct parallel_groups){.all = d->group, .data = d->group, .gather = d->group, .reduce = d->group};
    options.groups = &d->groups;
    options.place = place_model;
    options.self = &d->place;
    options.tensor = d->grid.tensor;
    toy_create(&d->toy, &options);
}

static void divided_destroy(struct divided *d)
{
    toy_destroy(&d->toy);
    comm_group_destroy(d->group);
    grid_destroy(&d->grid);
}

static uint64_t digest_of(struct divided *d)
{
    return checkpoint_digest(d->comm, &d->toy.engine);
}

static char *in_folder(const char *name)
{
    return memory_format("%s/%s", folder, name);
}

static int save(struct comm *comm, struct engine *engine, const char *name, bool with_optimizer)
{
    struct checkpoint_meta meta = {.deck_text = "# none\n", .version = "0.0-test", .step = 3, .seed = 7};
    char *path = in_folder(name);
    int code = checkpoint_write(comm, engine, &meta, path, with_optimizer);
    free(path);
    return code;
}

static int verify(struct comm *comm, const char *name)
{
    char *path = in_folder(name);
    int code = checkpoint_verify(comm, path);
    free(path);
    return code;
}

static int load(struct comm *comm, struct engine *engine, const char *name)
{
    char *path = in_folder(name);
    int code = checkpoint_read(comm, engine, path, true);
    free(path);
    return code;
}

/* Two files, of which one rank wrote the first: they differ in how many ranks wrote them (an attribute of /meta), and
 * in the 4 bytes of HDF5's checksum before it. Collective. */
static bool same_files(struct comm *comm, const char *one, const char *other)
{
    int64_t status = 0;
    if (comm->rank == 0) {
        char *command = memory_format("cd '%s' && cmp -l %s %s | awk 'NR == 1 { first = $1 } { last = $0 } END { split("
                                      "last, b); exit !(NR <= 5 && b[1] - first < 256 && b[2] == 1 && b[3] == %d) }'",
                                      folder, one, other, comm->size);
        status = system(command);
        free(command);
    }
    comm_broadcast(comm, &status, sizeof status, 0);
    return status == 0;
}

/* -- Cases ------------------------------------------------------------------------------------------------------- */

/* What one rank alone finds. */
struct found {
    uint64_t initial, trained; /* digests */
};

/* Rank 0 trains the whole model and writes whole.h5. */
static struct found train_whole(const struct split *split)
{
    struct found found = {0, 0};
    if (world->rank == 0) {
        struct training t = {.executor = cpu};
        struct toy_options options = small_options();
        options.settings = split->whole;
        toy_create(&t.toy, &options);
        t.group = t.toy.own_group;
        found.initial = checkpoint_digest(self, &t.toy.engine);
        train(&t, 3);
        found.trained = checkpoint_digest(self, &t.toy.engine);
        CHECK(save(self, &t.toy.engine, "whole.h5", true) == ERROR_NONE);
        toy_destroy(&t.toy);
    }
    comm_broadcast(world, &found, sizeof found, 0);
    return found;
}

/* The divided file read by one rank that has all. */
static void check_alone(const struct split *split, uint64_t digest, const char *name)
{
    if (world->rank == 0) {
        struct toy toy;
        struct toy_options options = small_options();
        options.settings = split->whole;
        toy_create(&toy, &options);
        CHECK(load(self, &toy.engine, name) == ERROR_NONE);
        CHECK(checkpoint_digest(self, &toy.engine) == digest);
        toy_destroy(&toy);
    }
    comm_barrier(world);
}

struct runs {
    int64_t elements;
    int parameters, *of; /* [kinds * parameters] how many runs */
};

static int count_run(void *data, const struct fetched_elements *fetched, const void *content)
{
    struct runs *runs = data;
    (void)content;
#pragma omp critical
    {
        runs->elements += fetched->run.count;
        runs->of[fetched->kind * runs->parameters + fetched->number]++;
    }
    return ERROR_NONE;
}

/* The most runs of this rank's share of any tensor; the elements of all shares must be those of the model, once. */
static int most_runs(struct divided *d, struct comm *exchange)
{
    const struct model *model = &d->toy.model;
    struct runs runs = {.parameters = model_parameters(model)};
    int64_t elements = 0;
    int most = 0;
    runs.of = memory_allocate((int64_t)sizeof(int) * PIECE_KINDS * runs.parameters);
    CHECK(fetch_shares(&d->toy.engine, exchange, PIECE_KINDS, count_run, &runs) == ERROR_NONE);
    for (int u = 0; u < model->unit_count; u++)
        for (int i = 0; i < model->units[u].parameter_count; i++)
            elements += PIECE_KINDS * model->units[u].parameters[i].rows * model->units[u].parameters[i].cols;
    CHECK(comm_sum_i64(d->comm, runs.elements) == elements);
    for (int i = 0; i < PIECE_KINDS * runs.parameters; i++)
        most = runs.of[i] > most ? runs.of[i] : most;
    memory_free(runs.of);
    return most;
}

/* The state as this engine's store shows it, written and compared with what one rank wrote. */
static void check_written(struct divided *d, uint64_t digest)
{
    CHECK(digest_of(d) == digest);
    CHECK(save(d->comm, &d->toy.engine, "split.h5", true) == ERROR_NONE);
    CHECK(verify(d->comm, "split.h5") == ERROR_NONE);
    CHECK(same_files(d->comm, "whole.h5", "split.h5"));
}

/* Replicas, splits of the parts, and both. */
static void test_stores(const struct split *split, const struct found *found, enum dtype compute)
{
    struct toy_options options = small_options();
    struct divided d;
    struct view view;
    options.compute = compute;
    divided_create(&d, world, split, options);
    if (compute == DTYPE_F32)
        CHECK(digest_of(&d) == found->initial);
    CHECK(load(world, &d.toy.engine, "whole.h5") == ERROR_NONE);
    check_written(&d, found->trained);
    /* rows by exchange, but for where a rank's share begins and ends */
    if (split->even)
        CHECK(most_runs(&d, d.grid.model) <= 3);
    CHECK(comm_max_i64(world, most_runs(&d, NULL)) > 3);
    d.toy.engine.settings.tensor = NULL;
    check_written(&d, found->trained);
    d.toy.engine.settings.tensor = d.grid.model;
    view_open(&view, &d.toy.engine, d.grid.data, 2);
    check_written(&d, found->trained);
    view_close(&view, &d.toy.engine);
    divided_destroy(&d);

    options.sharding.level = SHARD_FULL;
    divided_create(&d, world, split, options);
    if (compute == DTYPE_F32)
        CHECK(digest_of(&d) == found->initial);
    CHECK(load(world, &d.toy.engine, "whole.h5") == ERROR_NONE);
    check_written(&d, found->trained);
    divided_destroy(&d);
}

/* What 6 ranks wrote, on 4 and 2 at a time and on one. */
static void test_other_ranks(const struct split *split, uint64_t digest)
{
    struct comm *part = comm_split(world, world->rank < 4 ? 0 : 1);
    struct divided d;
    divided_create(&d, part, split, small_options());
    CHECK(load(part, &d.toy.engine, "split.h5") == ERROR_NONE);
    CHECK(digest_of(&d) == digest);
    divided_destroy(&d);
    comm_destroy(part);
    check_alone(split, digest, "split.h5");
}

/* A fault is in the state: digest, file and side file must tell. */
static void check_noticed(struct divided *d, uint64_t digest)
{
    CHECK(digest_of(d) != digest);
    CHECK(save(d->comm, &d->toy.engine, "fault.h5", true) == ERROR_NONE);
    CHECK(verify(d->comm, "fault.h5") == ERROR_USER);
}

static void test_faults(const struct split *split, const struct found *found)
{
    struct divided d;
    struct view view;
    divided_create(&d, world, split, small_options());
    CHECK(load(world, &d.toy.engine, "whole.h5") == ERROR_NONE);
    CHECK(digest_of(&d) == found->trained);

    struct parameter *gain = parameter_named(&d.toy.model, "model.norm.weight"), kept = *gain;
    gain->owner = 0; /* all tensor ranks write it */
    gain->owners = 1;
    check_noticed(&d, found->trained);
    *gain = kept;

    view_open(&view, &d.toy.engine, d.grid.data, 2); /* and all data ranks */
    view.forgets_others = true;
    check_noticed(&d, found->trained);
    view_close(&view, &d.toy.engine);

    struct parameter *by_columns = parameter_named(&d.toy.model, "model.layers.1.mlp.down_proj.weight");
    kept = *by_columns;
    by_columns->part.col = 0;
    check_noticed(&d, found->trained);
    CHECK(!same_files(world, "whole.h5", "fault.h5"));
    engine_initialise(&d.toy.engine, 7);
    CHECK(digest_of(&d) != found->initial);
    *by_columns = kept;

    CHECK(load(world, &d.toy.engine, "whole.h5") == ERROR_NONE);
    struct parameter *by_rows = parameter_named(&d.toy.model, "model.layers.1.mlp.up_proj.weight");
    kept = *by_rows;
    by_rows->part.row = 0;
    check_noticed(&d, found->trained);
    CHECK(!same_files(world, "whole.h5", "fault.h5"));
    *by_rows = kept;
    CHECK(digest_of(&d) == found->trained);
    divided_destroy(&d);
}

/* One rank's disk is full: no other waits for it in an exchange. */
static void test_failure(const struct split *split)
{
    struct divided d;
    struct rlimit old, small = {4096, RLIM_INFINITY};
    divided_create(&d, world, split, small_options());
    getrlimit(RLIMIT_FSIZE, &old);
    small.rlim_max = old.rlim_max;
    if (world->rank == 3)
        setrlimit(RLIMIT_FSIZE, &small); /* writes beyond fail as on a full disk */
    CHECK(save(world, &d.toy.engine, "full.h5", true) == ERROR_ENVIRONMENT);
    setrlimit(RLIMIT_FSIZE, &old);
    char *path = in_folder("full.h5");
    CHECK(access(path, F_OK) != 0);
    free(path);
    divided_destroy(&d);
}

/* A tensor whose rows are exchanged in two turns, on the last two ranks. */
static void test_turns(void)
{
    struct split split = split_states(200000);
    split.whole.layers = split.parts[0].layers = split.parts[1].layers = 1;
    struct toy_options options = small_options();
    options.row_tokens = 16;
    options.head_tokens = 1;
    struct comm *part = comm_split(world, world->rank < 4 ? 0 : 1);
    if (world->rank >= 4) {
        struct divided d;
        divided_create(&d, part, &split, options);
        CHECK(save(part, &d.toy.engine, "turns_split.h5", false) == ERROR_NONE);
        CHECK(most_runs(&d, d.grid.model) == 2);
        divided_destroy(&d);
        if (part->rank == 0) {
            struct toy toy;
            options.settings = split.whole;
            toy_create(&toy, &options);
            CHECK(save(self, &toy.engine, "turns.h5", false) == ERROR_NONE);
            toy_destroy(&toy);
        }
        comm_barrier(part);
        CHECK(verify(part, "turns_split.h5") == ERROR_NONE);
        CHECK(same_files(part, "turns.h5", "turns_split.h5"));
    }
    comm_barrier(world);
    comm_destroy(part);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    world = comm_open_mpi();
    self = comm_self();
    log_open(world->rank);
    signal(SIGXFSZ, SIG_IGN);
    folder = rank_folder_create(world, "t_parameter_split");
    cpu = cpu_executor_create(1);

    if (world->rank == 0)
        test_slabs();
    const struct split splits[] = {
        split_layers(TOY_LLAMA, 2, 24, 20),      /* even */
        split_layers(TOY_LLAMA_TIED, 2, 24, 20), /* tensor ranks share the one key-value head */
        split_layers(TOY_ESM2, 1, 17, 13),       /* vectors split and not */
        split_states(40),
    };
    for (int i = 0; i < (int)(sizeof splits / sizeof splits[0]); i++) {
        const struct found found = train_whole(&splits[i]);
        test_stores(&splits[i], &found, i % 2 == 0 ? DTYPE_F32 : DTYPE_BF16);
        test_other_ranks(&splits[i], found.trained);
        if (i == 0) {
            test_faults(&splits[i], &found);
            test_failure(&splits[i]);
        }
    }
    test_turns();

    cpu->class->destroy(cpu);
    rank_folder_remove(world, folder);
    int failed = check_end();
    comm_destroy(self);
    comm_destroy(world);
    MPI_Finalize();
    return failed;
}
