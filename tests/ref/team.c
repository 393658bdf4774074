#include "ref/team.h"
#include "ref/late.h"
#include "base/error.h"
#include "base/memory.h"
#include "state/slab.h"
#include "setup/layout.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct sharding team_shardings[TEAM_SHARDINGS] = {
    {.level = SHARD_NONE},      {.level = SHARD_OPTIMIZER},
    {.level = SHARD_GRADIENTS}, {.level = SHARD_GRADIENTS, .whole_gradients = true},
    {.level = SHARD_FULL},      {.level = SHARD_FULL, .whole_gradients = true}};

struct comm *team_comm(struct comm *world, const int sizes[])
{
    int color = 0, first = 0;
    while (world->rank >= first + sizes[color])
        first += sizes[color++];
    return comm_split(world, color);
}

static int layout_tensor(const struct layout *layout)
{
    return layout->tensor > 1 ? layout->tensor : 1;
}

const char *team_text(int ranks, const struct layout *l, const struct form *f)
{
    static const char *const levels[] = {"none", "optimizer", "gradients", "full"};
    static const char *const methods[] = {"auto", "gather", "heads", "ring"};
    static const char *const kinds[] = {"Llama",   "tied Llama", "ESM-2",   "AMPLIFY", "Qwen",
                                        "Mistral", "ESM C",      "Mixtral", "OLMo 2",  "NT v2"};
    static char text[300];
    snprintf(text, sizeof text,
             "%d ranks: %d stages of %d, %d to a layer%s, %d to a row by %s, %d to a state, %s%s%s%s; %s, %s%s, %d "
             "micro-batches, %s, "
             "recipe %d, "
             "recompute %d, %d slots%s%s%s%s%s%s%s",
             ranks, l->stages, l->chunks, layout_tensor(l), l->whole_rows ? " with whole rows" : "", l->context,
             methods[l->method], l->shard, levels[l->sharding.level],
             l->sharding.whole_gradients ? ", whole gradients" : "",
             l->near > 0             ? ", bf16 sums by nodes"
             : l->sharding.bf16_sums ? ", bf16 sums"
                                     : "",
             l->sharding.no_masters ? ", no masters" : "", kinds[f->kind], f->gathers ? "gathered, " : "",
             f->packed ? "packed" : "padded", f->micro_batches, dtype_name(f->compute), f->recipe, (int)f->recompute,
             f->slots, f->split_backward ? ", split" : "", f->replays ? ", replayed" : "",
             f->poisoned ? ", poisoned" : "", f->offloaded ? ", offloaded" : "", f->frozen ? ", frozen" : "",
             f->adapted ? ", adapted" : "", f->muon ? ", Muon" : "");
    return text;
}

/* -- Rows -------------------------------------------------------------------------------------------------------- */

enum { MAX_SEGMENTS = 4 };

/* In fp32 about one token in four of a masked model has a label, fewer than the head's rows have room for, but in the
 * third step more, and the head computes all rows. In bf16 it always does, as label_probability says: with few labels,
 * gradients would vary more with bf16's roundings than bounds from one training allow. */
enum { LABEL_EVERY = 3, FULL_STEP = 2 };

static double label_probability(const struct form *form)
{
    return form->compute == DTYPE_F32 ? 0.1 : 0.9;
}

static bool is_masked(const struct form *form)
{
    return !toy_settings(form->kind).family->causal;
}

static void thin_labels(int32_t *labels, int64_t count)
{
    for (int64_t t = 0; t < count; t++)
        if (t % LABEL_EVERY != 0)
            labels[t] = BATCH_IGNORED;
}

