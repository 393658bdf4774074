#include "setup/epochs.h"
#include "base/error.h"
#include "base/log.h"
#include "deck/fields.h"
#include "loader/loader.h"
#include "setup/settings.h"

static int check(const struct deck *deck)
{
    const double epochs = deck->train.epochs;
    if (deck->data.source == DECK_DATA_RANDOM)
        return error_user("key train.epochs = %g: random data have no epochs; set train.steps", epochs);
    if (deck->data.order == DECK_ORDER_MEGATRON)
        return error_user("key train.epochs = %g: data.order = \"megatron\" depends on train.steps; set that", epochs);
    if (deck->data.train[0] == '\0')
        return error_user("key train.epochs = %g: needs data.train", epochs);
    return ERROR_NONE;
}

int epochs_resolve(struct deck *deck, struct comm *world, bool loud)
{
    if (deck->train.epochs == 0)
        return ERROR_NONE;
    int64_t rows = 0;
    int code = comm_agree(world, check(deck));
    if (code != ERROR_NONE)
        return code;
    const struct loader_settings settings = settings_of_loader(deck);
    code = loader_count_rows(&rows, &settings, deck->train.epochs, world);
    if (code != ERROR_NONE)
        return code;
    const int64_t given = deck->train.steps, steps = (rows + settings.global_rows - 1) / settings.global_rows;
    if (deck_given(deck, "train.steps") && given != steps && world->rank == 0)
        log_warn("train.steps = %lld: train.epochs = %g makes it %lld; set train.epochs = 0 to use train.steps",
                 (long long)given, deck->train.epochs, (long long)steps);
    deck->train.steps = steps;
    if (loud)
        log_info("# train.epochs = %g: %lld rows in %lld steps", deck->train.epochs, (long long)rows, (long long)steps);
    return ERROR_NONE;
}
