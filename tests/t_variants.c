/* Scores of variants match transformers to 1e-6 relative L2 (tests/golden/make_score.py) for each method of masked
 * models, whole and in windows, whatever the size of a batch, on the CPU executor and the oracle. Rules of windows,
 * Spearman's correlation and AUC. Injected faults in launches are noticed. */
#include "check.h"
#include "inference_faults.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/agreement.h"
#include "base/ranking.h"
#include "bridge/import.h"
#include "cpu/cpu.h"
#include "infer/site_window.h"
#include "infer/variant_run.h"
#include "ref/golden.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

enum { METHODS = 5, MOST_ROWS = 64, LINE = 4096, BEFORE = 3 /* columns before the first method's */ };

static const double bound = 1e-6;
/* The first METHODS columns of the golden files, and those of them that need one sequence for each change. */
enum { QUICK = 3 };
static const char quick_methods[] = "masked-marginals,masked-together,wt-marginals";
static const char every_method[] =
    "masked-marginals,masked-together,wt-marginals,pseudo-log-likelihood,pseudo-perplexity";

static char *golden_path(const char *name)
{
    const char *top = getenv("abs_top_srcdir");
    return memory_format("%s/tests/golden/%s", top != NULL ? top : ".", name);
}

/* -- Comparing ---------------------------------------------------------------------------------------------------- */

struct columns {
    double values[METHODS][MOST_ROWS];
    int rows;
};

/* Reads `count` columns of a table, after the first BEFORE. */
static void read_columns(const char *path, int count, struct columns *columns)
{
    char line[LINE];
    FILE *file = fopen(path, "r");
    CHECK(file != NULL && fgets(line, LINE, file) != NULL);
    columns->rows = 0;
    while (fgets(line, LINE, file) != NULL && columns->rows < MOST_ROWS) {
        char *at = line;
        for (int c = 0; c < BEFORE + count; c++) {
            char *cell = strsep(&at, ",\n");
            CHECK(cell != NULL);
            if (c >= BEFORE)
                columns->values[c - BEFORE][columns->rows] = strtod(cell, NULL);
        }
        columns->rows++;
    }
    fclose(file);
}

/* Writes the table without the columns of the methods, which the result gets. */
static void write_mutations(const char *golden, const char *path)
{
    char line[LINE];
    FILE *from = fopen(golden, "r"), *to = fopen(path, "w");
    CHECK(from != NULL && to != NULL);
    while (fgets(line, LINE, from) != NULL) {
        char *at = line;
        for (int c = 0; c < BEFORE; c++)
            fprintf(to, "%s%c", strsep(&at, ","), c + 1 < BEFORE ? ',' : '\n');
    }
    fclose(from);
    fclose(to);
}

/* The worst relative L2 distance of the columns of every_method or quick_methods. */
static double apart(struct comm *self, struct variant_settings settings, device_make *make_executor,
                    const struct columns *expected)
{
    static struct columns found;
    const int count = settings.methods == quick_methods ? QUICK : METHODS;
    double worst = 0;
    CHECK(variant_run(self, &settings, make_executor) == ERROR_NONE);
    read_columns(settings.output, count, &found);
    CHECK(found.rows == expected->rows && found.rows > 20);
    for (int m = 0; m < count; m++)
        worst = fmax(worst, golden_distance(found.values[m], expected->values[m], found.rows));
    return worst;
}

/* -- Rules -------------------------------------------------------------------------------------------------------- */

static void test_windows(void)
{
    CHECK(site_window(64, 64, 63, 63) == 0 && site_window(10, 64, 9, 9) == 0);
    CHECK(site_window(1000, 64, 0, 63) == 0 && site_window(1000, 64, 0, 64) == -1);
    for (int64_t size = 1; size < 70; size++)
        for (int64_t length = size; length < 200; length += 13) {
            int64_t before = 0;
            for (int64_t site = 0; site < length; site++) {
                const int64_t first = site_window(length, size, site, site), room = size * 7 / 16 - 1;
                CHECK(first >= before && first <= length - size && site >= first && site < first + size);
                CHECK(site - first >= room || first == 0);
                CHECK(first + size - 1 - site >= room || first == length - size);
                before = first;
                const int64_t last = site + size - 1,
                              wide = last < length ? site_window(length, size, site, last) : site;
                CHECK(wide == site);
            }
        }
}