static void fill_rows(struct batch *global, const struct form *form, int step)
{
    toy_batch(global, TEAM_ROWS, TEAM_ROW_TOKENS, (uint64_t)step);
    global->valid = 0;
    const int64_t labelled = step % 2 == 1 ? TEAM_ROWS - 3 : TEAM_ROWS;
    for (int64_t r = 0; r < TEAM_ROWS; r++) {
        int32_t *start = global->segment_start + r * MAX_SEGMENTS, *length = global->segment_length + r * MAX_SEGMENTS;
        const int64_t first = r * TEAM_ROW_TOKENS, keep = r < labelled ? 9 + 6 * r : 0;
        int64_t end = first;
        for (int s = 0; s < MAX_SEGMENTS; s++)
            end = length[s] > 0 ? start[s] + length[s] : end;
        if (!form->packed) { /* the same tokens as one segment */
            start[0] = (int32_t)first;
            length[0] = (int32_t)(end - first);
            memset(length + 1, 0, (MAX_SEGMENTS - 1) * sizeof *length);
            for (int64_t t = first; t < end; t++)
                global->positions[t] = (int32_t)(t - first);
        }
        for (int64_t t = first + keep; t < first + TEAM_ROW_TOKENS; t++)
            global->labels[t] = BATCH_IGNORED;
        if (is_masked(form) && form->compute == DTYPE_F32 && step != FULL_STEP)
            thin_labels(global->labels + first, TEAM_ROW_TOKENS);
        for (int64_t t = first; t < first + keep; t++)
            global->valid += global->labels[t] >= 0;
    }
}

static void copy_row(struct batch *batch, int64_t to, const struct batch *global, int64_t from)
{
    const int64_t here = to * TEAM_ROW_TOKENS, there = from * TEAM_ROW_TOKENS, n = TEAM_ROW_TOKENS;
    memcpy(batch->tokens + here, global->tokens + there, (size_t)n * sizeof *batch->tokens);
    memcpy(batch->labels + here, global->labels + there, (size_t)n * sizeof *batch->labels);
    memcpy(batch->positions + here, global->positions + there, (size_t)n * sizeof *batch->positions);
    memcpy(batch->scale + here, global->scale + there, (size_t)n * sizeof *batch->scale);
    memcpy(batch->dropout_keys + here, global->dropout_keys + there, (size_t)n * sizeof *batch->dropout_keys);
    for (int64_t t = 0; t < n; t++)
        batch->valid += batch->labels[here + t] >= 0;
    for (int64_t s = 0; s < batch->max_segments; s++) {
        const int32_t length = global->segment_length[from * MAX_SEGMENTS + s];
        batch->segment_length[to * batch->max_segments + s] = length;
        batch->segment_start[to * batch->max_segments + s] =
            length > 0 ? global->segment_start[from * MAX_SEGMENTS + s] + (int32_t)(here - there) : 0;
        batch->real += length;
    }
}

/* Assigns consecutive rows to each data rank, micro-batch by micro-batch. */
static void assign_rows(const struct team *team, struct batch *batch, const struct batch *global, int micro_batch)
{
    const int64_t first = ((int64_t)team->grid.data_rank * team->form.micro_batches + micro_batch) * team->rows;
    batch_create(batch, team->rows, TEAM_ROW_TOKENS, team->form.packed ? MAX_SEGMENTS : 1);
    batch_clear(batch, 1);
    batch->number = (int64_t)team->grid.data_rank * team->form.micro_batches + micro_batch;
    for (int64_t i = 0; i < team->rows && first + i < TEAM_ROWS; i++)
        copy_row(batch, i, global, first + i);
}

struct engine_result team_step(struct team *team, int number)
{
    enum { MOST = 24 };
    struct batch global, batches[MOST];
    fill_rows(&global, &team->form, number);
    team->step = number;
    team->labels = 0;
    team->all_labels = (double)global.valid;
    for (int m = 0; m < team->form.micro_batches; m++) {
        assign_rows(team, &batches[m], &global, m);
        team->labels += (double)batches[m].valid;
    }
    struct engine_result result = engine_step(&team->toy.engine, &team->schedule, batches, 5e-4);
    for (int m = 0; m < team->form.micro_batches; m++)
        batch_destroy(&batches[m]);
    batch_destroy(&global);
    return result;
}

/* -- Teams ------------------------------------------------------------------------------------------------------- */

