#include "setup/settings.h"
#include "deck/fields.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "loader/data_set.h"
#include "loader/store_list.h"
#include "tokenizer/tokenizer.h"
#include "model/attention.h"
#include "architecture/stages.h"
#include "setup/layout.h"
#include "setup/profile_ranks.h"
#include "setup/walltime.h"
#include "setup/model.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Random data has the special ids of the family's tokenizer. A masked model of a family without one has those of
 * nucleotide_mask. The other ids are those of the model, but those of the family's tokenizer in masked training. */
static struct random_windows_settings random_settings(const struct deck *deck, const struct family *family)
{
    const bool causal = model_causal_from_deck(deck), own = family->tokenizer != NULL;
    const struct tokenizer *tokenizer = tokenizer_find(causal || own ? family->learns_from : "nucleotide_mask");
    int64_t vocabulary = own && !causal ? 0 : model_vocabulary_from_deck(deck);
    return (struct random_windows_settings){tokenizer->name, vocabulary > 0 ? vocabulary : tokenizer->vocabulary,
                                            deck->data.random_median, deck->data.random_mean};
}

/* Returns the rows of the whole run, saturating at INT64_MAX. */
static int64_t all_rows(const struct deck *deck)
{
    const int64_t steps = deck->train.steps, rows = deck->train.global_batch;
    return steps > INT64_MAX / rows ? INT64_MAX : steps * rows;
}

static struct megatron_settings megatron_settings(const struct deck *deck)
{
    return (struct megatron_settings){.tokenizer = deck->data.tokenizer,
                                      .vocabulary = model_vocabulary_from_deck(deck),
                                      .parts = deck->data.split_ratios,
                                      .use = MEGATRON_TRAIN,
                                      .ordered = deck->data.order == DECK_ORDER_MEGATRON,
                                      .samples = all_rows(deck),
                                      .seed = (uint32_t)deck->train.seed};
}

struct loader_settings settings_of_loader(const struct deck *deck)
{
    const struct family *family = model_family_from_deck(deck);
    const int64_t row = deck->data.row_tokens, window = deck->data.window > 0 ? deck->data.window : row;
    return (struct loader_settings){
        .stores = deck->data.source == DECK_DATA_RANDOM ? NULL : deck->data.train,
        .weights = deck->data.weights,
        .megatron = megatron_settings(deck),
        .random = random_settings(deck, family),
        .seed = (uint64_t)deck->train.seed,
        .row_tokens = row,
        .window = window,
        .overlap = deck->data.overlap,
        .max_segments = deck->data.max_segments < row ? deck->data.max_segments : row, /* each has a token or more */
        .global_rows = deck->train.global_batch,
        .micro_rows = deck->train.micro_batch,
        .format = deck->data.format == DECK_FORMAT_PADDED ? LOADER_PADDED : LOADER_PACKED,
        .special = deck->data.special_tokens == DECK_SPECIAL_SEQUENCE ? LOADER_SPECIAL_SEQUENCE : LOADER_SPECIAL_WINDOW,
        .no_bos = !deck->data.bos,
        .no_eos = !deck->data.eos,
        .truncate = deck->data.truncate,
        .split = deck->data.split,
        .mask_degenerate = deck->data.mask_degenerate,
        .uppercase_labels = deck->data.uppercase_labels,
        .reverse_complement = deck->data.reverse_complement,
        .mask_probability =
            model_causal_from_deck(deck) || deck->model.head != DECK_HEAD_LM ? 0 : deck->data.mask_probability,
        .task = model_task_from_deck(deck),
        .token_dropout = model_drops_tokens(deck),
        .dropout_keys = deck->lora.rank > 0 && deck->lora.dropout > 0,
        .balance = deck->data.balance,
        .sliding_window = model_window_from_deck(deck),
        .shuffle = deck->data.shuffle,
    };
}

