/* Ranks that share rows of tokens (context parallelism) give one rank's losses to 1e-6 and gradients to 1e-5, by each
 * method of attention, for toys of every family, packed and padded, with a rank that has no label; bf16 and block
 * scaling stay within their own distance from fp32. Every wait of the exchange is needed, and every order that events
 * allow gives the same bits. Injected faults: swapped slices, offsets one too small, a missing shift, parts merged
 * without earlier parts or without weights, a missing or overwritten part of dk and dv.
 *
 * ranks: 6 */
#include "check.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/random.h"
#include "comm/grid.h"
#include "cpu/cpu.h"
#include "data/context_split.h"
#include "model/attention_private.h"
#include "model/block.h"
#include "plan/race.h"
#include "plan/record.h"
#include "ref/late.h"
#include "ref/toy.h"
#include "ref/wrapper.h"

#include <mpi.h>
#include <stdlib.h>

enum { ROWS = 3, ROW_TOKENS = 48, MAX_SEGMENTS = 7, MOST_MICRO = 2, MOST_DATA = 3 };

/* -- The split ----------------------------------------------------------------------------------------------------- */

static void set_row(struct batch *batch, int64_t row, const int *lengths)
{
    int64_t at = row * batch->row_tokens;
    for (int64_t s = 0; s < batch->max_segments && lengths[s] > 0; s++) {
        batch->segment_start[row * batch->max_segments + s] = (int32_t)at;
        batch->segment_length[row * batch->max_segments + s] = lengths[s];
        for (int t = 0; t < lengths[s]; t++)
            batch->positions[at++] = t;
        batch->real += lengths[s];
    }
}

/* Segments that lie in one slice and that reach over all; one that ends with a slice (of 12, 8, 6 and 4 tokens) and one
 * token too late; single tokens; a row without any. row_tokens: a multiple of ROW_TOKENS. */
static void make_batch(struct batch *batch, int64_t row_tokens, bool packed, uint64_t key)
{
    static const int rows[4][MAX_SEGMENTS] = {{48}, {3, 1, 8, 13, 17, 2}, {24, 1, 12}, {7, 30, 1, 1, 9}};
    static const int padded[4] = {48, 17, 25, 1};
    const struct random_key random = {key, RANDOM_TEST, 0};
    const int64_t times = row_tokens / ROW_TOKENS;
    batch_create(batch, ROWS, row_tokens, packed ? MAX_SEGMENTS : 1);
    batch_clear(batch, 1);
    batch->number = (int64_t)key;
    for (int64_t r = 0; r + 1 < ROWS; r++) {
        int lengths[MAX_SEGMENTS];
        for (int s = 0; s < MAX_SEGMENTS; s++)
            lengths[s] = (int)times * (packed ? rows[(key + (uint64_t)r) % 4][s] : padded[(key + (uint64_t)r) % 4]);
        set_row(batch, r, lengths);
    }
    for (int64_t t = 0; t < ROWS * row_tokens; t++) {
        const uint64_t bits = random_bits(&random, (uint64_t)t);
        batch->tokens[t] = (int32_t)(bits % 40);
        batch->scale[t] = (float)(1 + (bits >> 8 & 7)) / 4; /* a segment of zeros has gradients of 1e17 */
    }
    for (int64_t s = 0; s < ROWS * batch->max_segments; s++)
        for (int64_t t = batch->segment_start[s]; t < batch->segment_start[s] + batch->segment_length[s]; t++) {
            const uint64_t bits = random_bits(&random, (uint64_t)(1 << 20 | t));
            batch->labels[t] = bits % 5 == 0 ? BATCH_IGNORED : (int32_t)(bits >> 8) & 31;
            batch->valid += batch->labels[t] >= 0;
        }
}

/* A token of rank `rank` of `ranks` in its local row: where it stands in the whole row. */
static int64_t place(int64_t local, int64_t row_tokens, int rank, int ranks)
{
    const int64_t slice = row_tokens / (2 * ranks);
    return local < slice ? rank * slice + local : (2 * ranks - 1 - rank) * slice + local - slice;
}

/* seen[query * tokens + key], counted in whole rows: how often the tables have the query see the key. owner -1: keys of
 * whole rows, else those of that rank. */
