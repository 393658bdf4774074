#include "train/session.h"
#include "train/predictions.h"
#include "base/available.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "comm/threads.h"
#include "estimate/device_check.h"
#include "estimate/fit.h"
#include "estimate/fit_choice.h"
#include "setup/class_weights.h"
#include "setup/layout.h"
#include "estimate/layout_choice.h"
#include "setup/precision_text.h"
#include "estimate/rates_file.h"
#include "setup/settings.h"
#include "train/tuning.h"
#include "setup/model.h"

#include <stdlib.h>
#include <math.h>
#include <string.h>

enum { MADE_GRID = 1, MADE_EXECUTOR, MADE_GROUPS, MADE_TRAIN, MADE_VALID, MADE_ENGINE };

static struct group *make_group(void *self, enum layout_axis axis, const char *name)
{
    const struct session *s = self;
    return comm_group_create(layout_comm(&s->grid, axis), s->executor, name);
}

static int create_executor(struct session *s, device_make *make_executor)
{
    s->threads = threads_choose(s->grid.node, s->setup.threads);
    struct device_request request = s->setup.device;
    request.threads = s->threads;
    request.world = s->world;
    request.node = s->grid.node;
    int code = make_executor(&s->executor, &request);
    if (code == ERROR_NONE)
        s->made = MADE_EXECUTOR;
    return code;
}

/* Checks devices and links, if the deck requests it. */
static int check_devices(const struct session *s)
{
    const struct device_check_settings settings = {.slow = s->setup.check == DECK_CHECK_ALL ? DEVICE_CHECK_SLOW : 0};
    return s->setup.check != DECK_CHECK_OFF ? device_check(s->world, s->grid.node, s->executor, &settings) : ERROR_NONE;
}

static void create_groups(struct session *s)
{
    const struct grid_shape shape = layout_shape_on(s->setup.deck, s->world->size, s->executor->node_block);
    const struct grid_numbers sizes = grid_sizes(&shape, s->world->size);
    grid_divide(&s->grid, &shape);
    s->groups = layout_groups(&sizes, s->executor, make_group, s);
    s->made = MADE_GROUPS;
}

static int create_loader(struct session *s, struct loader **loader, const struct loader_settings *of_setup)
{
    struct loader_settings settings = *of_setup;
    settings.memory = available_memory("") / s->grid.node->size;
    return loader_create(loader, &settings, s->world, s->grid.data_rank, s->grid.data_ranks);
}

static int create_loaders(struct session *s)
{
    int code = create_loader(s, &s->train, &s->setup.train);
    if (code != ERROR_NONE)
        return code;
    s->made = MADE_TRAIN;
    if (!s->setup.validates)
        return ERROR_NONE;
    code = create_loader(s, &s->valid, &s->setup.valid);
    if (code != ERROR_NONE)
        return code;
    s->made = MADE_VALID;
    s->valid_steps = s->setup.validation_rows > 0 ? 1 : loader_steps_once(s->valid);
    return ERROR_NONE;
}

/* Warns that data.split_ratios does not split token stores: whoever expects it to would validate on training data. */
static void warn_of_parts(const struct session *s)
{
    const bool used = loader_has_megatron(s->train) || (s->valid != NULL && loader_has_megatron(s->valid));
    if (!s->setup.random && s->setup.parts[0] != '\0' && !used)
        log_warn("key data.split_ratios = \"%s\": applies to Megatron data sets only; token stores are used whole. "
                 "Split them with cistron prepare --split",
                 s->setup.parts);
}

/* Checks that training and validation have the same tokens. */
static int check_tokens(const struct session *s)
{
    const char *tokens = loader_tokenizer(s->train)->name;
    if (s->valid != NULL && strcmp(loader_tokenizer(s->valid)->name, tokens) != 0)
        return error_user("key data.valid = \"%s\": has %s tokens, but data.train has %s tokens", s->setup.valid_stores,
                          loader_tokenizer(s->valid)->name, tokens);
    if (s->valid != NULL && loader_labelled(s->train) != NULL && !loader_same_classes(s->train, s->valid))
        return error_user("key data.valid = \"%s\": numbers its classes differently than data.train; prepare both with "
                          "the same --classes",
                          s->setup.valid_stores);
    return ERROR_NONE;
}

/* Returns the device memory that every rank may use. */
static int agree_limit(const struct session *s, int64_t *limit)
{
    int code = comm_agree(s->world, fit_limit(limit, &s->setup, s->grid.node->size, s->executor));
    if (code == ERROR_NONE)
        *limit = -comm_max_i64(s->world, -*limit);
    return code;
}