int settings_vocabulary(int64_t *vocabulary, const struct deck *deck)
{
    struct store_list list = {0};
    *vocabulary = settings_of_loader(deck).random.vocabulary;
    if (deck->data.source == DECK_DATA_RANDOM || deck->data.train[0] == '\0')
        return ERROR_NONE;
    int first = 0, code = store_list_parse(&list, deck->data.train, deck->data.weights);
    while (code == ERROR_NONE && first < list.count && !data_set_exists(list.paths[first]))
        first++;
    if (code == ERROR_NONE && first < list.count) {
        struct data_set data_set;
        const struct megatron_settings megatron = megatron_settings(deck);
        code = data_set_open(&data_set, list.paths[first], &megatron);
        if (code == ERROR_NONE)
            *vocabulary = data_set.tokenizer->vocabulary;
        data_set_close(&data_set);
    }
    store_list_destroy(&list);
    return code;
}

int64_t settings_head_tokens(const struct deck *deck)
{
    enum { UNCHOSEN = 1024 };
    const int64_t fitted = deck->memory.fitted_head_tokens;
    return deck->memory.head_tokens > 0 ? deck->memory.head_tokens : fitted > 0 ? fitted : UNCHOSEN;
}

int64_t settings_tokens(const struct deck *deck)
{
    return deck->train.micro_batch * deck->data.row_tokens / deck->parallel.context;
}

int64_t settings_sharing(const struct deck *deck)
{
    const int64_t context = deck->parallel.context;
    return deck->parallel.tensor * deck->parallel.pipeline * (context > 1 ? context : 1); /* 0: not chosen yet */
}

static int64_t micro_batch_rows(const struct deck *deck, int64_t ranks)
{
    return ranks / settings_sharing(deck) * deck->train.micro_batch;
}

int64_t settings_micro_batches(const struct deck *deck, int64_t ranks)
{
    const int64_t rows = micro_batch_rows(deck, ranks);
    return (deck->train.global_batch + rows - 1) / rows;
}

/* The interleaved schedule runs groups of `stages` micro-batches through each model chunk. */
static int check_micro_batches(const struct deck *deck, int64_t ranks)
{
    const int64_t stages = deck->parallel.pipeline, count = settings_micro_batches(deck, ranks);
    if (deck->parallel.virtual_stages == 1 || count % stages == 0)
        return ERROR_NONE;
    return error_user("key train.global_batch = %lld: a rank has %lld micro-batches of it; parallel.virtual_stages = "
                      "%lld needs a multiple of parallel.pipeline = %lld, such as with train.global_batch = %lld",
                      (long long)deck->train.global_batch, (long long)count, (long long)deck->parallel.virtual_stages,
                      (long long)stages, (long long)((count / stages + 1) * stages * micro_batch_rows(deck, ranks)));
}

static int check_head(const struct deck *deck)
{
    if (deck->model.head != DECK_HEAD_NONE)
        return ERROR_NONE;
    return error_user("key model.head = \"none\": there is nothing to train, as in an imported EsmModel; set it to "
                      "\"sequence\" or \"token\", or to \"lm\" for a new language-model head");
}

int settings_check_sizes(const struct deck *deck, int64_t ranks)
{
    struct loader_settings settings = settings_of_loader(deck);
    int code = check_head(deck);
    if (code == ERROR_NONE)
        code = loader_check_settings(&settings);
    if (code == ERROR_NONE)
        code = layout_check(deck, ranks);
    return code == ERROR_NONE ? check_micro_batches(deck, ranks) : code;
}

/* node_exporter reads only files that end in .prom, and no other file of a run does. */
static int check_prometheus(const char *name)
{
    const size_t length = strlen(name);
    if (length == 0 || (length >= 5 && strcmp(name + length - 5, ".prom") == 0))
        return ERROR_NONE;
    return error_user("key log.prometheus = \"%s\": must end in .prom, otherwise node_exporter does not read it", name);
}

static int check_optimizer(const struct deck *deck)
{
    if (deck->optimizer.kind != DECK_OPTIMIZER_MUON || (deck->lora.rank == 0 && deck->train.freeze == DECK_FREEZE_NONE))
        return ERROR_NONE;
    return error_user("key optimizer.kind = \"muon\": not with %s, which leaves no matrix of a block to train",
                      deck->lora.rank > 0 ? "lora.rank" : "train.freeze = \"trunk\"");
}