static void look(const struct batch *batch, const struct context_split *split, bool causal, int owner, char *seen)
{
    const int64_t slots = context_slots(batch, causal), tokens = batch->rows * batch->row_tokens;
    const int64_t local = batch->row_tokens / split->ranks;
    int32_t *tables = memory_allocate(CONTEXT_TABLES * slots * (int64_t)sizeof *tables);
    context_split_segments(split, batch, causal, owner, tables);
    for (int64_t s = 0; s < slots; s++)
        for (int64_t i = 0; i < tables[slots + s]; i++)
            for (int64_t j = 0; j < tables[3 * slots + s]; j++) {
                if (causal && j > i + tables[4 * slots + s])
                    continue;
                int64_t q = tables[s] + i, k = tables[2 * slots + s] + j;
                q = q / local * batch->row_tokens + place(q % local, batch->row_tokens, split->rank, split->ranks);
                if (owner >= 0)
                    k = k / local * batch->row_tokens + place(k % local, batch->row_tokens, owner, split->ranks);
                if (CHECK(q < tokens && k < tokens))
                    seen[q * tokens + k]++;
            }
    memory_free(tables);
}

static void check_tables(const struct batch *batch, int ranks, bool causal, bool by_owners)
{
    const int64_t tokens = batch->rows * batch->row_tokens;
    char *seen = memory_allocate(tokens * tokens), *wanted = memory_allocate(tokens * tokens);
    for (int r = 0; r < ranks; r++)
        for (int owner = by_owners ? 0 : -1; owner < (by_owners ? ranks : 0); owner++)
            look(batch, &(struct context_split){r, ranks}, causal, owner, seen);
    for (int64_t s = 0; s < batch->rows * batch->max_segments; s++)
        for (int64_t i = 0; i < batch->segment_length[s]; i++)
            for (int64_t j = 0; j < batch->segment_length[s]; j++)
                wanted[(batch->segment_start[s] + i) * tokens + batch->segment_start[s] + j] = !causal || j <= i;
    if (!CHECK(memcmp(seen, wanted, (size_t)(tokens * tokens)) == 0))
        fprintf(stderr, "    %d ranks, causal %d, keys %s\n", ranks, causal, by_owners ? "of each" : "of rows");
    memory_free(seen);
    memory_free(wanted);
}

/* Every token has its place on one rank, with its label, position and factor. */
static void check_parts(const struct batch *batch, int ranks)
{
    int64_t valid = 0, real = 0;
    for (int r = 0; r < ranks; r++) {
        struct batch part;
        int wrong = 0;
        batch_create(&part, batch->rows, batch->row_tokens / ranks, 0);
        context_split_batch(&(struct context_split){r, ranks}, batch, &part);
        for (int64_t t = 0; t < part.rows * part.row_tokens; t++) {
            const int64_t at =
                t / part.row_tokens * batch->row_tokens + place(t % part.row_tokens, batch->row_tokens, r, ranks);
            wrong += part.tokens[t] != batch->tokens[at] || part.labels[t] != batch->labels[at] ||
                     part.positions[t] != batch->positions[at] || part.scale[t] != batch->scale[at];
        }
        CHECK(wrong == 0);
        CHECK(part.number / ranks == batch->number && part.number % ranks == r);
        valid += part.valid, real += part.real;
        batch_destroy(&part);
    }
    CHECK(valid == batch->valid && real == batch->real);
}

/* The published arrays of the recipes' collator (shared/spec/recipes.md 4.5). They cut each sequence, and pad it to
 * whole slices; one sequence a row, padded to the same, is cut alike. */
static void check_recipe(const int *tokens, int64_t count, int ranks, int rank, const int *wanted,
                         const int *wanted_labels)
{
    const int64_t row_tokens = (count + 2 * ranks - 1) / (2 * ranks) * (2 * ranks);
    struct batch batch, part;
    batch_create(&batch, 1, row_tokens, 1);
    batch_clear(&batch, 1);
    for (int64_t t = 0; t < count; t++) {
        batch.tokens[t] = tokens[t];
        batch.labels[t] = t + 1 < count ? tokens[t + 1] : BATCH_IGNORED;
    }
    batch.segment_length[0] = (int32_t)count;
    batch_create(&part, 1, row_tokens / ranks, 0);
    context_split_batch(&(struct context_split){rank, ranks}, &batch, &part);
    for (int64_t t = 0; t < part.row_tokens; t++)
        CHECK(part.tokens[t] == wanted[t] && (wanted_labels == NULL || part.labels[t] == wanted_labels[t]));
    batch_destroy(&part);
    batch_destroy(&batch);
}

