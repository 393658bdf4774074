#include "loader/data_set.h"
#include "base/error.h"
#include "base/log.h"
#include "data/megatron_order.h"
#include "data/tokenizer_member.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char data_set_plain_ids[] = "plain ids";

bool data_set_exists(const char *path)
{
    char *prefix = megatron_prefix(path);
    const bool exists = prefix != NULL || access(path, F_OK) == 0;
    free(prefix);
    return exists;
}

/* Chooses the tokenizer of a Megatron data set. Plain ids have no special tokens, and padding is id 0. */
static int choose_tokenizer(struct data_set *data_set, const struct megatron_settings *settings)
{
    if (settings->tokenizer[0] != '\0') {
        int code = tokenizer_open(&data_set->opened, settings->tokenizer);
        data_set->tokenizer = data_set->opened;
        return code;
    }
    data_set->plain =
        (struct tokenizer){.vocabulary = settings->vocabulary, .eos = -1, .pad = 0, .bos = -1, .unk = -1, .mask = -1};
    strcpy(data_set->plain.name, data_set_plain_ids);
    data_set->tokenizer = &data_set->plain;
    if (settings->vocabulary > 0)
        return ERROR_NONE;
    return error_user("key data.train: %s is a Megatron data set, which does not store the size of its vocabulary; set "
                      "model.vocabulary or data.tokenizer",
                      data_set->path);
}

int data_set_open(struct data_set *data_set, const char *path, const struct megatron_settings *settings)
{
    *data_set = (struct data_set){.path = path};
    char *prefix = megatron_prefix(path);
    const bool is_megatron = prefix != NULL;
    free(prefix);
    if (is_megatron) {
        int code = megatron_store_open(&data_set->megatron, path);
        if (code == ERROR_NONE)
            code = choose_tokenizer(data_set, settings);
        return code == ERROR_NONE ? megatron_store_check_tokens(data_set->megatron, data_set->tokenizer->vocabulary)
                                  : code;
    }
    int code = token_store_open(&data_set->store, path);
    if (code != ERROR_NONE)
        return code;
    data_set->tokenizer = data_set->store->tokenizer;
    if (settings->ordered)
        return error_user("key data.order = \"megatron\": %s is a token store, but only Megatron data sets (.bin and "
                          ".idx) have this order",
                          path);
    return ERROR_NONE;
}

void data_set_close(struct data_set *data_set)
{
    windows_close(data_set->windows);
    megatron_windows_destroy(data_set->samples);
    token_store_close(data_set->store);
    megatron_store_close(data_set->megatron);
    tokenizer_close(data_set->opened);
}

static int check_layout(const struct data_set *data_set, const struct windows_layout *layout)
{
    const bool first = layout->mode == WINDOWS_FIRST;
    if (!first && layout->overlap == 0)
        return ERROR_NONE;
    return error_user("key data.%s: applies to token stores only, but %s is a Megatron data set, whose samples "
                      "continue from one document into the next; remove the key",
                      first ? "truncate" : "overlap", data_set->path);
}

static int choose_part(const struct data_set *data_set, const struct windows_layout *layout,
                       const struct megatron_settings *settings, struct megatron_part *part)
{
    int code = check_layout(data_set, layout);
    return code == ERROR_NONE ? megatron_part_choose(part, data_set->megatron, settings->parts, settings->use) : code;
}

int data_set_measure(struct data_set *data_set, const struct windows_layout *layout,
                     const struct megatron_settings *settings)
{
    struct megatron_part part;
    if (data_set->store != NULL)
        return windows_measure(data_set->store, layout, &data_set->epoch_windows, &data_set->epoch_tokens);
    int code = choose_part(data_set, layout, settings, &part);
    if (code == ERROR_NONE) {
        data_set->epoch_windows = megatron_samples(part.tokens, layout->window);
        data_set->epoch_tokens = data_set->epoch_windows * layout->window;
    }
    return code;
}