int settings_check(const struct deck *deck, int64_t ranks)
{
    int code = settings_check_sizes(deck, ranks);
    if (code == ERROR_NONE)
        code = check_prometheus(deck->log.prometheus);
    if (code == ERROR_NONE)
        code = check_optimizer(deck);
    if (code != ERROR_NONE)
        return code;
    if (deck->data.source == DECK_DATA_STORE && deck->data.train[0] == '\0')
        return error_user(
            "key data.train: not set; name a token store made by cistron prepare (or set data.source = \"random\")");
    if (deck->statistics.stop > 0 && deck->statistics.stop < deck->statistics.start)
        return error_user("key statistics.stop: %lld is before statistics.start = %lld",
                          (long long)deck->statistics.stop, (long long)deck->statistics.start);
    code = profile_check(deck, ranks);
    if (code != ERROR_NONE)
        return code;
    double walltime;
    return walltime_parse(deck->train.walltime, &walltime);
}

void settings_warn(const struct deck *deck)
{
    const bool samples = deck->schedule.unit == DECK_COUNT_SAMPLES;
    const double run = (double)deck->train.steps * (samples ? (double)deck->train.global_batch : 1);
    if ((double)deck->schedule.warmup < run || deck->schedule.warmup == 0)
        return;
    log_warn("schedule.warmup = %lld %s: the run (train.steps = %lld%s) ends within the warm-up, so no step after the "
             "warm-up has the learning rate optimizer.lr",
             (long long)deck->schedule.warmup, samples ? "samples" : "steps", (long long)deck->train.steps,
             samples ? " of train.global_batch samples each" : "");
}

/* -- Precision --------------------------------------------------------------------------------------------------- */

static const char *lacking(const struct precision *precision, const struct executor *executor)
{
    const char *lacks = NULL;
    for (int kind = 0; kind < PRECISION_KINDS && executor->class->lacks_products != NULL; kind++)
        for (int operand = 0; operand < OPERAND_COUNT && precision_uses(precision, (enum precision_kind)kind);
             operand++)
            if (lacks == NULL)
                lacks = executor->class->lacks_products(executor, precision->kinds[kind].rules[operand].scaling);
    return lacks;
}

static int check_device(const struct deck *deck, const struct precision *precision, const struct executor *executor)
{
    const char *lacks = lacking(precision, executor);
    if (lacks == NULL)
        return ERROR_NONE;
    const bool tensors = executor->class->lacks_products(executor, SCALING_TENSOR) == NULL;
    char *recipe = deck_key_text(deck, "precision.recipe");
    int code = error_user("key precision.recipe = %s: needs %s; %sdevice.kind = \"cpu\" emulates it", recipe, lacks,
                          tensors ? "\"current\" runs here, and " : "");
    free(recipe);
    return code;
}

/* Returns the number that a quantized GEMM's inner dimension must be a multiple of. */
static int64_t multiple_of(const struct precision *precision)
{
    const bool mx = precision_uses(precision, PRECISION_EIGHT) &&
                    precision->kinds[PRECISION_EIGHT].rules[OPERAND_INPUT].scaling == SCALING_1X32;
    return mx ? 32 : 16;
}

