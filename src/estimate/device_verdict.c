#include "estimate/device_verdict.h"
#include "base/faults.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/quantile.h"
#include "base/thousands.h"

#include <stdlib.h>
#include <string.h>

struct judge {
    const struct device_report *reports;
    int count;
    double slow;
    int *kinds;      /* [count] lowest rank with the same kind of device */
    double *scratch; /* [count * REPORT_LINKS] */
    struct fault_list faults;
};

static const char *text_of(const struct judge *j, int rank, char out[PLACE_TEXT_BYTES])
{
    return device_place_text(out, rank, &j->reports[rank].place);
}

/* Returns the upper median, so that of two rates the lower one is below it. Sorts values[count]. */
static double upper_median(double *values, int64_t count)
{
    quantile_sort(values, count);
    return values[count / 2];
}

/* Ranks of a kind follow the lowest of them. There are few kinds. */
static void find_kinds(struct judge *j)
{
    for (int r = 0; r < j->count; r++)
        for (j->kinds[r] = 0; strcmp(j->reports[j->kinds[r]].kind, j->reports[r].kind) != 0;)
            j->kinds[r]++;
}

/* -- Wrong results ------------------------------------------------------------------------------------------------ */

static void judge_results(struct judge *j)
{
    char text[PLACE_TEXT_BYTES], other[PLACE_TEXT_BYTES];
    for (int r = 0; r < j->count; r++) {
        const struct device_report *report = &j->reports[r];
        if (report->miscounts)
            faults_add(&j->faults, "%s: a matrix product is wrong", text_of(j, r, text));
        if (report->varies)
            faults_add(&j->faults, "%s: a matrix product has other bits when it is repeated", text_of(j, r, text));
        if (report->forgets)
            faults_add(&j->faults, "%s: memory does not keep what is written", text_of(j, r, text));
        for (int l = 0; l < report->link_count; l++)
            if (report->links[l].wrong)
                faults_add(&j->faults, "%s: receives other bytes than %s sends", text_of(j, r, text),
                           text_of(j, report->links[l].rank, other));
    }
}

static int by_product(const void *a, const void *b)
{
    const uint64_t x = (*(const struct device_report *const *)a)->product,
                   y = (*(const struct device_report *const *)b)->product;
    return (x > y) - (x < y);
}

/* Returns how many of the sorted reports[count] have the most frequent product, and writes that product. */
static int most_frequent(const struct device_report **sorted, int count, uint64_t *product)
{
    int most = 0;
    for (int first = 0, next; first < count; first = next) {
        for (next = first; next < count && sorted[next]->product == sorted[first]->product;)
            next++;
        if (next - first > most) {
            most = next - first;
            *product = sorted[first]->product;
        }
    }
    return most;
}

/* Compares the products of a kind of device. Without a majority all ranks of the kind are named. */
static void judge_kind(struct judge *j, int kind)
{
    const struct device_report **members = memory_allocate(j->count * (int64_t)sizeof *members);
    char text[PLACE_TEXT_BYTES];
    uint64_t product = 0;
    int count = 0;
    for (int r = 0; r < j->count; r++)
        if (j->kinds[r] == kind)
            members[count++] = &j->reports[r];
    qsort(members, (size_t)count, sizeof(const struct device_report *), by_product);
    const int most = most_frequent(members, count, &product);
    const bool majority = 2 * most > count;
    for (int r = 0; r < j->count; r++)
        if (j->kinds[r] == kind && majority && j->reports[r].product != product)
            faults_add(&j->faults, "%s: a matrix product has other bits than on %d of %d ranks of this kind of device",
                       text_of(j, r, text), most, count);
        else if (j->kinds[r] == kind && !majority)
            faults_add(&j->faults,
                       "%s: a matrix product has other bits than on other ranks, and no majority shows which are right",
                       text_of(j, r, text));
    memory_free(members);
}

/* -- Rates -------------------------------------------------------------------------------------------------------- */

static double flops_of(const struct device_report *report)
{
    return report->flops;
}

static double memory_of(const struct device_report *report)
{
    return report->memory;
}

/* Logs and judges a rate of a kind of device. unit: of 1e9 per second. */
static void judge_rate(struct judge *j, int kind, double (*rate)(const struct device_report *report), const char *what,
                       const char *unit)
{
    char text[PLACE_TEXT_BYTES];
    int64_t count = 0;
    int slowest = kind;
    for (int r = kind; r < j->count; r++)
        if (j->kinds[r] == kind) {
            j->scratch[count++] = rate(&j->reports[r]);
            slowest = rate(&j->reports[r]) < rate(&j->reports[slowest]) ? r : slowest;
        }
    const double median = upper_median(j->scratch, count);
    log_info("#   %-15s median %.5g %s, slowest %.5g: %s", what, median / 1e9, unit, rate(&j->reports[slowest]) / 1e9,
             text_of(j, slowest, text));
    for (int r = kind; r < j->count; r++)
        if (j->kinds[r] == kind && rate(&j->reports[r]) < j->slow * median)
            faults_add(&j->faults, "%s: %s at %.4g %s are %.2f of the median", text_of(j, r, text), what,
                       rate(&j->reports[r]) / 1e9, unit, rate(&j->reports[r]) / median);
}