struct model_settings team_settings(const struct layout *layout, const struct form *form)
{
    struct model_settings settings = toy_settings(form->kind);
    settings.heads = 24;
    settings.kv_heads = settings.family->causal ? 2 : settings.heads;
    settings.head_dim = 4;
    settings.context = (struct context_parallel){.ranks = layout->context, .method = layout->method};
    settings.tensor =
        (struct tensor_parallel){.ranks = layout_tensor(layout), .sequence = layout->tensor > 1 && !layout->whole_rows};
    settings.experts_per_token = form->all_experts ? settings.experts : settings.experts_per_token;
    settings.muon = form->muon;
    settings.tied = settings.tied && !form->gathers && !form->frozen;
    settings.freeze = form->frozen ? DECK_FREEZE_TRUNK : DECK_FREEZE_NONE;
    if (form->adapted) {
        settings.lora = (struct lora_settings){.rank = 4, .alpha = 6, .dropout = form->dropout};
        if (lora_read_targets(&settings.lora, settings.family, "all-linear") != ERROR_NONE)
            error_fatal("%s", error_message());
    }
    settings.layers = form->layers > 0 ? form->layers : settings.layers;
    if (form->offloaded)
        settings.recompute.offloaded = (struct layer_list){1, {{0, (int)settings.layers - 1}}};
    return settings;
}

/* Gives the second matrices of adapters, which begin as zeros, values that hide no fault. */
static void randomise_adapters(struct model *model, const void *self)
{
    (void)self;
    for (int u = model->head + 1; u < model->unit_count; u++)
        for (int i = 0; i < model->units[u].parameter_count; i++)
            model->units[u].parameters[i].initial = (struct initial_value){INIT_NORMAL, 0.2, -1};
}

/* Makes a group, for layout_groups. */
static struct group *make_group(void *self, enum layout_axis axis, const char *name)
{
    return comm_group_create(layout_comm(&((struct team *)self)->grid, axis), NULL, name);
}

static int64_t elements_of(const struct model *model)
{
    int64_t elements = 0;
    for (int u = 0; u < model->unit_count; u++)
        for (int s = 0; s < STORAGE_COUNT; s++)
            elements += model->units[u].elements[s];
    return elements;
}

void team_create(struct team *team, struct comm *comm, struct executor *executor, const struct layout *layout,
                 const struct form *form)
{
    *team = (struct team){.comm = comm, .form = *form};
    struct model_settings settings = team_settings(layout, form), whole;
    const struct grid_shape shape = {.tensor = layout_tensor(layout),
                                     .context = layout->context,
                                     .shard = layout->shard,
                                     .kv_replicas = model_kv_replicas(&settings),
                                     .stages = layout->stages,
                                     .near = layout->near};
    if (grid_create(&team->grid, comm, &shape) != ERROR_NONE)
        error_fatal("%s", error_message());
    const struct grid_numbers sizes = grid_sizes(&shape, comm->size);
    const struct grid_numbers place = grid_place(&shape, comm->size, comm->rank);
    grid_divide(&team->grid, &shape);
    team->groups = layout_groups(&sizes, executor, make_group, team);
    const int64_t places = (int64_t)team->grid.data_ranks * form->micro_batches;
    team->rows = (TEAM_ROWS + places - 1) / places;
    struct toy_options options = toy_options(executor);
    settings.pipeline = (struct pipeline_parallel){
        layout->stages, place.stages, layout->chunks,
        layout->stages * layout->chunks > options.settings.layers ? DECK_STAGES_ENDS : DECK_STAGES_LAYERS};
    if (is_masked(form) && !form->all_rows)
        settings.label_probability = label_probability(form);
    settings.mlp_tokens = form->mlp_tokens;
    whole = settings;
    whole.tensor = (struct tensor_parallel){0};
    model_create(&team->whole, &whole, 1, 1);
    settings.tensor.rank = team->grid.tensor->rank;
    options.settings = settings;
    options.tensor = team->grid.tensor;
    options.settings.precision = toy_precision(form->recipe);
    if (form->measured)
        options.settings.precision.statistics = (struct layer_list){1, {{0, (int)settings.layers}}};
    options.settings.embedding_ranks = form->gathers ? sizes.data : 1;
    options.groups = &team->groups;
    options.sharding = layout->sharding;
    options.compute = form->compute;
    options.slots = form->slots;
    options.split_backward = form->split_backward;
    options.replays = form->replays;
    options.recompute = form->recompute;
    options.rows = team->rows;
    options.row_tokens = TEAM_ROW_TOKENS;
    options.max_segments = form->packed ? MAX_SEGMENTS : 1;
    const struct pipeline_parallel *pipeline = &options.settings.pipeline;
    team->schedule = stage_count(pipeline) > 1
                         ? schedule_pipeline(form->micro_batches, pipeline)
                         : schedule_create(form->micro_batches, form->slots, form->split_backward);
    options.schedule = &team->schedule;
    options.place = form->adapted ? randomise_adapters : NULL;
    toy_create(&team->toy, &options);
    if (form->poisoned)
        poison_store(&team->poison, &team->toy.engine);
    team->elements = elements_of(&team->whole);
}

