#include "setup/setup.h"
#include "deck/fields.h"
#include "base/error.h"
#include "base/memory.h"
#include "model/embedding.h"
#include "setup/layout.h"
#include "setup/model.h"
#include "setup/precision.h"
#include "setup/recompute.h"
#include "setup/settings.h"

#include <string.h>

/* -- Device, data and run ----------------------------------------------------------------------------------------- */

static void derive_device(struct setup *s)
{
    const struct deck *deck = s->deck;
    s->device = (struct device_request){.kind = deck->device.kind,
                                        .deterministic = deck->device.deterministic,
                                        .share = deck->device.share,
                                        .timeout = deck->comm.timeout};
    s->threads = deck->device.threads;
    s->memory = deck->device.memory * (1 << 30);
    s->peak = deck->device.peak * 1e12;
    s->check = deck->device.check;
    s->tuning_file = deck->device.tuning_file;
    s->rates_file = deck->device.rates_file;
}

/* Validation reads its stores once, in order. */
static struct loader_settings validation_settings(const struct deck *deck, struct loader_settings settings)
{
    settings.stores = deck->data.valid;
    settings.weights = NULL;
    settings.megatron.use = MEGATRON_VALID;
    settings.megatron.ordered = false;
    settings.shuffle = false;
    settings.once = true;
    settings.reverse_complement = 0;
    settings.dropout_keys = false;
    if (deck->validation.rows > 0)
        settings.global_rows = deck->validation.rows; /* the whole set is one loader step */
    return settings;
}

static void derive_data(struct setup *s)
{
    const struct deck *deck = s->deck;
    s->train = settings_of_loader(deck);
    s->valid = validation_settings(deck, s->train);
    s->random = deck->data.source == DECK_DATA_RANDOM;
    s->validates = !s->random && deck->data.valid[0] != '\0';
    s->train_stores = deck->data.train;
    s->valid_stores = deck->data.valid;
    s->parts = deck->data.split_ratios;
}

struct learning_rate_settings setup_learning_rate(const struct deck *deck)
{
    const double unit = deck->schedule.unit == DECK_COUNT_SAMPLES ? (double)deck->train.global_batch : 1;
    const double warmup = (double)deck->schedule.warmup, hold = (double)deck->schedule.hold;
    const bool to_last_step = deck->schedule.decay == 0;
    return (struct learning_rate_settings){
        .kind = (enum deck_schedule)deck->schedule.kind,
        .rule = (enum deck_rule)deck->schedule.rule,
        .steps = deck->train.steps,
        .unit = unit,
        .warmup = warmup,
        .hold = hold,
        .decay = to_last_step ? (double)deck->train.steps * unit - (warmup + hold) : (double)deck->schedule.decay,
        .to_last_step = to_last_step,
        .own = {deck->optimizer.lr, deck->schedule.min_ratio},
        .decoupled = {deck->optimizer.decoupled_lr, deck->schedule.decoupled_min_ratio}};
}

static void derive_run(struct setup *s)
{
    const struct deck *deck = s->deck;
    s->steps = deck->train.steps;
    s->resume = deck->train.resume;
    s->walltime = deck->train.walltime;
    s->folder = deck->output.folder;
    s->prometheus = deck->log.prometheus;
    s->tensorboard = deck->log.tensorboard;
    s->log_every = deck->log.every;
    s->recheck_every = deck->train.recheck_every;
    s->validation_every = deck->validation.every;
    s->validation_rows = deck->validation.rows;
    s->validation_metric = (enum deck_metric)deck->validation.metric;
    s->patience = deck->validation.patience;
    s->on_divergence = (enum deck_divergence)deck->train.on_divergence;
    s->initialise_optimizer = deck->model.initialise_optimizer;
    s->learning_rate = setup_learning_rate(deck);
    s->profile = (struct profile_settings){
        {deck->profile.start, deck->profile.stop}, deck->profile.ranks, deck->profile.collectives};
    s->statistics =
        (struct statistics_settings){deck->statistics.every, {deck->statistics.start, deck->statistics.stop}};
    s->saving = (struct saving_settings){.every = deck->checkpoint.every,
                                         .seconds = 60 * deck->checkpoint.every_minutes,
                                         .keep = deck->checkpoint.keep,
                                         .keep_every = deck->checkpoint.keep_every,
                                         .stripes = deck->checkpoint.stripes,
                                         .keep_best = deck->checkpoint.keep_best,
                                         .at_end = deck->checkpoint.at_end,
                                         .export_final = deck->checkpoint.export_final,
                                         .overlapped = deck->checkpoint.asynchronous,
                                         .tolerated = deck->checkpoint.on_failure == DECK_FAILURE_CONTINUE};
}