static int check_widths(const struct precision *precision, const struct model_settings *m)
{
    const bool *linears = precision->linears;
    const bool blocks = precision->eight.count > 0 || precision->four.count > 0;
    const bool attention = blocks && (linears[LINEAR_QKV] || linears[LINEAR_O]);
    const bool mlp = blocks && m->experts == 0 && (linears[LINEAR_UP] || linears[LINEAR_DOWN]);
    const int64_t multiple = multiple_of(precision);
    const char *fewer = "precision.linears can leave linear layers out";
    const struct {
        const char *key;
        int64_t width;
        bool read;
        const char *fix;
    } widths[] = {
        {"model.hidden", m->hidden, true, "precision.recipe = \"none\" accepts any"}, /* one side of all linears */
        {"model.heads x head_dim", model_heads(m) * m->head_dim, attention, fewer},
        {"(model.heads + 2 kv_heads) x head_dim", (model_heads(m) + 2 * model_kv_heads(m)) * m->head_dim,
         blocks && linears[LINEAR_QKV], fewer},
        {"model.ffn", model_ffn(m), mlp, fewer},
        {"model.vocabulary", model_vocabulary(m).most, precision->head, "precision.head = false accepts any"},
        {"model.vocabulary", m->vocabulary / tensor_ranks(&m->tensor), precision->head,
         "precision.head = false accepts any"}, /* the fewest rows that a rank has */
    };
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++)
        if (widths[i].read && widths[i].width % multiple != 0)
            return error_user("key %s = %lld%s: quantized GEMMs need a multiple of %lld, such as %lld; %s",
                              widths[i].key, (long long)widths[i].width,
                              tensor_ranks(&m->tensor) > 1 ? " on a rank (parallel.tensor)" : "", (long long)multiple,
                              (long long)((widths[i].width / multiple + 1) * multiple), widths[i].fix);
    return ERROR_NONE;
}

/* Checks the head's GEMMs, which process a slice of tokens at a time. The last slice needs no check: a micro-batch has
 * a multiple of 16 tokens. */
static int check_slices(const struct deck *deck, const struct precision *precision)
{
    enum { MULTIPLE = 16 };
    const enum scaling scaling = precision->kinds[PRECISION_EIGHT].rules[OPERAND_INPUT].scaling;
    const bool reads = precision->head && (scaling == SCALING_ROW || scaling == SCALING_1X128);
    const int64_t tokens = settings_head_tokens(deck), all = settings_tokens(deck);
    if (!reads || tokens >= all || tokens % MULTIPLE == 0)
        return ERROR_NONE;
    char *recipe = deck_key_text(deck, "precision.recipe");
    int code = error_user("key memory.head_tokens = %lld: with precision.head and precision.recipe = %s the head's "
                          "GEMMs need a multiple of %d tokens, such as %lld",
                          (long long)tokens, recipe, MULTIPLE, (long long)(tokens / MULTIPLE + 1) * MULTIPLE);
    free(recipe);
    return code;
}

int settings_check_precision(const struct deck *deck, const struct model_settings *settings,
                             const struct executor *executor)
{
    const struct precision *precision = &settings->precision;
    if (!precision_quantizes(precision))
        return ERROR_NONE;
    int code = check_device(deck, precision, executor);
    if (code == ERROR_NONE)
        code = check_widths(precision, settings);
    return code == ERROR_NONE ? check_slices(deck, precision) : code;
}

/* -- The model ---------------------------------------------------------------------------------------------------- */

/* Refuses sequences longer than the model's positions, unless the deck raises them. */
static int check_positions(const struct deck *deck)
{
    const int64_t longest = settings_of_loader(deck).window;
    const int64_t extra = model_family_from_deck(deck)->extra_positions;
    const int64_t positions = model_positions_from_deck(deck);
    if (positions == 0 || longest + extra <= positions)
        return ERROR_NONE;
    const char *key = deck->data.window > 0 ? "data.window" : "data.row_tokens";
    char *maker = deck->model.positions > 0 ? memory_format("model.positions = %lld", (long long)positions)
                                            : memory_format("model.preset = \"%s\"", deck->model.preset);
    int code = error_user("key %s = %lld: sequences are longer than the %lld tokens of %s; to train on them, set "
                          "model.positions = %lld or more",
                          key, (long long)longest, (long long)(positions - extra), maker, (long long)(longest + extra));
    free(maker);
    return code;
}

static int check_mlp_slices(const struct deck *deck)
{
    if (deck->memory.mlp_tokens == 0 || (deck->precision.recipe == DECK_RECIPE_NONE && deck->parallel.tensor == 1))
        return ERROR_NONE;
    return error_user("key memory.mlp_tokens = %lld: needs precision.recipe = \"none\" and parallel.tensor = 1",
                      (long long)deck->memory.mlp_tokens);
}