static int64_t agree_host(const struct session *s)
{
    return -comm_max_i64(s->world, -fit_host(&s->setup, s->grid.node->size));
}

static void log_choice(const struct layout_choice *choice, int64_t limit, bool timed)
{
    enum { LOGGED = 4 };
    char need[BYTES_TEXT], moved[BYTES_TEXT], limit_text[BYTES_TEXT];
    log_info("# layouts, if a rank may use %s:", bytes_text(limit_text, (double)limit));
    for (int i = 0; i < choice->count && i < LOGGED; i++) {
        const struct layout_candidate *c = &choice->candidates[i];
        char *text = layout_candidate_text(c);
        char *takes = timed ? memory_format(", predicted %.3g s", c->seconds) : memory_string("");
        log_info("#   %s: needs %s, receives %s a step%s%s", text, bytes_text(need, (double)c->need),
                 bytes_text(moved, (double)c->moved), takes, c->fits ? "" : ", too large");
        free(text);
        free(takes);
    }
}

/* Reads the vocabulary on rank 0: the stores are the same for all ranks. */
static int read_vocabulary(const struct session *s, int64_t *vocabulary)
{
    const int code = s->world->rank == 0 ? settings_vocabulary(vocabulary, s->setup.deck) : ERROR_NONE;
    comm_broadcast(s->world, vocabulary, sizeof *vocabulary, 0);
    return comm_agree(s->world, code);
}

/* Rank 0's file is used on all ranks. */
static int read_rates(const struct session *s, struct machine_rates *rates)
{
    const int code = s->world->rank == 0 ? rates_choose(rates, s->setup.rates_file, s->setup.peak) : ERROR_NONE;
    comm_broadcast(s->world, rates, sizeof *rates, 0);
    rates->node = -comm_max_i64(s->world, -s->grid.node->size);
    return comm_agree(s->world, code);
}

/* Chooses the layout that the deck leaves open, on rank 0's device with the memory that every rank may use. */
static int choose_layout(struct session *s)
{
    struct layout_choice choice = {0};
    static struct machine_rates rates;
    struct layout_place place = {
        .ranks = s->world->size, .host = agree_host(s), .target = s->executor, .rates = &rates};
    int64_t vocabulary = 0;
    int code = agree_limit(s, &place.limit);
    if (code == ERROR_NONE)
        code = read_rates(s, &rates);
    if (s->setup.memory == 0 && s->executor->device != NULL)
        place.limit -= place.limit / 64; /* margin for the groups, which are made after the choice */
    if (code == ERROR_NONE)
        code = read_vocabulary(s, &vocabulary);
    if (code == ERROR_NONE)
        code = comm_agree(s->world, layout_choose(&choice, s->setup.deck, vocabulary, &place));
    setup_share(&s->setup, s->world);
    if (code == ERROR_NONE)
        log_choice(&choice, place.limit, rates_predict(&rates, s->executor->device != NULL, s->world->size));
    layout_choice_destroy(&choice);
    return code;
}

/* Numbers the ranks by the layout, which may have been chosen just now. */
static int create_layout(struct session *s)
{
    if (!s->setup.open)
        return ERROR_NONE;
    int code = choose_layout(s);
    if (code != ERROR_NONE)
        return code;
    grid_destroy(&s->grid);
    return comm_agree(s->world, grid_create(&s->grid, s->world, &s->setup.shape));
}

/* Runs the first exchange of a group, which connects its ranks and for which the library allocates memory. After this,
 * the free memory is what a run may use. op: OP_ALL_TO_ALL or OP_SHIFT, on the stream of the group's exchanges; group
 * NULL: nothing. */
static void connect_group(struct session *s, struct group *group, int stream_id, enum op op)
{
    if (group == NULL)
        return;
    struct stream stream = {s->executor, stream_id, NULL};
    const int64_t bytes = 2 * group->size * dtype_size(DTYPE_I32);
    void *memory = s->executor->class->allocate(s->executor, bytes, MEMORY_DEVICE);
    const struct tensor both = tensor_matrix(memory, DTYPE_I32, 2 * group->size, 1);
    const struct tensor in = tensor_rows(&both, 0, group->size), out = tensor_rows(&both, group->size, group->size);
    if (op == OP_ALL_TO_ALL)
        LAUNCH(&stream, ALL_TO_ALL, all_to_all, .group = group, .in = in, .out = out);
    else
        LAUNCH(&stream, SHIFT, shift, .group = group, .in = tensor_rows(&in, 0, 1), .out = tensor_rows(&out, 0, 1));
    stream_synchronize(&stream);
    s->executor->class->release(s->executor, memory, MEMORY_DEVICE);
}

