#include "loader/corpus.h"
#include "base/error.h"
#include "base/log.h"
#include "data/megatron_order.h"
#include "data/tokenizer_member.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char corpus_plain_ids[] = "plain ids";

bool corpus_exists(const char *path)
{
    char *prefix = megatron_prefix(path);
    const bool exists = prefix != NULL || access(path, F_OK) == 0;
    free(prefix);
    return exists;
}

/* Chooses the tokenizer of a Megatron data set. Plain ids have no special tokens, and padding is id 0. */
static int choose_tokenizer(struct corpus *corpus, const struct megatron_settings *settings)
{
    if (settings->tokenizer[0] != '\0') {
        int code = tokenizer_open(&corpus->opened, settings->tokenizer);
        corpus->tokenizer = corpus->opened;
        return code;
    }
    corpus->plain =
        (struct tokenizer){.vocabulary = settings->vocabulary, .eos = -1, .pad = 0, .bos = -1, .unk = -1, .mask = -1};
    strcpy(corpus->plain.name, corpus_plain_ids);
    corpus->tokenizer = &corpus->plain;
    if (settings->vocabulary > 0)
        return ERROR_NONE;
    return error_user("key data.train: %s is a Megatron data set, which does not say how many ids its tokenizer has; "
                      "set model.vocabulary, or data.tokenizer",
                      corpus->path);
}

int corpus_open(struct corpus *corpus, const char *path, const struct megatron_settings *settings)
{
    *corpus = (struct corpus){.path = path};
    char *prefix = megatron_prefix(path);
    const bool is_megatron = prefix != NULL;
    free(prefix);
    if (is_megatron) {
        int code = megatron_store_open(&corpus->megatron, path);
        if (code == ERROR_NONE)
            code = choose_tokenizer(corpus, settings);
        return code == ERROR_NONE ? megatron_store_check_tokens(corpus->megatron, corpus->tokenizer->vocabulary) : code;
    }
    int code = token_store_open(&corpus->store, path);
    if (code != ERROR_NONE)
        return code;
    corpus->tokenizer = corpus->store->tokenizer;
    if (settings->ordered)
        return error_user("key data.order = \"megatron\": %s is a token store, and only Megatron data sets (.bin and "
                          ".idx) have this order",
                          path);
    return ERROR_NONE;
}

void corpus_close(struct corpus *corpus)
{
    windows_close(corpus->windows);
    megatron_windows_destroy(corpus->samples);
    token_store_close(corpus->store);
    megatron_store_close(corpus->megatron);
    tokenizer_close(corpus->opened);
}

static int check_layout(const struct corpus *corpus, const struct windows_layout *layout)
{
    const bool first = layout->mode == WINDOWS_FIRST;
    if (!first && layout->overlap == 0)
        return ERROR_NONE;
    return error_user("key data.%s: is for the sequences of token stores, and %s is a Megatron data set, whose samples "
                      "continue from one document into the next; leave the key out",
                      first ? "truncate" : "overlap", corpus->path);
}

static int choose_part(const struct corpus *corpus, const struct windows_layout *layout,
                       const struct megatron_settings *settings, struct megatron_part *part)
{
    int code = check_layout(corpus, layout);
    return code == ERROR_NONE ? megatron_part_choose(part, corpus->megatron, settings->parts, settings->use) : code;
}

int corpus_measure(struct corpus *corpus, const struct windows_layout *layout, const struct megatron_settings *settings)
{
    struct megatron_part part;
    if (corpus->store != NULL)
        return windows_measure(corpus->store, layout, &corpus->epoch_windows, &corpus->epoch_tokens);
    int code = choose_part(corpus, layout, settings, &part);
    if (code == ERROR_NONE) {
        corpus->epoch_windows = megatron_samples(part.tokens, layout->window);
        corpus->epoch_tokens = corpus->epoch_windows * layout->window;
    }
    return code;
}

static int open_samples(struct corpus *corpus, const struct windows_layout *layout,
                        const struct megatron_settings *settings, int64_t samples)
{
    struct megatron_part part;
    int code = corpus_measure(corpus, layout, settings);
    if (code == ERROR_NONE)
        code = choose_part(corpus, layout, settings, &part);
    if (code != ERROR_NONE)
        return code;
    return settings->ordered
               ? megatron_windows_create_ordered(&corpus->samples, corpus->megatron, &part, corpus->tokenizer,
                                                 layout->window, samples, settings->seed)
               : megatron_windows_create(&corpus->samples, corpus->megatron, &part, corpus->tokenizer, layout->window);
}

int corpus_open_windows(struct corpus *corpus, const struct windows_layout *layout,
                        const struct megatron_settings *settings, int64_t samples, struct comm *world)
{
    if (corpus->megatron != NULL)
        return comm_agree(world, open_samples(corpus, layout, settings, samples));
    int code = windows_open(&corpus->windows, corpus->store, layout, world);
    if (code != ERROR_NONE)
        return code;
    corpus->epoch_windows = corpus->windows->index.header.windows;
    corpus->epoch_tokens = corpus->windows->index.header.tokens;
    return comm_agree(world,
                      corpus->epoch_windows > 0
                          ? ERROR_NONE
                          : error_user("%s: holds no tokens; prepare it from files with sequences", corpus->path));
}

int corpus_open_tokenizer(const struct corpus *corpus, const struct tokenizer **tokenizer)
{
    const char *name = corpus->tokenizer->name;
    *tokenizer = tokenizer_find(name);
    if (*tokenizer != NULL || corpus->tokenizer == &corpus->plain)
        return ERROR_NONE;
    return corpus->store != NULL ? tokenizer_member_open(tokenizer, corpus->path, name)
                                 : tokenizer_open_bundle(tokenizer, &corpus->opened->bundle, corpus->path);
}

const struct window_source *corpus_source(const struct corpus *corpus)
{
    return corpus->samples != NULL ? megatron_windows_source(corpus->samples) : &corpus->windows->source;
}

uint64_t corpus_checksum(const struct corpus *corpus)
{
    if (corpus->store != NULL)
        return corpus->store->checksum;
    return corpus->samples != NULL ? megatron_windows_checksum(corpus->samples) : corpus->megatron->checksum;
}

/* Returns whether the path leads to files with the same content, whether or not they are the opened ones. */
static bool holds_same(const struct corpus *corpus)
{
    struct corpus now = {.path = corpus->path};
    int code = corpus->store != NULL ? token_store_open(&now.store, corpus->path)
                                     : megatron_store_open(&now.megatron, corpus->path);
    const bool same =
        code == ERROR_NONE && (corpus->store != NULL ? now.store->checksum == corpus->store->checksum
                                                     : now.megatron->checksum == corpus->megatron->checksum);
    corpus_close(&now);
    error_clear();
    return same;
}

int corpus_recheck(struct corpus *corpus)
{
    enum mapping_state state;
    if (corpus->store != NULL) {
        state = mapping_state(corpus->store->map);
    } else {
        const enum mapping_state index = mapping_state(corpus->megatron->index),
                                 bin = mapping_state(corpus->megatron->bin);
        state = index > bin ? index : bin;
    }
    if (state == MAPPING_SAME || corpus->replaced || holds_same(corpus))
        return ERROR_NONE;
    if (state == MAPPING_CHANGED)
        return error_user("%s: was overwritten while this run reads it, with other data; put the right file back and "
                          "start again: the run resumes from its last checkpoint",
                          corpus->path);
    corpus->replaced = true;
    log_warn("%s: was replaced or removed while this run reads it. The run continues with the file that it has open, "
             "but once it has ended it can be continued only with the old file",
             corpus->path);
    return ERROR_NONE;
}