void team_destroy(struct team *team)
{
    schedule_destroy(&team->schedule);
    toy_destroy(&team->toy);
    model_destroy(&team->whole);
    layout_destroy(&team->groups);
    grid_destroy(&team->grid);
}

/* -- The whole state --------------------------------------------------------------------------------------------- */

static void read_tensor(const struct tensor *t, float *out)
{
    for (int64_t i = 0; i < tensor_count(t); i++)
        out[i] = (float)tensor_get(t, 0, i);
}

static void read_shard(struct stream *stream, const struct store_shard *shard, enum team_state state, float *out)
{
    if (state == TEAM_WEIGHT)
        master_read(stream, &shard->weight, out);
    else
        read_tensor(state == TEAM_GRADIENT ? &shard->gradient : state == TEAM_M ? &shard->m : &shard->v, out);
}

/* Returns the offset of a parameter in the concatenated flat buffers of all units. */
static int64_t place_of(const struct model *model, int unit, const struct parameter *p)
{
    int64_t at = 0;
    for (int u = 0; u < unit; u++)
        at += model->units[u].elements[STORAGE_MATRIX] + model->units[u].elements[STORAGE_VECTOR];
    return at + (p->storage == STORAGE_VECTOR ? model->units[unit].elements[STORAGE_MATRIX] : 0) + p->offset;
}

static int64_t spread_run(const float *own, float *whole, int64_t count)
{
    int64_t differ = 0;
    for (int64_t i = 0; i < count; i++) {
        if (own[i] == -INFINITY)
            continue;
        differ += memcmp(&own[i], &whole[i], sizeof *own) != 0;
        whole[i] = own[i];
    }
    return differ;
}

/* Copies this rank's part of each parameter to its place in the whole. Returns the number of elements that had other
 * bits there. */
static int64_t spread(const struct team *team, const float *own, float *whole)
{
    const struct model *model = &team->toy.model;
    int64_t differ = 0;
    for (int u = 0; u < model->unit_count; u++)
        for (int i = 0; i < model->units[u].parameter_count; i++) {
            const struct parameter *p = &model->units[u].parameters[i];
            const int64_t here = place_of(model, u, p), count = p->part.rows * p->part.cols;
            const int64_t there = place_of(&team->whole, u, &team->whole.units[u].parameters[i]);
            for (struct parameter_slab left = {0, count}; left.count > 0;) {
                const struct slab_run run = slab_run(p, left);
                differ += spread_run(own + here + left.first, whole + there + run.first, run.count);
                left = (struct parameter_slab){left.first + run.count, left.count - run.count};
            }
        }
    return differ;
}