static void connect_context(struct session *s, enum deck_context method)
{
    if (method != DECK_CONTEXT_GATHER)
        connect_group(s, s->groups.context, STREAM_EXCHANGE, method == DECK_CONTEXT_HEADS ? OP_ALL_TO_ALL : OP_SHIFT);
}

static void connect_sums(struct session *s)
{
    if (!sharding_exchanges(&s->setup.engine.sharding))
        return;
    connect_group(s, s->groups.near != NULL ? s->groups.near : s->groups.reduce, STREAM_REDUCE, OP_ALL_TO_ALL);
    connect_group(s, s->groups.far, STREAM_REDUCE, OP_ALL_TO_ALL);
}

/* Muon broadcasts matrices in the group that gathers weights, whose other collectives may all be copies. */
static void connect_owners(struct session *s)
{
    struct group *group = s->groups.gather;
    if (s->setup.model.muon && group != NULL && group->copies)
        group->class->connect(group);
}

static void connect_stages(struct session *s)
{
    struct group *group = s->groups.stages;
    if (group == NULL)
        return;
    struct stream stream = {s->executor, STREAM_COMPUTE, NULL};
    void *memory =
        s->executor->class->allocate(s->executor, TRANSFER_DIRECTIONS * dtype_size(DTYPE_I32), MEMORY_DEVICE);
    const struct tensor all = tensor_matrix(memory, DTYPE_I32, TRANSFER_DIRECTIONS, 1);
    LAUNCH(&stream, SEND_RECEIVE, send_receive, .group = group, .to_next = tensor_rows(&all, SEND_TO_NEXT, 1),
           .from_previous = tensor_rows(&all, RECEIVE_FROM_PREVIOUS, 1),
           .to_previous = tensor_rows(&all, SEND_TO_PREVIOUS, 1), .from_next = tensor_rows(&all, RECEIVE_FROM_NEXT, 1));
    stream_synchronize(&stream);
    s->executor->class->release(s->executor, memory, MEMORY_DEVICE);
}

/* Resolves memory.recompute = "fit" and memory.head_tokens = 0, on rank 0's device with the memory that every rank may
 * use. */
static int choose_by_memory(struct session *s)
{
    const struct setup *setup = &s->setup;
    int64_t limit;
    int code = agree_limit(s, &limit);
    if (code != ERROR_NONE)
        return code;
    fit_choose(&s->setup, limit, agree_host(s), s->executor);
    setup_share(&s->setup, s->world);
    if (setup->fits_recompute)
        log_info("# memory.recompute = \"fit\": %s%s%s", setup->fitted_layers,
                 setup->fitted_offload[0] != '\0' ? "; offloaded: " : "", setup->fitted_offload);
    if (setup->fits_head)
        log_info("# memory.head_tokens = 0: %lld", (long long)setup->head_tokens);
    return ERROR_NONE;
}

/* Reads train.class_weights. */
static int weigh_classes(struct session *s)
{
    const struct task_settings *task = &s->setup.model.task;
    if (!class_weights_given(s->setup.deck))
        return ERROR_NONE;
    int64_t *counts = memory_allocate((task->labels + 1) * (int64_t)sizeof *counts);
    s->class_weights = memory_allocate((task->labels + 1) * (int64_t)sizeof *s->class_weights);
    if (class_weights_balanced(s->setup.deck) && task->head != DECK_HEAD_LM &&
        task->problem == DECK_PROBLEM_CLASSIFICATION)
        loader_count_classes(s->train, counts);
    int code = class_weights_read(s->class_weights, s->setup.deck, task, counts);
    memory_free(counts);
    return code;
}

/* Nothing large is allocated before this. */
static int create_engine(struct session *s)
{
    int code = comm_agree(s->world, fit_check_training(&s->setup, s->grid.node->size, s->executor));
    if (code != ERROR_NONE)
        return code;
    s->setup.engine.tensor = s->grid.tensor;
    s->setup.engine.class_weights = s->class_weights;
    setup_create_engine(&s->setup, s->world->rank, s->executor, &s->groups, &s->model, &s->engine);
    s->schedule = setup_schedule(&s->setup, loader_micro_batches(s->train), s->world->rank);
    s->made = MADE_ENGINE;
    return ERROR_NONE;
}

/* Warns about empty rows: they change only the time of a step, so nobody would notice them. */
static void warn_of_waste(const struct setup *setup)
{
    const int64_t rows = setup->train.global_rows, batch = setup->train.micro_rows, ranks = setup->ranks;
    const int64_t sharing = setup->sharing, data_ranks = ranks / sharing, share = (rows + data_ranks - 1) / data_ranks;
    if (rows < data_ranks)
        log_warn("%lld of %lld ranks have no row of train.global_batch = %lld and only wait; start fewer ranks",
                 (long long)((data_ranks - rows) * sharing), (long long)ranks, (long long)rows);
    else if (batch > share)
        log_warn("train.micro_batch = %lld, but a rank has %lld rows of train.global_batch = %lld: the rest is "
                 "padding; %lld is faster",
                 (long long)batch, (long long)share, (long long)rows, (long long)share);
}

