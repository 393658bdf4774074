#include "loader/labelling.h"
#include "base/error.h"
#include "base/range.h"

#include <string.h>

/* -- Stores -------------------------------------------------------------------------------------------------------- */

static enum store_label wanted_kind(const struct task_settings *task)
{
    return task->head == DECK_HEAD_TOKEN              ? STORE_LABEL_TOKEN
           : task->problem == DECK_PROBLEM_REGRESSION ? STORE_LABEL_NUMBER
                                                      : STORE_LABEL_CLASS;
}

bool labelling_agrees(const struct token_store *a, const struct token_store *b)
{
    const int64_t bytes = MIN(a->class_bytes, b->class_bytes);
    return memcmp(a->classes, b->classes, (size_t)bytes) == 0;
}

static int check_store(const struct task_settings *task, const struct data_set *set)
{
    static const char *const wanted[STORE_LABEL_KINDS] = {"a class of each sequence", "numbers of each sequence",
                                                          "a class of each token"};
    const struct token_store *store = set->store;
    const enum store_label kind = wanted_kind(task);
    if (store == NULL || store->label_kind != kind)
        return error_user("key model.head = \"%s\": learns %s, but %s has %s; prepare it with --labels%s%s",
                          task->head == DECK_HEAD_TOKEN ? "token" : "sequence", wanted[kind], set->path,
                          store == NULL || store->label_count == 0 ? "no labels" : wanted[store->label_kind],
                          kind == STORE_LABEL_CLASS ? "" : " and --label-kind ",
                          kind == STORE_LABEL_CLASS ? "" : store_labels[kind]);
    if (kind == STORE_LABEL_NUMBER ? store->label_count != task->labels : store->label_count > task->labels)
        return error_user("key model.num_labels = %lld: %s has %lld %s", (long long)task->labels, set->path,
                          (long long)store->label_count,
                          kind == STORE_LABEL_NUMBER ? "numbers of each sequence" : "classes");
    return ERROR_NONE;
}

int labelling_check(const struct task_settings *task, const struct store_set *set, bool truncate)
{
    if (set->list.count == 0)
        return error_user("key data.source = \"random\": has no labels, which model.head = \"%s\" learns",
                          task->head == DECK_HEAD_TOKEN ? "token" : "sequence");
    for (int d = 0; d < set->list.count; d++) {
        const struct data_set *data = &set->stores[d];
        int code = check_store(task, data);
        if (code != ERROR_NONE)
            return code;
        if (!labelling_agrees(data->store, set->stores[0].store))
            return error_user("key data.train: %s and %s number their classes differently; prepare both with the same "
                              "--classes",
                              set->stores[0].path, data->path);
        if (task->head == DECK_HEAD_SEQUENCE && !truncate && data->epoch_windows != data->store->sequences)
            return error_user(
                "key data.window: %s has sequences longer than a window; a head for sequences needs whole "
                "ones: raise data.window, or set data.truncate = true for their first windows",
                data->path);
    }
    return ERROR_NONE;
}

static void count_tokens(const struct task_settings *task, const struct token_store *store, int64_t *counts)
{
    enum { SOME = 1024 };
    int32_t classes[SOME];
    for (int64_t start = 0; start < store->token_count; start += SOME) {
        const int64_t left = store->token_count - start, count = MIN(left, (int64_t)SOME);
        token_store_token_classes(store, start, count, classes);
        for (int64_t i = 0; i < count; i++)
            if (classes[i] >= 0 && classes[i] < task->labels)
                counts[classes[i]]++;
    }
}

void labelling_count(const struct task_settings *task, const struct store_set *set, int64_t *counts)
{
    for (int d = 0; d < set->list.count; d++) {
        const struct token_store *store = set->stores[d].store;
        if (task->head == DECK_HEAD_TOKEN) {
            count_tokens(task, store, counts);
            continue;
        }
        for (int64_t i = 0; i < store->sequences; i++) {
            const int32_t label = token_store_class(store, i);
            if (label >= 0 && label < task->labels)
                counts[label]++;
        }
    }
}

/* -- Segments ------------------------------------------------------------------------------------------------------ */

static void check_class(const struct task_settings *task, const struct token_store *store, int64_t sequence,
                        int32_t label)
{
    if (label >= task->labels)
        error_lost("%s: is damaged: sequence %lld has class %d, but there are %lld; prepare it again", store->path,
                   (long long)sequence, (int)label, (long long)task->labels);
}

/* Tokens first .. end - 1 of a segment. */
struct token_range {
    int64_t first, end;
};

/* Returns the segment's tokens that are not special. */
static struct token_range plain_tokens(const struct packer_segment *segment)
{
    const struct token_window *window = &segment->window;
    const int64_t begin = window->has_bos, end = window->has_bos + window->length;
    const int64_t first = MAX(begin, segment->offset) - segment->offset;
    const int64_t length = segment->length;
    return (struct token_range){first, MIN(end - segment->offset, length)};
}

/* Returns the tokens of the segment that are pooled. */
static struct token_range pooled_tokens(const struct task_settings *task, const struct packer_segment *segment)
{
    const int64_t last = segment->length - 1;
    if (task->pooling == DECK_POOLING_MEAN)
        return plain_tokens(segment);
    return task->pooling == DECK_POOLING_LAST ? (struct token_range){last, last + 1} : (struct token_range){0, 1};
}

static void label_sequence(const struct task_settings *task, const struct token_store *store,
                           const struct packer_segment *segment, struct batch *batch, int64_t at, int64_t slot)
{
    const bool numbers = task->problem == DECK_PROBLEM_REGRESSION;
    const int32_t label = numbers ? (int32_t)slot : token_store_class(store, segment->window.sequence);
    const struct token_range pooled = pooled_tokens(task, segment);
    if (numbers)
        token_store_numbers(store, segment->window.sequence, batch->targets + slot * batch->numbers);
    else
        check_class(task, store, segment->window.sequence, label);
    for (int64_t t = pooled.first; t < pooled.end; t++)
        batch->labels[at + t] = label;
    batch->valid += label >= 0 && pooled.end > pooled.first;
}

static void label_tokens(const struct task_settings *task, const struct token_store *store,
                         const struct packer_segment *segment, bool reversed, struct batch *batch, int64_t at)
{
    const struct token_window *window = &segment->window;
    const struct token_range plain = plain_tokens(segment);
    const int64_t count = MAX(plain.end - plain.first, (int64_t)0);
    const int64_t from = plain.first + segment->offset - window->has_bos; /* index in the window */
    int32_t *labels = batch->labels + at + plain.first;
    token_store_token_classes(store, window->start + (reversed ? window->length - from - count : from), count, labels);
    for (int64_t i = 0; reversed && i < count / 2; i++) {
        const int32_t other = labels[i];
        labels[i] = labels[count - 1 - i];
        labels[count - 1 - i] = other;
    }
    for (int64_t i = 0; i < count; i++) {
        check_class(task, store, window->sequence, labels[i]);
        batch->valid += labels[i] >= 0;
    }
}

void label_segment(const struct task_settings *task, const struct window_source *source,
                   const struct packer_segment *segment, bool reversed, struct batch *batch, int64_t at, int64_t slot)
{
    for (int64_t t = at; t < at + segment->length; t++)
        batch->labels[t] = BATCH_IGNORED;
    if (task->head == DECK_HEAD_SEQUENCE)
        label_sequence(task, source->labelled, segment, batch, at, slot);
    else
        label_tokens(task, source->labelled, segment, reversed, batch, at);
}