/* Returns whether a rank has a link, within or between nodes, of at least `least` bytes per second. */
static bool has_fast_link(const struct device_report *report, bool near, double least)
{
    bool fast = false;
    for (int l = 0; l < report->link_count; l++)
        fast = fast || (report->links[l].near == near && report->links[l].per_second >= least);
    return fast;
}

static void name_slow_links(struct judge *j, int rank, bool near, double least, double median)
{
    const struct device_report *report = &j->reports[rank];
    const bool other_link = has_fast_link(report, near, least);
    char text[PLACE_TEXT_BYTES], other[PLACE_TEXT_BYTES];
    double best = 0;
    bool named = false;
    for (int l = 0; l < report->link_count; l++) {
        const struct link_report *link = &report->links[l];
        if (link->near != near || link->per_second >= least)
            continue;
        const bool others = has_fast_link(&j->reports[link->rank], near, least);
        named = named || (others && !other_link);
        best = link->per_second > best ? link->per_second : best;
        if (others == other_link && rank < link->rank)
            faults_add(&j->faults, "the link of %s and %s: %.4g GB/s are %.2f of the median", text_of(j, rank, text),
                       text_of(j, link->rank, other), link->per_second / 1e9, link->per_second / median);
    }
    if (named)
        faults_add(&j->faults, "%s: transfers %s nodes at %.4g GB/s are %.2f of the median", text_of(j, rank, text),
                   near ? "within" : "between", best / 1e9, best / median);
}

/* Logs and judges the links within or between nodes. A rank that has only slow links to ranks that also have fast ones
 * is named itself, else both ends of a slow link. */
static void judge_links(struct judge *j, bool near)
{
    char text[PLACE_TEXT_BYTES], other[PLACE_TEXT_BYTES];
    int64_t count = 0;
    int from = 0;
    const struct link_report *slowest = NULL;
    for (int r = 0; r < j->count; r++)
        for (int l = 0; l < j->reports[r].link_count; l++) {
            const struct link_report *link = &j->reports[r].links[l];
            if (link->near != near)
                continue;
            j->scratch[count++] = link->per_second;
            if (slowest == NULL || link->per_second < slowest->per_second) {
                slowest = link;
                from = r;
            }
        }
    if (count == 0)
        return;
    const double median = upper_median(j->scratch, count);
    log_info("#   %s nodes   median %.5g GB/s each way, slowest %.5g: %s and %s", near ? "within " : "between",
             median / 1e9, slowest->per_second / 1e9, text_of(j, from, text), text_of(j, slowest->rank, other));
    for (int r = 0; r < j->count; r++)
        name_slow_links(j, r, near, j->slow * median, median);
}

/* -- All ---------------------------------------------------------------------------------------------------------- */

static int verdict(struct judge *j)
{
    const int code = faults_verdict(&j->faults, "the check of devices has failed");
    if (code == ERROR_NONE)
        return code;
    char *message = memory_string(error_message());
    error_clear();
    error_restate(ERROR_ENVIRONMENT, message); /* no key of a deck can help */
    free(message);
    return ERROR_ENVIRONMENT;
}

int device_verdict(const struct device_report *reports, int count, double slow)
{
    struct judge j = {.reports = reports,
                      .count = count,
                      .slow = slow,
                      .kinds = memory_allocate(count * (int64_t)sizeof *j.kinds),
                      .scratch = memory_allocate(count * (int64_t)sizeof *j.scratch * REPORT_LINKS)};
    find_kinds(&j);
    judge_results(&j);
    for (int k = 0; k < count; k++) {
        if (j.kinds[k] != k)
            continue;
        int ranks = 0;
        int64_t tested = reports[k].tested;
        for (int r = k; r < count; r++)
            if (j.kinds[r] == k) {
                ranks++;
                tested = reports[r].tested < tested ? reports[r].tested : tested;
            }
        log_info("# check of %d rank%s, %s; memory tested: %.4g GiB of each", ranks, plural(ranks), reports[k].kind,
                 (double)tested / (1 << 30));
        judge_kind(&j, k);
        judge_rate(&j, k, flops_of, "matrix products", "GFLOP/s");
        judge_rate(&j, k, memory_of, "memory copies", "GB/s");
    }
    judge_links(&j, true);
    judge_links(&j, false);
    memory_free(j.kinds);
    memory_free(j.scratch);
    return verdict(&j);
}