int session_create(struct session *s, const struct deck *deck, struct comm *world, const char *checkpoint,
                   device_make *make_executor)
{
    memset(s, 0, sizeof *s); /* not a compound literal, which would be on the stack */
    s->world = world;
    int code = comm_agree(world, setup_create(&s->setup, deck, world->size));
    if (code == ERROR_NONE)
        code = comm_agree(world, grid_create(&s->grid, world, &s->setup.shape));
    if (code != ERROR_NONE)
        return code;
    s->made = MADE_GRID;
    code = create_executor(s, make_executor);
    if (code == ERROR_NONE)
        code = check_devices(s);
    if (code == ERROR_NONE)
        code = tuning_take(world, s->executor, &s->setup, checkpoint);
    if (code == ERROR_NONE)
        code = create_layout(s);
    if (code != ERROR_NONE)
        return code;
    create_groups(s);
    code = create_loaders(s);
    if (code == ERROR_NONE)
        code = comm_agree(s->world, check_tokens(s));
    if (code != ERROR_NONE)
        return code;
    warn_of_parts(s);
    code = comm_agree(world, setup_complete(&s->setup, loader_vocabulary(s->train), s->executor));
    if (code == ERROR_NONE)
        code = comm_agree(world, weigh_classes(s));
    if (code != ERROR_NONE)
        return code;
    s->setup.model.pad.given = true;
    s->setup.model.pad.id = loader_tokenizer(s->train)->pad;
    connect_context(s, s->setup.model.context.method);
    connect_sums(s);
    connect_owners(s);
    connect_stages(s);
    if (fit_chooses(deck))
        code = choose_by_memory(s);
    if (code == ERROR_NONE)
        code = create_engine(s);
    if (code != ERROR_NONE)
        return code;
    warn_of_waste(&s->setup);
    precision_warn(&s->setup.model.precision, deck);
    return ERROR_NONE;
}

void session_destroy(struct session *s)
{
    if (s->made >= MADE_ENGINE) {
        schedule_destroy(&s->schedule);
        engine_destroy(&s->engine);
        model_destroy(&s->model);
    }
    if (s->valid != NULL)
        loader_destroy(s->valid);
    if (s->train != NULL)
        loader_destroy(s->train);
    if (s->made >= MADE_GROUPS)
        layout_destroy(&s->groups);
    if (s->made >= MADE_EXECUTOR)
        s->executor->class->destroy(s->executor);
    if (s->made >= MADE_GRID)
        grid_destroy(&s->grid);
    setup_destroy(&s->setup);
    memory_free(s->class_weights);
    s->class_weights = NULL;
    s->made = 0;
}

/* Sums losses and labels of the validation set. Returns false if it was stopped. */
static bool evaluate(struct session *s, bool (*stopping)(void *self), void *self, double *loss, double *count)
{
    loader_seek(s->valid, &(struct blend_position){0}, 0);
    for (int64_t i = 0; i < s->valid_steps; i++) {
        const struct batch *batches = loader_next(s->valid);
        for (int64_t m = 0; m < loader_micro_batches(s->valid); m++) {
            if (stopping(self))
                return false;
            struct engine_result sums = engine_evaluate(&s->engine, &batches[m], 1);
            *loss += sums.loss_sum;
            *count += sums.labels;
        }
    }
    return true;
}

bool session_validate(struct session *s, bool (*stopping)(void *self), void *self, struct session_validation *result)
{
    const struct task_settings *task = &s->setup.model.task;
    const bool predicts = task->head != DECK_HEAD_LM;
    struct head_predictions predictions;
    double loss = 0, count = 0;
    *result = (struct session_validation){0};
    for (int m = 0; m < VALIDATION_METRICS; m++)
        result->metrics[m] = (double)NAN;
    if (predicts) {
        predictions_create(&predictions, task);
        s->engine.predicted = predictions_add;
        s->engine.predicted_self = &predictions;
    }
    const bool done = evaluate(s, stopping, self, &loss, &count);
    s->engine.predicted = NULL;
    if (predicts && done)
        predictions_metrics(&predictions, s->world, result->metrics);
    if (predicts)
        predictions_destroy(&predictions);
    result->loss = count > 0 ? loss / count : 0;
    result->labels = count;
    return done;
}