bool team_gather(struct team *team, enum team_state state, float *whole)
{
    struct engine *engine = &team->toy.engine;
    const int64_t own_elements = elements_of(&team->toy.model);
    float *own = memory_allocate(own_elements * (int64_t)sizeof *own);
    int64_t at = 0;
    for (int64_t i = 0; i < own_elements; i++)
        own[i] = -INFINITY;
    for (int64_t i = 0; i < team->elements; i++)
        whole[i] = -INFINITY;
    for (int i = 0; i < STREAM_COUNT; i++)
        stream_synchronize(&engine->streams[i]);
    for (int u = 0; u < team->toy.model.unit_count; u++) {
        struct unit *unit = &team->toy.model.units[u];
        for (int s = 0; s < STORAGE_COUNT; s++) {
            const struct store_shard shard = engine->store->class->shard(engine->store, unit, (enum storage_class)s);
            if (tensor_present(&shard.weight.value))
                read_shard(&engine->streams[STREAM_COMPUTE], &shard, state, own + at + shard.first);
            at += unit->elements[s];
        }
    }
    stream_synchronize(&engine->streams[STREAM_COMPUTE]);
    spread(team, own, whole);
    struct tensor x = tensor_vector(whole, DTYPE_F32, team->elements);
    if (team->comm->size > 1)
        team->groups.all->class->all_reduce(
            team->groups.all, &engine->streams[STREAM_COMPUTE],
            &(struct all_reduce_args){.group = team->groups.all, .x = x, .maximum = true});
    const int64_t differ = spread(team, own, whole);
    memory_free(own);
    return comm_sum_i64(team->comm, differ) == 0;
}

/* -- Outcomes ---------------------------------------------------------------------------------------------------- */

struct run_outcome team_train(struct team *team)
{
    const int64_t bytes = team->elements * (int64_t)sizeof(float);
    struct run_outcome o = {
        .elements = team->elements, .first = memory_allocate(bytes), .last = memory_allocate(bytes), .agree = true};
    for (int s = 0; s < TEAM_STEPS; s++) {
        const struct engine_result result = team_step(team, s);
        o.losses[s] = result.loss_sum / result.labels;
        o.labels[s] = result.labels;
        o.norms[s] = result.grad_norm;
        if (s == 0)
            o.agree &= team_gather(team, TEAM_GRADIENT, o.first);
    }
    for (enum team_state state = TEAM_STATES - 1; state > TEAM_GRADIENT; state--)
        o.agree &= team_gather(team, state, o.last);
    o.agree &= team_gather(team, TEAM_GRADIENT, o.last);
    return o;
}

void outcome_destroy(struct run_outcome *outcome)
{
    memory_free(outcome->first);
    memory_free(outcome->last);
}

void outcome_share(struct comm *comm, struct run_outcome *outcome)
{
    struct run_outcome of_first = *outcome;
    comm_broadcast(comm, &of_first, sizeof of_first, 0);
    if (comm->rank > 0) {
        *outcome = of_first;
        outcome->first = memory_allocate(outcome->elements * (int64_t)sizeof(float));
        outcome->last = memory_allocate(outcome->elements * (int64_t)sizeof(float));
    }
    comm_broadcast(comm, outcome->first, outcome->elements * (int64_t)sizeof(float), 0);
    comm_broadcast(comm, outcome->last, outcome->elements * (int64_t)sizeof(float), 0);
}

static double relative_l2(const float *a, const float *b, int64_t count)
{
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < count; i++) {
        difference += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        norm += (double)b[i] * b[i];
    }
    return difference == 0 ? 0 : sqrt(difference / norm);
}

/* Keeps the larger value; NaN is the largest. */
static void keep_largest(double *largest, double value)
{
    if (!(value <= *largest))
        *largest = value;
}

/* Returns the relative difference of a step's norm from the length of its gradient, which is a sum over labels. */
static double off_length(double norm, const float *gradient, int64_t elements, double labels)
{
    double squares = 0;
    for (int64_t i = 0; i < elements; i++)
        if (gradient[i] != -INFINITY) /* padding */
            squares += (double)gradient[i] * gradient[i];
    return fabs(norm * labels / sqrt(squares) - 1);
}