static void test_cut(void)
{
    enum { NONE = BATCH_IGNORED };
    static const int first[] = {0, 5, 6, 7, 8, 9, 10, 2}, second[] = {0, 11, 12, 13, 14, 15, 16, 17, 2};
    static const int sixteen[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    check_recipe(first, 8, 2, 0, (int[]){0, 5, 10, 2}, (int[]){5, 6, 2, NONE});
    check_recipe(first, 8, 2, 1, (int[]){6, 7, 8, 9}, (int[]){7, 8, 9, 10});
    check_recipe(second, 9, 2, 0, (int[]){0, 11, 12, 1, 1, 1}, (int[]){11, 12, 13, NONE, NONE, NONE});
    check_recipe(second, 9, 2, 1, (int[]){13, 14, 15, 16, 17, 2}, (int[]){14, 15, 16, 17, 2, NONE});
    check_recipe(sixteen, 8, 2, 0, (int[]){1, 2, 7, 8}, NULL);
    check_recipe(sixteen, 8, 2, 1, (int[]){3, 4, 5, 6}, NULL);
    check_recipe(sixteen, 16, 4, 0, (int[]){1, 2, 15, 16}, NULL);
    check_recipe(sixteen, 16, 4, 1, (int[]){3, 4, 13, 14}, NULL);
    for (uint64_t key = 0; key < 4; key++)
        for (int packed = 0; packed < 2; packed++) {
            struct batch batch;
            make_batch(&batch, ROW_TOKENS, packed, key);
            for (int ranks = 2; ranks <= 8; ranks += ranks == 4 ? 2 : ranks == 6 ? 2 : 1) {
                check_parts(&batch, ranks);
                for (int i = 0; i < 4; i++)
                    check_tables(&batch, ranks, i & 1, i & 2);
            }
            batch_destroy(&batch);
        }
}

/* -- Whole models ------------------------------------------------------------------------------------------------- */

struct team {
    struct grid grid;
    struct group *data, *context;
};

static void team_create(struct team *team, struct comm *comm, int context)
{
    if (grid_create(&team->grid, comm, &(struct grid_shape){.tensor = 1, .context = context}) != ERROR_NONE)
        error_fatal("%s", error_message());
    team->data = comm_group_create(team->grid.data, NULL, "data");
    team->context = comm_group_create(team->grid.context, NULL, "context");
}

static void team_destroy(struct team *team)
{
    comm_group_destroy(team->data);
    comm_group_destroy(team->context);
    grid_destroy(&team->grid);
}

struct layout {
    enum toy_kind kind;
    enum deck_context method;
    bool packed;
    int micro_batches;
    enum dtype compute;
    enum deck_recompute recompute;
    int recipe;
    int64_t row_tokens; /* 0: ROW_TOKENS */
    bool split;         /* two slots, and backward in two halves */
};

static int64_t row_tokens_of(const struct layout *layout)
{
    return layout->row_tokens > 0 ? layout->row_tokens : ROW_TOKENS;
}

/* Heads that the method can divide; of 4 and 6 ranks several have the same key and value head. */
static struct toy_options options_of(struct executor *executor, const struct layout *layout, int ranks)
{
    struct toy_options options = toy_options(executor);
    options.settings = toy_settings(layout->kind);
    options.settings.precision = toy_precision(layout->recipe);
    if (ranks % 3 == 0)
        options.settings.heads = 6, options.settings.kv_heads = layout->kind <= TOY_LLAMA_TIED ? 3 : 6;
    options.compute = layout->compute;
    options.recompute = layout->recompute;
    options.rows = ROWS;
    options.row_tokens = row_tokens_of(layout);
    options.max_segments = layout->packed ? MAX_SEGMENTS : 1;
    options.slots = layout->split ? 2 : 1;
    options.split_backward = layout->split;
    return options;
}

/* In the first micro-batch the last rank of each row has no label. */
static void make_micro_batch(struct batch *batch, const struct layout *layout, int number, int ranks)
{
    make_batch(batch, row_tokens_of(layout), layout->packed, (uint64_t)number);
    for (int64_t t = 0; t < batch->rows * batch->row_tokens && number == 0; t++) {
        const int64_t slice = t % batch->row_tokens / (batch->row_tokens / (2 * ranks));
        if (slice == ranks - 1 || slice == ranks)
            batch->labels[t] = BATCH_IGNORED;
    }
}

struct run_outcome {
    struct engine_result result, evaluated;
    char *gradients; /* as toy_gradients */
    int64_t bytes;
};

/* Of micro-batches first, first + apart, ... */
static struct run_outcome run_toy(struct toy *toy, const struct layout *layout, int first, int apart, int count,
                                  int ranks)
{
    struct batch batches[MOST_MICRO * MOST_DATA];
    struct run_outcome outcome;
    struct schedule schedule = schedule_create(count, layout->split ? 2 : 1, layout->split);
    for (int m = 0; m < count; m++)
        make_micro_batch(&batches[m], layout, first + m * apart, ranks);
    outcome.evaluated = engine_evaluate(&toy->engine, batches, count);
    outcome.result = engine_gradients(&toy->engine, &schedule, batches);
    outcome.gradients = toy_gradients(toy, &outcome.bytes);
    for (int m = 0; m < count; m++)
        batch_destroy(&batches[m]);
    schedule_destroy(&schedule);
    return outcome;
}

static struct run_outcome run_alone(struct executor *executor, const struct layout *layout, int ranks, int data_ranks)
{
    struct toy toy;
    struct toy_options options = options_of(executor, layout, ranks);
    toy_create(&toy, &options);
    struct run_outcome outcome = run_toy(&toy, layout, 0, 1, layout->micro_batches * data_ranks, ranks);
    toy_destroy(&toy);
    return outcome;
}

static void open_shared(struct toy *toy, struct executor *executor, const struct layout *layout,
                        const struct team *team)
{
    struct toy_options options = options_of(executor, layout, team->context->size);
    struct parallel_groups groups = groups_replicated(team->data);
    groups.context = team->context;
    options.groups = &groups;
    options.settings.context = (struct context_parallel){.ranks = team->context->size, .method = layout->method};
    options.replays = true; /* where the executor can */
    toy_create(toy, &options);
}

static struct run_outcome run_team(struct toy *toy, const struct layout *layout, const struct team *team)
{
    return run_toy(toy, layout, team->grid.data_rank, team->grid.data_ranks, layout->micro_batches,
                   team->context->size);
}

struct distance {
    double loss, worst, all; /* relative: of the loss, of the parameter that is furthest, of all gradients together */
};

/* of: the toy's shape. */
static struct distance distance_of(const struct toy *shape, const struct run_outcome *a, const struct run_outcome *b)
{
    struct distance d = {.loss = fabs(a->result.loss_sum / b->result.loss_sum - 1)};
    const float *x = (const float *)a->gradients, *y = (const float *)b->gradients;
    double all = 0, all_of = 0;
    CHECK(a->bytes == b->bytes && a->result.labels == b->result.labels && a->evaluated.labels == b->result.labels);
    for (int u = 0; u < shape->model.unit_count; u++) {
        const struct unit *unit = &shape->model.units[u];
        for (int s = 0; s < STORAGE_COUNT; s++) {
            for (int p = 0; p < unit->parameter_count; p++) {
                const struct parameter *parameter = &unit->parameters[p];
                if ((int)parameter->storage != s)
                    continue;
                double apart = 0, size = 0;
                for (int64_t i = parameter->offset; i < parameter->offset + parameter->rows * parameter->cols; i++) {
                    apart += ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
                    size += (double)y[i] * y[i];
                }
                all += apart, all_of += size;
                /* the gradient of keys' biases is zero but for rounding: softmax takes out what all keys share */
                const bool zero = strstr(parameter->name, "key.bias") != NULL;
                if (!zero && !(sqrt(apart) <= d.worst * sqrt(size)))
                    d.worst = sqrt(apart / size);
            }
            x += unit->elements[s], y += unit->elements[s];
        }
    }
    CHECK((const char *)x == a->gradients + a->bytes);
    d.all = sqrt(all / all_of);
    const double evaluated = fabs(a->evaluated.loss_sum / b->evaluated.loss_sum - 1);
    if (!(evaluated <= d.loss))
        d.loss = evaluated;
    return d;
}

static struct distance compare(struct executor *executor, const struct layout *layout, const struct team *team,
                               const struct run_outcome *wanted)
{
    struct toy toy;
    open_shared(&toy, executor, layout, team);
    struct run_outcome got = run_team(&toy, layout, team);
    struct distance d = distance_of(&toy, &got, wanted);
    free(got.gradients);
    toy_destroy(&toy);
    return d;
}

static const char *name_of(enum deck_context method)
{
    static const char *const names[] = {
        [DECK_CONTEXT_GATHER] = "gather", [DECK_CONTEXT_HEADS] = "heads", [DECK_CONTEXT_RING] = "ring"};
    return names[method];
}

static void report(const struct team *team, const struct layout *layout, const char *what, struct distance d)
{
    if (team->grid.world->rank == 0)
        printf("%d ranks, %s, model %d in %s%s, %s%s: loss %.1e, gradients %.1e, worst %.1e\n", team->context->size,
               name_of(layout->method), (int)layout->kind, dtype_name(layout->compute),
               layout->recipe != DECK_RECIPE_NONE ? " and 8 bits" : "", layout->packed ? "packed" : "padded", what,
               d.loss, d.all, d.worst);
}

/* -- In fp32: one rank's losses and gradients, but for the order of sums ------------------------------------------ */

static bool is_equal(struct distance d)
{
    return d.loss <= 1e-6 && d.worst <= 1e-5;
}

static void test_equal(struct executor *cpu, const struct team *team, enum toy_kind kind, bool packed)
{
    static const enum deck_recompute policies[] = {DECK_RECOMPUTE_NONE, DECK_RECOMPUTE_QKV, DECK_RECOMPUTE_FULL};
    struct layout layout = {.kind = kind, .packed = packed, .micro_batches = packed ? MOST_MICRO : 1};
    struct run_outcome wanted = run_alone(cpu, &layout, team->context->size, team->grid.data_ranks);
    const struct model_settings settings = toy_settings(kind);
    const enum deck_context last = model_has_window(&settings) ? DECK_CONTEXT_HEADS : DECK_CONTEXT_RING;
    for (layout.method = DECK_CONTEXT_GATHER; layout.method <= last; layout.method++) {
        layout.recompute = policies[((int)kind + packed + (int)layout.method) % 3];
        layout.split = packed && kind != TOY_LLAMA_TIED;
        struct distance d = compare(cpu, &layout, team, &wanted);
        report(team, &layout, "", d);
        CHECK(is_equal(d));
    }
    free(wanted.gradients);
}

/* -- Of fewer bits ------------------------------------------------------------------------------------------------- */

/* Rounding differs where sums differ in their last bit, as they do between any two orders, and a ring rounds the parts
 * that it merges. So what ranks that share rows find is about as far from fp32 as what one rank finds, and the two
 * losses are no further apart than both ways together; gradients, of many numbers, differ by less. A fault adds to
 * that. */
static void test_rounded(struct executor *cpu, const struct team *team, struct layout layout, double share)
{
    struct layout exact = layout;
    exact.compute = DTYPE_F32;
    exact.recipe = DECK_RECIPE_NONE;
    const int ranks = team->context->size, data_ranks = team->grid.data_ranks;
    struct run_outcome fp32 = run_alone(cpu, &exact, ranks, data_ranks);
    struct run_outcome alone = run_alone(cpu, &layout, ranks, data_ranks);
    struct toy toy;
    struct toy_options options = options_of(cpu, &layout, ranks);
    toy_create(&toy, &options);
    struct distance way = distance_of(&toy, &alone, &fp32);
    toy_destroy(&toy);
    for (layout.method = DECK_CONTEXT_GATHER; layout.method <= DECK_CONTEXT_RING; layout.method++) {
        struct distance d = compare(cpu, &layout, team, &alone);
        report(team, &layout, "", d);
        CHECK(d.all <= share * way.all && d.loss <= 2 * share * way.loss + 1e-6);
    }
    if (team->grid.world->rank == 0)
        printf("    from fp32: loss %.1e, gradients %.1e\n", way.loss, way.all);
    free(fp32.gradients);
    free(alone.gradients);
}

/* -- Planted faults ------------------------------------------------------------------------------------------------ */

enum fault {
    SWAPPED_RANKS,  /* slices of two ranks change places when they are gathered or exchanged */
    OFFSET,         /* attention's queries see one token more, or less where that is none */
    SHIFT_LEFT_OUT, /* the second block is the first again */
    MERGE_FORGETS,  /* what was merged before is lost */
    MERGE_WEIGHS,   /* parts count alike, whatever their lse */
    D_LEFT_OUT,     /* a rank does not add its part to the gradients of keys and values */
    D_OVERWRITES,   /* the second launch of a backward replaces what the first has found */
    FAULTS
};

struct plan_of_faults {
    enum fault fault;
    int seen; /* launches that could have been wrong */
};

static void swap_rows(const struct tensor *x)
{
    const int64_t bytes = x->cols * dtype_size(x->dtype);
    char *keep = memory_allocate(bytes);
    memcpy(keep, tensor_at(x, 0, 0), (size_t)bytes);
    memcpy(tensor_at(x, 0, 0), tensor_at(x, 1, 0), (size_t)bytes);
    memcpy(tensor_at(x, 1, 0), keep, (size_t)bytes);
    memory_free(keep);
}

static void plant_at_attention(struct wrapper *wrapper, struct stream *stream,
                               const struct attention_forward_args *args)
{
    struct attention_forward_args wrong = *args;
    const int64_t slots = args->segments.q_offset.cols;
    int32_t *offsets = memory_allocate(slots * (int64_t)sizeof *offsets);
    for (int64_t s = 0; s < slots; s++)
        offsets[s] = ((const int32_t *)args->segments.q_offset.data)[s] - 1;
    wrong.segments.q_offset.data = offsets;
    wrapper_pass(wrapper, stream, OP_ATTENTION_FORWARD, &wrong);
    memory_free(offsets);
}

static void plant_at_merge(struct wrapper *wrapper, struct stream *stream, const struct attention_merge_args *args,
                           enum fault fault)
{
    struct attention_merge_args wrong = *args;
    if (fault == MERGE_FORGETS)
        wrong.first = true;
    for (int64_t i = 0; fault == MERGE_WEIGHS && i < tensor_count(&args->lse); i++)
        if (((float *)args->part_lse.data)[i] > -INFINITY)
            ((float *)args->part_lse.data)[i] = 0;
    wrapper_pass(wrapper, stream, OP_ATTENTION_MERGE, &wrong);
}

static void plant(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args)
{
    struct plan_of_faults *plan = wrapper->self;
    const enum fault fault = plan->fault;
    const struct attention_backward_args *b = args;
    if (fault == OFFSET && op == OP_ATTENTION_FORWARD) {
        plan->seen++;
        plant_at_attention(wrapper, stream, args);
    } else if ((fault == MERGE_FORGETS || fault == MERGE_WEIGHS) && op == OP_ATTENTION_MERGE) {
        plan->seen++;
        plant_at_merge(wrapper, stream, args, fault);
    } else if (fault == D_OVERWRITES && op == OP_ATTENTION_BACKWARD && b->accumulate_kv) {
        struct attention_backward_args wrong = *b;
        plan->seen++;
        wrong.accumulate_kv = false;
        wrapper_pass(wrapper, stream, op, &wrong);
    } else if (fault == D_LEFT_OUT && op == OP_ADD) {
        plan->seen++;
    } else if (fault == SHIFT_LEFT_OUT && op == OP_SHIFT) {
        const struct shift_args *shift = args;
        plan->seen++;
        wrapper_pass(wrapper, stream, op, args); /* ranks must meet */
        memcpy(shift->out.data, shift->in.data, (size_t)tensor_extent(&shift->in));
    } else {
        wrapper_pass(wrapper, stream, op, args);
    }
    if (fault == SWAPPED_RANKS && op == OP_ALL_GATHER)
        plan->seen++, swap_rows(&((const struct all_gather_args *)args)->out);
    if (fault == SWAPPED_RANKS && op == OP_ALL_TO_ALL)
        plan->seen++, swap_rows(&((const struct all_to_all_args *)args)->out);
}

static void test_fault(struct executor *cpu, const struct team *team, enum deck_context method, enum fault fault)
{
    struct plan_of_faults plan = {.fault = fault};
    struct wrapper planter;
    struct layout layout = {.kind = TOY_LLAMA, .method = method, .packed = true, .micro_batches = 1};
    struct run_outcome wanted = run_alone(cpu, &layout, team->context->size, team->grid.data_ranks);
    wrapper_create(&planter, cpu, plant, &plan);
    struct distance d = compare(&planter.executor, &layout, team, &wanted);
    if (!CHECK(plan.seen > 0 && !is_equal(d)))
        fprintf(stderr, "    fault %d of %s: %d launches, %.1e\n", (int)fault, name_of(method), plan.seen, d.worst);
    free(wanted.gradients);
}

static void test_faults(struct executor *cpu, const struct team *team)
{
    static const struct {
        enum deck_context method;
        enum fault fault;
    } cases[] = {
        {DECK_CONTEXT_GATHER, SWAPPED_RANKS}, {DECK_CONTEXT_GATHER, OFFSET},     {DECK_CONTEXT_GATHER, D_OVERWRITES},
        {DECK_CONTEXT_HEADS, SWAPPED_RANKS},  {DECK_CONTEXT_RING, OFFSET},       {DECK_CONTEXT_RING, SHIFT_LEFT_OUT},
        {DECK_CONTEXT_RING, MERGE_FORGETS},   {DECK_CONTEXT_RING, MERGE_WEIGHS}, {DECK_CONTEXT_RING, D_LEFT_OUT},
        {DECK_CONTEXT_RING, D_OVERWRITES},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        test_fault(cpu, team, cases[i].method, cases[i].fault);
}

/* -- Streams and memory -------------------------------------------------------------------------------------------- */

/* What a pass finds in memory that it has not written makes no difference. */
static void test_poison(struct executor *cpu, const struct team *team, enum deck_context method)
{
    struct toy toy;
    struct layout layout = {.kind = TOY_LLAMA, .method = method, .packed = true, .micro_batches = 1};
    open_shared(&toy, cpu, &layout, team);
    struct run_outcome clean = run_team(&toy, &layout, team);
    memset(toy.engine.memory.transient_base, 0xff, (size_t)toy.engine.memory.transient_bytes); /* NaN */
    memset(toy.engine.memory.kept_base, 0xff, (size_t)toy.engine.memory.chunks[0].slot_bytes);
    struct run_outcome poisoned = run_team(&toy, &layout, team);
    CHECK(memcmp(clean.gradients, poisoned.gradients, (size_t)clean.bytes) == 0);
    CHECK(clean.result.loss_sum == poisoned.result.loss_sum);
    const struct id_set *kept = &toy.engine.memory.units[1].kept; /* of the first block */
    CHECK(!id_set_has(kept, BLOCK_EXCHANGE + GATHER_KV));
    /* heads: backward reads queries, keys and values of whole rows, not those of its own tokens */
    CHECK(id_set_has(kept, BLOCK_EXCHANGE + HEADS_FUSED) == (method == DECK_CONTEXT_HEADS));
    CHECK(id_set_has(kept, BLOCK_QKV_OUT) == (method != DECK_CONTEXT_HEADS));
    free(clean.gradients);
    free(poisoned.gradients);
    toy_destroy(&toy);
}

/* Steps on an executor that does everything later, and replays parts of them: what the device reads is there when it
 * does, and recordings hold the exchanges. */
static void test_replays(struct executor *cpu, const struct team *team, enum deck_context method)
{
    enum { STEPS = 4 };
    struct executor *late = late_executor_create(cpu);
    char *states[2];
    int64_t bytes = 0;
    for (int i = 0; i < 2; i++) {
        struct layout layout = {.kind = TOY_ESM2, .method = method, .packed = true, .micro_batches = 1};
        struct schedule schedule = schedule_create(1, 1, false);
        struct toy toy;
        open_shared(&toy, i == 0 ? cpu : late, &layout, team);
        for (int step = 0; step < STEPS; step++) {
            struct batch batch;
            make_micro_batch(&batch, &layout, step * team->grid.data_ranks + team->grid.data_rank, team->context->size);
            engine_begin(&toy.engine, &schedule, &batch, 1e-2);
            batch_destroy(&batch);
            engine_take(&toy.engine);
        }
        states[i] = toy_state(&toy, &bytes);
        schedule_destroy(&schedule);
        toy_destroy(&toy);
    }
    CHECK(memcmp(states[0], states[1], (size_t)bytes) == 0);
    CHECK(late_replays(late) >= (STEPS - 2) * 3); /* forward, backward, update; two steps come before the first */
    free(states[0]);
    free(states[1]);
    late->class->destroy(late);
}

/* Each wait of the stream of exchanges is needed, and every order that events allow gives the same bits. The orders are
 * of a model that is not causal, whose ranks launch the same: collectives must meet. */
static void test_orders(struct executor *cpu, const struct team *team, enum toy_kind kind)
{
    struct executor *record = record_executor_create(cpu);
    struct layout layout = {.kind = kind, .method = DECK_CONTEXT_RING, .packed = true, .micro_batches = 1};
    struct toy toy;
    struct launch_race race;
    open_shared(&toy, record, &layout, team);
    record_clear(record);
    struct run_outcome eager = run_team(&toy, &layout, team);
    const struct plan_log *log = record_executor_log(record);
    if (!CHECK(race_check(log, -1, &race, 1) == 0)) {
        char *text = race_describe(&race);
        fprintf(stderr, "    %s\n", text);
        free(text);
    }
    int waits = 0;
    for (int64_t e = 0; e < log->count; e++) {
        const struct plan_entry *entry = &log->entries[e];
        if (entry->kind != PLAN_WAIT || entry->record < 0 ||
            (entry->stream != STREAM_EXCHANGE && log->entries[entry->record].stream != STREAM_EXCHANGE))
            continue;
        waits++;
        if (!CHECK(race_check(log, e, NULL, 0) > 0))
            fprintf(stderr, "    without wait %d\n", waits);
    }
    /* for each block: a fork and a join for each step of a forward but the last, in evaluation and in training, and for
     * each of a backward and one more */
    const int ranks = team->context->size, layers = (int)toy.model.settings.layers;
    CHECK(waits == layers * 2 * (2 * (ranks - 1) + ranks + 1));
    for (uint64_t order = 0; order < 5 && kind == TOY_AMPLIFY; order++) {
        int64_t bytes;
        record_replay(record, RECORD_RANDOM, order, -1);
        char *after = toy_gradients(&toy, &bytes);
        CHECK(bytes == eager.bytes && memcmp(after, eager.gradients, (size_t)bytes) == 0);
        free(after);
    }
    free(eager.gradients);
    toy_destroy(&toy);
    record->class->destroy(record);
}

/* Heads that no rank can have alike. */
static void test_refusals(void)
{
    struct model_settings s = toy_settings(TOY_LLAMA); /* 4 heads, 2 for keys and values */
    s.context = (struct context_parallel){.ranks = 3, .method = DECK_CONTEXT_HEADS};
    CHECK(attention_check(&s) == ERROR_USER);
    s.heads = 12, s.kv_heads = 4;
    s.context.ranks = 6;
    CHECK(attention_check(&s) == ERROR_USER);
    s.context.method = DECK_CONTEXT_RING;
    CHECK(attention_check(&s) == ERROR_NONE);
    s.context = (struct context_parallel){.ranks = 12, .method = DECK_CONTEXT_HEADS};
    CHECK(attention_check(&s) == ERROR_NONE);
    s = toy_settings(TOY_MISTRAL);
    s.context = (struct context_parallel){.ranks = 2, .method = DECK_CONTEXT_RING};
    CHECK(attention_check(&s) == ERROR_USER);
    s.context.method = DECK_CONTEXT_GATHER;
    CHECK(attention_check(&s) == ERROR_NONE);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    struct comm *world = comm_open_mpi();
    struct executor *cpu = cpu_executor_create(1);
    if (world->rank == 0) {
        test_cut();
        test_refusals();
    }
    for (int size = 2; size <= 6; size++) { /* 4 ranks leave two, which share rows too */
        struct comm *some = size == 4 ? comm_split(world, world->rank / 4) : NULL;
        struct comm *comm = some != NULL ? some : world;
        struct team team;
        if (size == 5)
            continue;
        team_create(&team, comm, size < comm->size ? size : comm->size);
        for (enum toy_kind kind = TOY_LLAMA; kind < TOY_KINDS; kind++)
            for (int packed = 0; packed < 2; packed++)
                test_equal(cpu, &team, kind, packed);
        if (size == 3) {
            test_rounded(cpu, &team,
                         (struct layout){TOY_LLAMA, .packed = true, .micro_batches = 1, .compute = DTYPE_BF16}, 1);
            test_rounded(cpu, &team,
                         (struct layout){TOY_ESM2, .packed = true, .micro_batches = 1, .compute = DTYPE_BF16}, 1);
            test_faults(cpu, &team);
            test_orders(cpu, &team, TOY_LLAMA);
            test_orders(cpu, &team, TOY_AMPLIFY);
            for (enum deck_context method = DECK_CONTEXT_GATHER; method <= DECK_CONTEXT_RING; method++)
                test_poison(cpu, &team, method), test_replays(cpu, &team, method);
        }
        if (size == 6) { /* pairs of ranks have the same key and value head */
            test_rounded(cpu, &team,
                         (struct layout){TOY_LLAMA, .packed = true, .micro_batches = 1, .compute = DTYPE_BF16}, 1);
            test_fault(cpu, &team, DECK_CONTEXT_HEADS, D_LEFT_OUT);
        }
        if (size == 2) { /* blocks of 128 tokens */
            test_rounded(cpu, &team,
                         (struct layout){TOY_LLAMA, .packed = true, .micro_batches = 1, .recipe = DECK_RECIPE_BLOCK,
                                         .row_tokens = 1536},
                         0.2);
        }
        team_destroy(&team);
        comm_destroy(some);
    }
    cpu->class->destroy(cpu);
    comm_destroy(world);
    MPI_Finalize();
    return check_end();
}
