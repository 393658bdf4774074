#include "train/session.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/threads.h"
#include "train/fit.h"
#include "train/precision_text.h"
#include "train/settings.h"

#include <string.h>

enum { MADE_GRID = 1, MADE_EXECUTOR, MADE_TRAIN, MADE_VALID, MADE_ENGINE };

static int create_executor(struct session *s, device_make *make_executor)
{
    s->threads = threads_choose(s->grid.node, s->deck.device.threads);
    const struct device_request request = {.kind = s->deck.device.kind,
                                           .threads = s->threads,
                                           .world = s->world,
                                           .node = s->grid.node,
                                           .deterministic = s->deck.device.deterministic,
                                           .share = s->deck.device.share,
                                           .timeout = s->deck.comm.timeout};
    int code = make_executor(&s->executor, &request);
    if (code != ERROR_NONE)
        return code;
    s->data_group = comm_group_create(s->grid.data, s->executor, "data");
    s->made = MADE_EXECUTOR;
    return ERROR_NONE;
}

static int create_loaders(struct session *s)
{
    struct loader_settings settings = settings_of_loader(&s->deck);
    settings.memory = fit_available() / s->grid.node->size;
    int code = loader_create(&s->train, &settings, s->world, s->grid.data_rank, s->grid.data_ranks);
    if (code != ERROR_NONE)
        return code;
    s->made = MADE_TRAIN;
    if (s->deck.data.source == DECK_DATA_RANDOM || s->deck.data.valid[0] == '\0')
        return ERROR_NONE;
    settings.stores = s->deck.data.valid;
    settings.weights = NULL;
    settings.shuffle = false;
    settings.once = true;
    settings.memory = fit_available() / s->grid.node->size;
    if (s->deck.validation.rows > 0)
        settings.global_rows = s->deck.validation.rows; /* the whole set is one loader step */
    code = loader_create(&s->valid, &settings, s->world, s->grid.data_rank, s->grid.data_ranks);
    if (code != ERROR_NONE)
        return code;
    s->made = MADE_VALID;
    s->valid_steps = s->deck.validation.rows > 0 ? 1 : loader_steps_once(s->valid);
    return ERROR_NONE;
}

/* Are the stores' tokens those that the model's family is made for? */
static int check_tokens(const struct session *s)
{
    const struct family *family = family_of(model_family_from_deck(&s->deck));
    const char *tokens = loader_tokenizer(s->train);
    if (strcmp(tokens, family->learns_from) != 0)
        return error_user("key data.train = \"%s\": has %s tokens, but model.family = \"%s\" learns from %s tokens",
                          s->deck.data.train, tokens, family->name, family->learns_from);
    if (s->valid != NULL && strcmp(loader_tokenizer(s->valid), tokens) != 0)
        return error_user("key data.valid = \"%s\": has %s tokens, but data.train has %s tokens", s->deck.data.valid,
                          loader_tokenizer(s->valid), tokens);
    return ERROR_NONE;
}

/* Rows that are computed in vain change nothing but the time, so nobody would notice. */
static void warn_of_waste(const struct deck *deck, int64_t ranks)
{
    int64_t rows = deck->train.global_batch, batch = deck->train.micro_batch;
    int64_t share = (rows + ranks - 1) / ranks;
    if (rows < ranks)
        log_warn("%lld of %lld ranks have no row of train.global_batch = %lld and only wait; start fewer",
                 (long long)(ranks - rows), (long long)ranks, (long long)rows);
    else if (batch > share)
        log_warn("train.micro_batch = %lld, but a rank has %lld rows of train.global_batch = %lld: the rest is "
                 "padding, computed in vain; %lld is faster",
                 (long long)batch, (long long)share, (long long)rows, (long long)share);
}

int session_create(struct session *s, const struct deck *deck, struct comm *world, const char *checkpoint,
                   device_make *make_executor)
{
    *s = (struct session){.deck = *deck, .world = world};
    int code = comm_agree(world, grid_create(&s->grid, world, &(struct grid_shape){1, 1, 0}));
    if (code != ERROR_NONE)
        return code;
    s->made = MADE_GRID;
    code = create_executor(s, make_executor);
    if (code == ERROR_NONE)
        code = tuning_take(&s->tuning, world, s->executor, deck, checkpoint);
    if (code == ERROR_NONE)
        code = create_loaders(s);
    if (code == ERROR_NONE)
        code = comm_agree(s->world, check_tokens(s));
    if (code != ERROR_NONE)
        return code;
    struct model_settings settings;
    code = comm_agree(world, model_settings_from_deck(&settings, deck, loader_vocabulary(s->train)));
    if (code == ERROR_NONE)
        code = comm_agree(world, model_settings_check(&settings, s->executor));
    if (code == ERROR_NONE)
        code = comm_agree(world, settings_check_precision(deck, &settings, s->executor));
    if (code != ERROR_NONE)
        return code;
    code = comm_agree(world, fit_check_training(deck, &settings, world->size, s->grid.node->size, s->executor));
    if (code != ERROR_NONE)
        return code;
    model_create(&s->model, &settings, deck->train.micro_batch * deck->data.row_tokens, deck->memory.head_tokens);
    struct engine_settings engine_settings = settings_of_engine(deck);
    const struct groups groups = groups_replicated(s->data_group);
    engine_create(&s->engine, s->executor, &s->model, &groups, &engine_settings);
    s->schedule = schedule_create((int)loader_micro_batches(s->train), 1, false);
    s->made = MADE_ENGINE;
    warn_of_waste(deck, world->size);
    precision_warn(&settings.precision, deck);
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
    if (s->made >= MADE_EXECUTOR) {
        comm_group_destroy(s->data_group);
        s->executor->class->destroy(s->executor);
    }
    if (s->made >= MADE_GRID)
        grid_destroy(&s->grid);
    s->made = 0;
}

bool session_validate(struct session *s, bool (*stopping)(void *self), void *self, struct session_validation *result)
{
    double loss = 0, count = 0;
    loader_seek(s->valid, &(struct blend_position){0}, 0);
    for (int64_t i = 0; i < s->valid_steps; i++) {
        const struct batch *batches = loader_next(s->valid);
        for (int64_t m = 0; m < loader_micro_batches(s->valid); m++) {
            if (stopping(self))
                return false;
            struct engine_result sums = engine_evaluate(&s->engine, &batches[m], 1);
            loss += sums.loss_sum;
            count += sums.labels;
        }
    }
    *result = (struct session_validation){count > 0 ? loss / count : 0, count};
    return true;
}
