#include "prepare/prepare_private.h"
#include "base/available.h"
#include "base/error.h"
#include "base/range.h"
#include "data/token_store.h"
#include "deck/deck.h"
#include "prepare/clusters.h"

#include <sched.h>
#include <string.h>

static int choose_format(struct prepare_run *prepare)
{
    const char *format = prepare->settings->format;
    prepare->megatron = format != NULL && strcmp(format, "megatron") == 0;
    if (!prepare->megatron && format != NULL && strcmp(format, "store") != 0)
        return error_user("--format %s: must be store or megatron", format);
    if (prepare->settings->append_eod && !prepare->megatron)
        return error_user("--append-eod: needs --format megatron; a token store's windows get their end token when "
                          "they are read (data.eos)");
    return ERROR_NONE;
}

/* Returns the number of CPUs that this process may use, by its affinity mask and its container's quota. */
static int64_t count_cpus(void)
{
    cpu_set_t mask;
    const int cpus = sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : 1;
    const double quota = available_cpus("");
    return quota < 1 ? 1 : quota < cpus ? (int64_t)quota : cpus;
}

static int open_tokenizer(struct prepare_run *prepare)
{
    const struct prepare_settings *settings = prepare->settings;
    int code = tokenizer_open(&prepare->tokenizer, settings->tokenizer);
    if (code != ERROR_NONE)
        return code;
    prepare->token_bytes = token_store_token_bytes(prepare->tokenizer->vocabulary);
    code = census_start(&prepare->census, prepare->tokenizer, settings->letter_case);
    if (code != ERROR_NONE || !tokenizer_is_text(prepare->tokenizer))
        return code;
    if (settings->threads < 0 || settings->threads > DECK_MAXIMUM_THREADS)
        return error_user("--threads %lld: must be 0 (one for each CPU) to %d", (long long)settings->threads,
                          DECK_MAXIMUM_THREADS);
    prepare->encoding = encoding_create(prepare->tokenizer, settings->threads > 0 ? settings->threads : count_cpus(),
                                        &prepare->census, prepare_take_text, prepare);
    return ERROR_NONE;
}

static int open_split(struct prepare_run *prepare)
{
    const struct prepare_settings *settings = prepare->settings;
    if (settings->split_column == NULL)
        return split_parse(&prepare->split, settings->split, settings->seed);
    if (settings->split != NULL)
        return error_user("--split and --split-column: give only one of them");
    split_by_column(&prepare->split);
    return ERROR_NONE;
}

static int open_clusters(struct prepare_run *prepare)
{
    const struct prepare_settings *settings = prepare->settings;
    if (settings->clusters == NULL)
        return ERROR_NONE;
    if (settings->split == NULL)
        return error_user("--clusters: needs --split, which keeps clusters together");
    int code = clusters_read(&prepare->clusters, settings->clusters);
    prepare->split.clusters = prepare->clusters;
    return code;
}

static int open_regions(struct prepare_run *prepare)
{
    const char *path = prepare->settings->regions;
    if (path == NULL)
        return ERROR_NONE;
    if (!prepare->tokenizer->bases)
        return error_user("--regions: needs nucleotides, but the tokenizer is %s", prepare->tokenizer->name);
    return regions_read(&prepare->regions, path);
}

static int open_labels(struct prepare_run *prepare)
{
    const struct prepare_settings *settings = prepare->settings;
    if (settings->labels == NULL && (settings->label_kind != NULL || settings->classes != NULL))
        return error_user("--%s: needs --labels", settings->label_kind != NULL ? "label-kind" : "classes");
    if (settings->labels == NULL)
        return ERROR_NONE;
    if (prepare->megatron || settings->regions != NULL || prepare->encoding != NULL)
        return error_user("--labels: not with %s", prepare->megatron           ? "--format megatron"
                                                   : settings->regions != NULL ? "--regions"
                                                                               : "a tokenizer of text");
    int code = labels_create(&prepare->labels, settings->labels, settings->label_kind, settings->classes), count = 0;
    if (code == ERROR_NONE && settings->split_column != NULL && labels_fields(prepare->labels, &count) != NULL &&
        count == RECORD_LABELS)
        code = error_user("--labels: at most %d fields, with --split-column %d", RECORD_LABELS, RECORD_LABELS - 1);
    return code;
}

int prepare_options(struct prepare_run *prepare)
{
    if (prepare->settings->input_count < 1)
        return error_user("prepare: no input file given ('-' is standard input)");
    int code = choose_format(prepare);
    if (code == ERROR_NONE)
        code = open_tokenizer(prepare);
    if (code == ERROR_NONE)
        code = open_split(prepare);
    if (code == ERROR_NONE)
        code = open_clusters(prepare);
    if (code == ERROR_NONE)
        code = open_regions(prepare);
    if (code == ERROR_NONE)
        code = open_labels(prepare);
    return code;
}