/* -- Layout and engine -------------------------------------------------------------------------------------------- */

static void derive_layout(struct setup *s)
{
    s->open = s->deck->parallel.shard == DECK_SHARD_AUTO || s->deck->parallel.context == 0;
    s->shape = s->open ? (struct grid_shape){.tensor = 1, .context = 1} : layout_shape(s->deck);
    s->sharing = settings_sharing(s->deck);
    s->tokens = s->open ? 0 : settings_tokens(s->deck);
    s->micro_batches = settings_micro_batches(s->deck, s->ranks);
}

static enum dtype compute_dtype(const struct deck *deck)
{
    return deck->precision.compute == DECK_COMPUTE_BF16 ? DTYPE_BF16 : DTYPE_F32;
}

static struct muon_settings muon_settings(const struct deck *deck)
{
    const double lr = deck->optimizer.muon.lr;
    return (struct muon_settings){.lr_factor = lr > 0 ? lr / deck->optimizer.lr : 1,
                                  .momentum = deck->optimizer.muon.momentum,
                                  .nesterov = deck->optimizer.muon.nesterov,
                                  .steps = (int)deck->optimizer.muon.ns_steps,
                                  .adjustment = (enum deck_adjust_lr)deck->optimizer.muon.adjust_lr_fn};
}

static struct engine_settings engine_settings(const struct setup *s)
{
    const struct deck *deck = s->deck;
    return (struct engine_settings){
        .memory = {.compute = compute_dtype(deck),
                   .statistic = DTYPE_F32,
                   .rows = deck->train.micro_batch,
                   .row_tokens = deck->data.row_tokens,
                   .max_segments = s->train.format == LOADER_PADDED ? 1 : s->train.max_segments,
                   .longest = s->train.window},
        .optimizer = {.beta1 = deck->optimizer.beta1,
                      .beta2 = deck->optimizer.beta2,
                      .eps = deck->optimizer.eps,
                      .weight_decay = deck->optimizer.weight_decay,
                      .clip = deck->optimizer.clip,
                      .decoupled = deck->optimizer.decoupled_lr > 0,
                      .muon = muon_settings(deck)},
        .sharding = layout_sharding(deck),
        .replays = deck->device.graphs,
    };
}

/* Returns the number of ranks that compute the embedding's gradient from gathered activations (model/embedding.h), or 1
 * if the gradient is summed over ranks; whichever moves fewer bytes. */
static int embedding_ranks(const struct setup *s)
{
    const struct grid_numbers sizes = grid_sizes(&s->shape, (int)s->ranks);
    const int64_t elements = model_vocabulary(&s->model).most * s->model.hidden;
    const int64_t gathered =
        s->micro_batches * (sizes.data - 1) * s->tokens * embedding_token_bytes(&s->model, s->engine.memory.compute);
    const int64_t summed =
        store_sum_bytes(&s->engine.sharding, sizes.shard, sizes.replicas, elements, s->micro_batches);
    return !s->model.tied && s->model.freeze == DECK_FREEZE_NONE && !s->deck->train.reproducible && gathered < summed
               ? sizes.data
               : 1;
}

/* Needs the sizes of the model, and a layout that is not open. */
static void derive_engine(struct setup *s)
{
    s->fits_recompute = s->deck->memory.recompute == DECK_RECOMPUTE_FIT;
    s->fits_head = s->deck->memory.head_tokens == 0;
    s->fitted_layers = s->deck->memory.fitted_layers;
    s->fitted_offload = s->deck->memory.fitted_offload;
    s->head_tokens = settings_head_tokens(s->deck);
    s->engine = engine_settings(s);
    s->model.context = layout_context_parallel(s->deck, model_kv_heads(&s->model));
    s->model.rounds_gradients =
        sharding_rounds(&s->engine.sharding) && (s->ranks == 1 || !sharding_shards_gradients(&s->engine.sharding));
    if (s->ranks == 1 && s->micro_batches == 1 && s->engine.sharding.exact.gradient <= 0)
        s->engine.memory.gradient_bytes = dtype_size(sharding_rounds(&s->engine.sharding) ? DTYPE_BF16 : DTYPE_F32);
    s->model.embedding_ranks = embedding_ranks(s);
    s->model.label_probability = s->train.mask_probability;
}

