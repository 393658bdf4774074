#include "train/settings.h"
#include "base/error.h"
#include "data/tokenizer.h"
#include "model/settings.h"
#include "train/control.h"
#include "train/profiler.h"

/* Masked tokens are those of a tokenizer; what predicts the next token takes any id. */
static struct random_windows_settings random_settings(const struct deck *deck, const struct family *family)
{
    const struct tokenizer *tokenizer = tokenizer_find(family->learns_from);
    int64_t vocabulary = family->tokenizer != NULL ? 0 : model_vocabulary_from_deck(deck);
    return (struct random_windows_settings){tokenizer->name, vocabulary > 0 ? vocabulary : tokenizer->vocabulary,
                                            deck->data.random_median, deck->data.random_mean};
}

struct loader_settings settings_of_loader(const struct deck *deck)
{
    const struct family *family = family_of(model_family_from_deck(deck));
    const int64_t window = deck->data.window > 0 ? deck->data.window : deck->data.row_tokens;
    return (struct loader_settings){
        .stores = deck->data.source == DECK_DATA_RANDOM ? NULL : deck->data.train,
        .weights = deck->data.weights,
        .random = random_settings(deck, family),
        .seed = (uint64_t)deck->train.seed,
        .row_tokens = deck->data.row_tokens,
        .window = window,
        .overlap = deck->data.overlap,
        .max_segments = deck->data.max_segments,
        .global_rows = deck->train.global_batch,
        .micro_rows = deck->train.micro_batch,
        .format = deck->data.format == DECK_FORMAT_PADDED ? LOADER_PADDED : LOADER_PACKED,
        .special = deck->data.special_tokens == DECK_SPECIAL_SEQUENCE ? LOADER_SPECIAL_SEQUENCE : LOADER_SPECIAL_WINDOW,
        .truncate = deck->data.truncate,
        .split = deck->data.split,
        .mask_degenerate = deck->data.mask_degenerate,
        .uppercase_labels = deck->data.uppercase_labels,
        .mask_probability = family->causal ? 0 : deck->data.mask_probability,
        .token_dropout = family->token_dropout && deck->model.token_dropout,
        .shuffle = deck->data.shuffle,
    };
}

struct engine_settings settings_of_engine(const struct deck *deck)
{
    const struct loader_settings loader = settings_of_loader(deck);
    return (struct engine_settings){
        .memory = {.compute = deck->precision.compute == DECK_COMPUTE_BF16 ? DTYPE_BF16 : DTYPE_F32,
                   .statistic = DTYPE_F32,
                   .slots = 1,
                   .recompute = (enum deck_recompute)deck->memory.recompute,
                   .rows = deck->train.micro_batch,
                   .row_tokens = deck->data.row_tokens,
                   .max_segments = loader.format == LOADER_PADDED ? 1 : loader.max_segments,
                   .longest = loader.window},
        .optimizer = {deck->optimizer.beta1, deck->optimizer.beta2, deck->optimizer.eps, deck->optimizer.weight_decay,
                      deck->optimizer.clip},
        .replays = deck->device.graphs,
    };
}

int settings_check_sizes(const struct deck *deck)
{
    struct loader_settings settings = settings_of_loader(deck);
    return loader_check_settings(&settings);
}

int settings_check(const struct deck *deck)
{
    int code = settings_check_sizes(deck);
    if (code != ERROR_NONE)
        return code;
    if (deck->data.source == DECK_DATA_STORE && deck->data.train[0] == '\0')
        return error_user("key data.train: not set; name a token store made by cistron prepare (or set data.source = "
                          "\"random\")");
    code = profiler_check(deck);
    if (code != ERROR_NONE)
        return code;
    double walltime;
    return control_parse_walltime(deck->train.walltime, &walltime);
}
