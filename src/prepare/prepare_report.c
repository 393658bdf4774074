#include "prepare/prepare_private.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/thousands.h"
#include "records/record_reader.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void warn_of_repeats(const struct prepare_run *prepare)
{
    int64_t counts[SPLIT_PARTS];
    char *list = memory_string("");
    repeats_count(prepare->repeats, counts);
    for (int i = 1; i < prepare->split.parts; i++) {
        if (counts[i] == 0)
            continue;
        char *longer = memory_format("%s, %lld of the %lld in %s", list, (long long)counts[i],
                                     (long long)prepare->outputs[i].sequences, prepare->split.part[i].name);
        free(list);
        list = longer;
    }
    if (list[0] != '\0')
        log_warn("sequences that an earlier part of the split has too: %s; their loss is not a loss on unseen data. "
                 "Remove repeated sequences from the input first",
                 list + strlen(", "));
    free(list);
}

/* Reports the labels of the stores: the first few classes or numbers. */
static void report_labels(const struct prepare_run *prepare)
{
    enum { NAMED = 8 };
    const struct store_labels labels = labels_of_store(prepare->labels);
    char *list = memory_string("");
    const char *name = labels.names;
    for (int64_t i = 0; i < labels.count && i < NAMED; i++) {
        const int length = (int)(strchr(name, '\n') - name);
        char *longer = memory_format("%s%s%.*s", list, i > 0 ? ", " : "", length, name);
        free(list);
        list = longer;
        name += length + 1;
    }
    log_info("labels: %lld %s%s: %s%s", (long long)labels.count,
             labels.kind == STORE_LABEL_NUMBER  ? "number"
             : labels.kind == STORE_LABEL_TOKEN ? "token class"
                                                : "class",
             labels.count == 1                   ? ""
             : labels.kind == STORE_LABEL_NUMBER ? "s"
                                                 : "es",
             list, labels.count > NAMED ? ", ..." : "");
    if (prepare->unlabelled_records > 0)
        log_info("%lld record%s without a label skipped (--skip-bad)", (long long)prepare->unlabelled_records,
                 plural(prepare->unlabelled_records));
    free(list);
}

void prepare_report(const struct prepare_run *prepare)
{
    int64_t total = spool_tokens(prepare->spool);
    for (int i = 0; i < prepare->split.parts; i++) {
        const struct prepare_output *output = &prepare->outputs[i];
        log_info("%s: %lld %s (%.2f %%) in %lld sequence%s, checksum %016" PRIx64, output->path,
                 (long long)output->tokens, tokenizer_token_noun(prepare->tokenizer),
                 100.0 * (double)output->tokens / (double)total, (long long)output->sequences,
                 plural(output->sequences), output->checksum);
    }
    if (prepare->empty_files > 0)
        log_warn("%lld of %lld files have no record; the first of these files is %s", (long long)prepare->empty_files,
                 (long long)prepare->source_count, prepare->first_empty_file);
    record_reader_report(prepare->skipped_records, prepare->settings->field);
    if (prepare->labels != NULL)
        report_labels(prepare);
    if (prepare->low_quality > 0)
        log_info("%lld read%s below --min-quality %g dropped", (long long)prepare->low_quality,
                 plural(prepare->low_quality), prepare->settings->min_quality);
    if (prepare->empty_records > 0)
        log_info("%lld empty record%s skipped", (long long)prepare->empty_records, plural(prepare->empty_records));
    if (prepare->equal_records > 0)
        log_info("%lld record%s with the sequence of an earlier one%s", (long long)prepare->equal_records,
                 plural(prepare->equal_records),
                 prepare->settings->drop_duplicates ? " dropped" : " (--drop-duplicates drops them)");
    if (prepare->loose_records > 0)
        log_warn("%s does not name %lld of %lld records; each of them is a cluster of its own",
                 prepare->settings->clusters, (long long)prepare->loose_records,
                 (long long)spool_records(prepare->spool));
    if (prepare->encoding != NULL)
        log_info("%lld bytes of text, %.3f a token", (long long)prepare->text_bytes,
                 (double)prepare->text_bytes / (double)total);
    census_report(&prepare->census, prepare->stops.dropped);
    if (prepare->repeats != NULL)
        warn_of_repeats(prepare);
    double seconds = clock_seconds() - prepare->start;
    log_info("%lld file%s, %.1f MB read in %.2f s (%.0f MB/s)", (long long)prepare->source_count,
             plural(prepare->source_count), (double)prepare->bytes_read * 1e-6, seconds,
             (double)prepare->bytes_read * 1e-6 / (seconds + 1e-9));
}