static int open_samples(struct data_set *data_set, const struct windows_layout *layout,
                        const struct megatron_settings *settings, int64_t samples)
{
    struct megatron_part part;
    int code = data_set_measure(data_set, layout, settings);
    if (code == ERROR_NONE)
        code = choose_part(data_set, layout, settings, &part);
    if (code != ERROR_NONE)
        return code;
    return settings->ordered
               ? megatron_windows_create_ordered(&data_set->samples, data_set->megatron, &part, data_set->tokenizer,
                                                 layout->window, samples, settings->seed)
               : megatron_windows_create(&data_set->samples, data_set->megatron, &part, data_set->tokenizer,
                                         layout->window);
}

int data_set_open_windows(struct data_set *data_set, const struct windows_layout *layout,
                          const struct megatron_settings *settings, int64_t samples, struct comm *world)
{
    if (data_set->megatron != NULL)
        return comm_agree(world, open_samples(data_set, layout, settings, samples));
    int code = windows_open(&data_set->windows, data_set->store, layout, world);
    if (code != ERROR_NONE)
        return code;
    data_set->epoch_windows = data_set->windows->index.header.windows;
    data_set->epoch_tokens = data_set->windows->index.header.tokens;
    return comm_agree(world,
                      data_set->epoch_windows > 0
                          ? ERROR_NONE
                          : error_user("%s: has no tokens; prepare it from files with sequences", data_set->path));
}

int data_set_open_tokenizer(const struct data_set *data_set, const struct tokenizer **tokenizer)
{
    const char *name = data_set->tokenizer->name;
    *tokenizer = tokenizer_find(name);
    if (*tokenizer != NULL || data_set->tokenizer == &data_set->plain)
        return ERROR_NONE;
    return data_set->store != NULL ? tokenizer_member_open(tokenizer, data_set->path, name)
                                   : tokenizer_open_bundle(tokenizer, &data_set->opened->bundle, data_set->path);
}

const struct window_source *data_set_source(const struct data_set *data_set)
{
    return data_set->samples != NULL ? megatron_windows_source(data_set->samples) : &data_set->windows->source;
}

uint64_t data_set_checksum(const struct data_set *data_set)
{
    if (data_set->store != NULL)
        return data_set->store->checksum;
    return data_set->samples != NULL ? megatron_windows_checksum(data_set->samples) : data_set->megatron->checksum;
}

/* Returns whether the path leads to files with the same content, whether or not they are the opened ones. */
static bool has_same_content(const struct data_set *data_set)
{
    struct data_set now = {.path = data_set->path};
    int code = data_set->store != NULL ? token_store_open(&now.store, data_set->path)
                                       : megatron_store_open(&now.megatron, data_set->path);
    const bool same =
        code == ERROR_NONE && (data_set->store != NULL ? now.store->checksum == data_set->store->checksum
                                                       : now.megatron->checksum == data_set->megatron->checksum);
    data_set_close(&now);
    error_clear();
    return same;
}

int data_set_recheck(struct data_set *data_set)
{
    enum mapping_state state;
    if (data_set->store != NULL) {
        state = mapping_state(data_set->store->map);
    } else {
        const enum mapping_state index = mapping_state(data_set->megatron->index),
                                 bin = mapping_state(data_set->megatron->bin);
        state = index > bin ? index : bin;
    }
    if (state == MAPPING_SAME || data_set->replaced || has_same_content(data_set))
        return ERROR_NONE;
    if (state == MAPPING_CHANGED)
        return error_user("%s: was overwritten with other data while the run was reading it; restore the file and "
                          "start again: the run resumes from its last checkpoint",
                          data_set->path);
    data_set->replaced = true;
    log_warn("%s: was replaced or removed while the run was reading it. The run continues with the open file; to "
             "resume it later, restore that file",
             data_set->path);
    return ERROR_NONE;
}