/* Experts compute all tokens at once. */
static int check_experts(const struct deck *deck, const struct model_settings *settings)
{
    if (settings->experts == 0)
        return ERROR_NONE;
    if (deck->memory.mlp_tokens > 0)
        return error_user("key memory.mlp_tokens = %lld: not with experts (model.num_local_experts)",
                          (long long)deck->memory.mlp_tokens);
    return ERROR_NONE;
}

/* Checks that the model has the metric that decides which validation is the best. */
static int check_metric(const struct deck *deck, const struct task_settings *task)
{
    const enum deck_metric metric = (enum deck_metric)deck->validation.metric;
    const bool numbers = task->problem == DECK_PROBLEM_REGRESSION, head = task->head != DECK_HEAD_LM;
    const bool of_numbers = metric == DECK_METRIC_SPEARMAN || metric == DECK_METRIC_R2;
    if (deck->validation.patience > 0 && deck->validation.every == 0)
        return error_user("key validation.patience = %lld: needs validation.every",
                          (long long)deck->validation.patience);
    if (metric == DECK_METRIC_LOSS ||
        (head && numbers == of_numbers && (metric != DECK_METRIC_AUC || task->labels == 2)))
        return ERROR_NONE;
    char *name = deck_key_text(deck, "validation.metric");
    int code = error_user("key validation.metric = %s: the model has %s", name,
                          !head     ? "the loss only; other metrics need a fine-tuning head (model.head)"
                          : numbers ? "loss, spearman and r2"
                                    : "loss, accuracy, f1 and mcc, and with two classes auc");
    free(name);
    return code;
}

/* Refuses what a fine-tuning head does not compute. */
static int check_task(const struct deck *deck, const struct model_settings *settings)
{
    const struct task_settings *task = &settings->task;
    if (task->head == DECK_HEAD_LM)
        return ERROR_NONE;
    if (deck->parallel.context > 1 && task->head == DECK_HEAD_SEQUENCE && task->pooling == DECK_POOLING_MEAN)
        return error_user("key parallel.context = %lld: not with model.pooling = \"mean\", whose tokens are on several "
                          "ranks",
                          (long long)deck->parallel.context);
    if (deck->train.z_loss > 0)
        return error_user("key train.z_loss = %g: not with a fine-tuning head (model.head); set it to 0",
                          deck->train.z_loss);
    if (deck->precision.head)
        return error_user("key precision.head = true: not with a fine-tuning head (model.head), which computes in "
                          "precision.compute");
    return ERROR_NONE;
}

int settings_of_model(struct model_settings *settings, const struct deck *deck, int64_t store_vocabulary,
                      const struct executor *executor)
{
    int code = model_settings_from_deck(settings, deck, store_vocabulary);
    if (code == ERROR_NONE)
        code = check_positions(deck);
    if (code == ERROR_NONE)
        code = check_mlp_slices(deck);
    if (code != ERROR_NONE)
        return code;
    code = check_task(deck, settings);
    if (code == ERROR_NONE)
        code = check_experts(deck, settings);
    if (code == ERROR_NONE)
        code = check_metric(deck, &settings->task);
    if (code != ERROR_NONE)
        return code;
    settings->tensor = layout_tensor_parallel(deck, 0);
    code = tensor_parallel_check(settings, "key parallel.tensor");
    if (code != ERROR_NONE)
        return code;
    settings->context = layout_context_parallel(deck, model_kv_heads(settings));
    settings->pipeline = layout_pipeline_parallel(deck, deck->parallel.pipeline, 0);
    if (stage_slices(&settings->pipeline) > 1 && stage_slices(&settings->pipeline) > stages_most_slices(settings))
        return error_user("key parallel.pipeline = %lld: with parallel.virtual_stages = %lld the model is divided into "
                          "%d chunks, but its %lld layers make %d at most",
                          (long long)deck->parallel.pipeline, (long long)deck->parallel.virtual_stages,
                          stage_slices(&settings->pipeline), (long long)settings->layers, stages_most_slices(settings));
    code = attention_check(settings);
    if (code != ERROR_NONE)
        return code;
    code = model_settings_check(settings, executor);
    return code == ERROR_NONE ? settings_check_precision(deck, settings, executor) : code;
}