/* -- Setup -------------------------------------------------------------------------------------------------------- */

int setup_create(struct setup *s, const struct deck *deck, int64_t ranks)
{
    *s = (struct setup){.deck = deck_copy(deck), .ranks = ranks};
    int code = settings_check_sizes(s->deck, ranks);
    if (code != ERROR_NONE)
        return code;
    derive_device(s);
    derive_data(s);
    derive_run(s);
    derive_layout(s);
    return ERROR_NONE;
}

int setup_complete(struct setup *s, int64_t vocabulary, const struct executor *executor)
{
    int code = settings_of_model(&s->model, s->deck, vocabulary, executor);
    if (code != ERROR_NONE)
        return code;
    s->complete = true;
    if (!s->open)
        derive_engine(s);
    return ERROR_NONE;
}

void setup_update(struct setup *s)
{
    derive_data(s);
    derive_layout(s);
    if (!s->complete)
        return;
    if (precision_from_deck(&s->model.precision, s->deck, s->model.layers) != ERROR_NONE ||
        recompute_from_deck(&s->model.recompute, s->deck, s->model.layers) != ERROR_NONE)
        error_fatal("bug: %s", error_message());
    if (!s->open)
        derive_engine(s);
}

void setup_share(struct setup *s, struct comm *world)
{
    comm_broadcast(world, &s->deck->parallel, sizeof s->deck->parallel, 0);
    comm_broadcast(world, &s->deck->memory, sizeof s->deck->memory, 0);
    setup_update(s);
}

void setup_keep_choices(const struct setup *s, struct deck *deck)
{
    deck->memory = s->deck->memory;
}

int setup_create_inference(struct setup *s, const struct deck *deck, int64_t vocabulary)
{
    *s = (struct setup){.deck = deck_copy(deck), .ranks = 1, .micro_batches = 1};
    derive_device(s);
    derive_data(s);
    s->head_tokens = settings_head_tokens(deck);
    s->engine.memory = (struct memory_settings){.compute = compute_dtype(deck), .statistic = DTYPE_F32, .rows = 1};
    return model_settings_from_deck(&s->model, deck, vocabulary);
}

void setup_copy(struct setup *copy, const struct setup *s)
{
    *copy = *s;
    copy->deck = deck_copy(s->deck);
    derive_device(copy);
    derive_run(copy);
    setup_update(copy);
}

void setup_destroy(struct setup *s)
{
    memory_free(s->deck);
    s->deck = NULL;
}

/* -- Schedule and engine of a rank -------------------------------------------------------------------------------- */

static struct pipeline_parallel pipeline_of(const struct setup *s, int rank)
{
    struct pipeline_parallel pipeline = s->model.pipeline;
    pipeline.stage = stage_count(&pipeline) > 1 ? (int)(rank / (s->ranks / stage_count(&pipeline))) : 0;
    return pipeline;
}

struct schedule setup_schedule(const struct setup *s, int64_t micro_batches, int rank)
{
    const struct pipeline_parallel pipeline = pipeline_of(s, rank);
    return stage_count(&pipeline) > 1 ? schedule_pipeline((int)micro_batches, &pipeline)
                                      : schedule_create((int)micro_batches, 1, false);
}

void setup_create_engine(const struct setup *s, int rank, struct executor *executor,
                         const struct parallel_groups *groups, struct model *model, struct engine *engine)
{
    struct model_settings own = s->model;
    own.tensor.rank = rank % tensor_ranks(&own.tensor);
    own.pipeline = pipeline_of(s, rank);
    model_create(model, &own, s->tokens, s->head_tokens);
    struct engine_settings settings = s->engine;
    const int64_t enough = 2 * stage_count(&own.pipeline); /* more micro-batches do not need more slots */
    struct schedule schedule = setup_schedule(s, s->micro_batches < enough ? s->micro_batches : enough, rank);
    memcpy(settings.memory.slots, schedule.slots, sizeof schedule.slots);
    schedule_destroy(&schedule);
    engine_create(engine, executor, model, groups, &settings);
}