struct distances outcome_apart(const struct run_outcome *a, const struct run_outcome *b, const struct model *model)
{
    struct distances d = {0};
    int64_t at = 0;
    for (int s = 0; s < TEAM_STEPS; s++) {
        keep_largest(&d.loss, fabs(a->losses[s] / b->losses[s] - 1));
        keep_largest(&d.norm, fabs(a->norms[s] / b->norms[s] - 1));
    }
    for (int u = 0; u < model->unit_count; u++) {
        const struct unit *unit = &model->units[u];
        for (int s = 0; s < STORAGE_COUNT; s++) {
            for (int i = 0; i < unit->parameter_count; i++) {
                const struct parameter *p = &unit->parameters[i];
                if (p->storage != (enum storage_class)s || unit->frozen)
                    continue;
                const int64_t count = p->part.rows * p->part.cols, from = at + p->offset;
                keep_largest(&d.first, relative_l2(a->first + from, b->first + from, count));
                keep_largest(&d.last, relative_l2(a->last + from, b->last + from, count));
            }
            at += unit->elements[s];
        }
    }
    const int end = TEAM_STEPS - 1;
    keep_largest(&d.length, off_length(a->norms[0], a->first, a->elements, a->labels[0]));
    keep_largest(&d.length, off_length(a->norms[end], a->last, a->elements, a->labels[end]));
    return d;
}

/* -- Comparison with one rank ------------------------------------------------------------------------------------- */

/* A norm is an f32. The last gradients come after updates, which divide by roots of small numbers: 1.1e-5 was observed
 * with layers, rows and state divided at once, on a CPU without AVX-512, and 0.23e-5 for the first ones. */
const struct distances bound_f32 = {.loss = 1e-6, .norm = 1e-5, .first = 1e-5, .last = 2e-5, .length = 0x1p-23};

/* The other training may be 1.5 times as far from fp32 as `one`, as t_golden allows, so the two differ by at most the
 * sum. Distances of gradients are measured over many elements, hence reliable. Loss and norm are one number per step,
 * which may be close to fp32 by luck in all steps. Therefore the other training's may be 2.5 times as far, and at least
 * half a unit of bf16 is allowed, for a norm on both sides. An error orthogonal to the gradient lengthens it by half of
 * the error's square. (The length distance checks that norms are computed correctly.) */
struct distances bound_of_rounding(const struct distances *one)
{
    const double both = 1 + 1.5, number = 1 + 2.5, half_ulp = 0x1p-9, across = both * fmax(one->first, one->last);
    return (struct distances){.loss = fmax(number * one->loss, half_ulp),
                              .norm = fmax(number * fmax(one->norm, half_ulp), across * across / 2),
                              .first = both * one->first,
                              .last = both * one->last,
                              .length = bound_f32.length};
}

struct run_outcome train_alone(struct comm *comm, struct executor *executor, const struct form *form, bool no_masters)
{
    struct run_outcome alone = {0};
    if (comm->rank == 0) {
        const struct layout layout = {.context = 1, .shard = 1, .sharding.no_masters = no_masters};
        struct form own = *form;
        own.replays = false;
        own.all_rows = true;
        struct comm *self = comm_self();
        struct team team;
        team_create(&team, self, executor, &layout, &own);
        alone = team_train(&team);
        team_destroy(&team);
        comm_destroy(self);
    }
    outcome_share(comm, &alone);
    return alone;
}

bool outcome_within(const struct run_outcome *outcome, const struct distances *apart, const struct run_outcome *alone,
                    const struct distances *bound)
{
    return outcome->agree && memcmp(outcome->labels, alone->labels, sizeof alone->labels) == 0 &&
           apart->loss <= bound->loss && apart->norm <= bound->norm && apart->first <= bound->first &&
           apart->last <= bound->last && apart->length <= bound->length;
}

bool layout_is_equal(struct comm *comm, struct executor *executor, const struct layout *layout, const struct form *form,
                     const struct run_outcome *alone, const struct distances *bound, struct distances *apart)
{
    struct executor *own = form->replays ? late_executor_create(executor) : executor;
    struct team team;
    team_create(&team, comm, own, layout, form);
    struct run_outcome outcome = team_train(&team);
    *apart = outcome_apart(&outcome, alone, &team.whole);
    const bool equal = outcome_within(&outcome, apart, alone, bound);
    outcome_destroy(&outcome);
    team_destroy(&team);
    if (form->replays) {
        if (late_replays(own) == 0)
            error_fatal("%s: nothing was replayed", team_text(comm->size, layout, form));
        own->class->destroy(own);
    }
    return equal;
}