/* Three classes: labels 0 0 1 2 2 2 predicted as 0 1 1 2 2 0; by hand. */
static void test_agreement(void)
{
    int64_t labelled[3] = {2, 1, 3}, predicted[3] = {2, 2, 2}, right[3] = {1, 1, 2};
    const struct class_counts counts = {3, labelled, predicted, right};
    CHECK_NEAR(agreement_accuracy(&counts), 4.0 / 6, 1e-15, 0);
    CHECK_NEAR(agreement_f1(&counts), (0.5 + 2.0 / 3 + 0.8) / 3, 1e-15, 0);
    CHECK_NEAR(agreement_mcc(&counts), 12 / sqrt(528), 1e-15, 0);
    CHECK_NEAR(agreement_r2((double[]){1.1, 1.9, 3.2}, (double[]){1, 2, 3}, 3), 0.97, 1e-14, 0);
    CHECK(isnan(agreement_r2((double[]){1, 2}, (double[]){3, 3}, 2)));
}

static void test_ranking(void)
{
    test_agreement();
    const double a[] = {1, 2, 3, 4, 5}, b[] = {5, 6, 7, 8, 7}, ties[] = {1, 1, 2, 2, 2}, same[] = {3, 3, 3, 3, 3};
    CHECK(fabs(ranking_spearman(a, b, 5) - 0.8207826816681233) < 1e-12); /* scipy.stats.spearmanr */
    CHECK(fabs(ranking_spearman(a, ties, 5) - 0.8660254037844387) < 1e-12);
    CHECK(isnan(ranking_spearman(a, same, 5)));
    CHECK(fabs(ranking_auc(a, ties, 5, 1) - 1) < 1e-12 && fabs(ranking_auc(same, ties, 5, 1) - 0.5) < 1e-12);
    CHECK(fabs(ranking_auc(b, (const double[]){0, 1, 0, 1, 0}, 5, 0) - 4.0 / 6) < 1e-12); /* 6 and 8 beside 5, 7, 7 */
    CHECK(isnan(ranking_auc(a, a, 5, 9)));
}

int main(void)
{
    static const enum inference_fault faults[] = {NO_FAULT, NO_DROPOUT, ROPE_FORM, CAUSAL, POSITIONS, WRONG_ROWS};
    static struct columns expected;
    struct comm *self = comm_self();
    char folder[] = "/tmp/cistron-variants.XXXXXX";
    CHECK(mkdtemp(folder) != NULL);
    char *checkpoint = memory_format("%s/model.h5", folder), *output = memory_format("%s/out.csv", folder);
    char *mutations = memory_format("%s/mutations.csv", folder), *fasta = golden_path("embed_esm2.fa");
    char *weights = golden_path("esm2_tiny");
    const struct import_settings model = {.folder = weights, .output = checkpoint, .version = "t_variants"};
    CHECK(import_run(&model) == ERROR_NONE);
    test_windows();
    test_ranking();
    struct variant_settings settings = {.checkpoint = checkpoint,
                                        .fasta = fasta,
                                        .mutations = mutations,
                                        .methods = every_method,
                                        .output = output,
                                        .replace = true};
    for (int windows = 1; windows >= 0; windows--) {
        char *golden = golden_path(windows ? "score_esm2_windows.csv" : "score_esm2.csv");
        read_columns(golden, METHODS, &expected);
        write_mutations(golden, mutations);
        settings.context = windows ? 66 : 0;
        settings.batch = 0;
        settings.methods = every_method;
        const double whole = apart(self, settings, cpu_executor_make, &expected);
        settings.batch = 600;
        settings.methods = quick_methods;
        const double small = apart(self, settings, cpu_executor_make, &expected);
        printf("%s: %.1e, in small batches %.1e\n", golden, whole, small);
        CHECK(whole <= bound && small <= bound);
        if (windows) {
            const double oracle = apart(self, settings, make_oracle, &expected);
            printf("    on the oracle %.1e\n", oracle);
            CHECK(oracle <= bound);
        }
        free(golden);
    }
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        const enum inference_fault fault = planted.fault = faults[i];
        const double d = apart(self, settings, make_planted, &expected);
        planted.cpu->class->destroy(planted.cpu);
        printf("    %-32s %.1e\n", inference_fault_names[fault], d);
        CHECK((d <= bound) == (fault == NO_FAULT));
    }
    char *side = memory_format("%s.xxh3", checkpoint);
    unlink(side);
    unlink(checkpoint);
    unlink(output);
    unlink(mutations);
    rmdir(folder);
    free(side);
    free(checkpoint);
    free(output);
    free(mutations);
    free(fasta);
    free(weights);
    comm_destroy(self);
    return check_end();
}
