/* Scores of FASTA records match transformers on the same windows to 1e-5 (tests/golden/make_eval.py), in batches of
 * several sizes, on the CPU executor and the oracle, and have the same bits in a file of their own. Injected faults:
 * another overlap, context, BOS or mask; results by the number of tokens of a batch. */
#include "check.h"
#include "inference_faults.h"

#include "base/error.h"
#include "base/memory.h"
#include "cpu/cpu.h"
#include "infer/inference.h"
#include "infer/score.h"
#include "infer/words.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

static char *golden_path(const char *ending)
{
    const char *top = getenv("abs_top_srcdir");
    return memory_format("%s/tests/golden/eval_llama.%s", top != NULL ? top : ".", ending);
}

struct way {
    int64_t context, overlap, windows; /* windows: at once */
    bool bos, mask;
    const char *expected; /* name in the golden file */
    int64_t each;         /* tokens of a batch of short windows; 0: as many as of others */
    const char *fasta;    /* NULL: the golden one */
};

struct run_outcome {
    double worst;       /* relative distance of a record's mean */
    bool counts, names; /* are those of the golden file */
};

static struct run_outcome compare(const struct fasta_score *score, const json_t *expected)
{
    struct run_outcome o = {0, true, score->count == (int64_t)json_array_size(expected)};
    for (int64_t r = 0; r < score->count && o.names; r++) {
        const struct score_record *own = &score->records[r];
        const json_t *record = json_array_get(expected, (size_t)r);
        int64_t scored = json_integer_value(json_object_get(record, "num_valid_tokens"));
        double loss = 0 - json_number_value(json_object_get(record, "sum_log_prob"));
        o.names &= strcmp(own->name, json_string_value(json_object_get(record, "seq_name"))) == 0;
        o.counts &= own->scored == scored;
        o.counts &= own->length == json_integer_value(json_object_get(record, "seq_length"));
        if (own->scored == 0 || scored == 0) {
            o.counts &= own->loss == loss;
            continue;
        }
        double distance = fabs(own->loss / (double)own->scored / (loss / (double)scored) - 1);
        if (!(distance <= o.worst))
            o.worst = distance;
    }
    return o;
}

/* Scores a file; the caller destroys the result. */
static struct fasta_score score_file(struct comm *self, device_make *make_executor, const struct way *way)
{
    char *checkpoint = golden_path("h5"), *fasta = way->fasta != NULL ? memory_string(way->fasta) : golden_path("fa");
    struct inference *inference = memory_allocate(sizeof *inference);
    struct fasta_score score = {0};
    int code = inference_open(inference, self, checkpoint, make_executor);
    int64_t tokens = way->windows * way->context, at_once = 4 * way->windows;
    if (code == ERROR_NONE) {
        inference_lay_out(inference,
                          &(struct inference_shape){.use = MEMORY_EVALUATE, .tokens = tokens, .segments = at_once});
        code = inference_start(inference);
    }
    const struct score_settings settings = {.windows = {.input = fasta,
                                                        .tokenizer = inference->tokenizer,
                                                        .context = way->context,
                                                        .overlap = way->overlap,
                                                        .bos = way->bos,
                                                        .letter_case = "keep"}, /* as the golden does */
                                            .mask = way->mask,
                                            .tokens = tokens,
                                            .short_tokens = way->each > 0 ? way->each : tokens,
                                            .windows_at_once = at_once,
                                            .teams = inference->teams,
                                            .team = inference->team};
    if (code == ERROR_NONE)
        code = score_run(&score, self, &inference->engine, &settings);
    CHECK(code == ERROR_NONE);
    inference_close(inference);
    memory_free(inference);
    free(checkpoint);
    free(fasta);
    return score;
}

static struct run_outcome run(struct comm *self, device_make *make_executor, const json_t *golden,
                              const struct way *way)
{
    struct fasta_score score = score_file(self, make_executor, way);
    struct run_outcome o = compare(&score, json_object_get(golden, way->expected));
    score_destroy(&score);
    return o;
}

/* Writes the records of the golden file to files of their own: PREFIX0.fa, PREFIX1.fa, ... Returns their number. */
static int64_t write_alone(const char *prefix)
{
    char *fasta = golden_path("fa"), line[4096];
    FILE *from = fopen(fasta, "r"), *to = NULL;
    int64_t records = 0;
    CHECK(from != NULL);
    while (from != NULL && fgets(line, sizeof line, from) != NULL) {
        if (line[0] == '>') {
            char *path = memory_format("%s%lld.fa", prefix, (long long)records++);
            if (to != NULL)
                fclose(to);
            CHECK((to = fopen(path, "w")) != NULL);
            free(path);
        }
        fputs(line, to);
    }
    fclose(to);
    fclose(from);
    free(fasta);
    return records;
}

/* A record's loss has the same bits in a file of its own, on an executor whose results depend on the number of tokens
 * of a batch. Records without sequence are left out. */
static void test_alone(struct comm *self)
{
    char folder[] = "/tmp/cistron-eval-XXXXXX";
    struct way way = {512, 200, 2, false, true, "plain", .each = 128};
    planted.fault = BY_TOKENS;
    CHECK(mkdtemp(folder) != NULL);
    char *prefix = memory_format("%s/record", folder);
    struct fasta_score all = score_file(self, make_planted, &way);
    planted.cpu->class->destroy(planted.cpu);
    int64_t compared = 0;
    for (int64_t r = 0, records = write_alone(prefix); r < records; r++) {
        char *path = memory_format("%s%lld.fa", prefix, (long long)r);
        way.fasta = path;
        if (all.records[r].length > 0) {
            struct fasta_score own = score_file(self, make_planted, &way);
            planted.cpu->class->destroy(planted.cpu);
            CHECK(own.count == 1 && own.records[0].loss == all.records[r].loss);
            compared += own.records[0].loss != 0;
            score_destroy(&own);
        }
        remove(path);
        free(path);
    }
    CHECK(compared > 6);
    score_destroy(&all);
    remove(folder);
    free(prefix);
    planted.fault = NO_FAULT;
}

static void agree(struct comm *self, device_make *make_executor, const json_t *golden, struct way way)
{
    struct run_outcome o = run(self, make_executor, golden, &way);
    printf("%s, %lld windows at once: %.2e\n", way.expected, (long long)way.windows, o.worst);
    CHECK(o.worst <= 1e-5 && o.counts && o.names);
}

static void notice(struct comm *self, const json_t *golden, const char *fault, struct way way)
{
    struct run_outcome o = run(self, cpu_executor_make, golden, &way);
    printf("    %-28s %.2e%s\n", fault, o.worst, o.counts ? "" : ", other counts");
    CHECK(o.names && !(o.worst <= 1e-5));
}

/* Numbers of Python's len(re.split(r"\s+", text)). */
static void test_words(void)
{
    static const struct {
        const char *text;
        int64_t words;
    } cases[] = {{"", 1},
                 {"one", 1},
                 {" one", 2},
                 {"one ", 2},
                 {"one two", 2},
                 {"a \t\r\n\v\f b", 2},
                 {"a\x1c\x1f"
                  "b",
                  2},
                 {"a\x1b"
                  "b",
                  1},
                 {"a\xc2\xa0"
                  "b",
                  2},
                 {"a\xc2\x85 b", 2},
                 {"a\xc2\xa1"
                  "b",
                  1},
                 {"a\xe2\x80\x80"
                  "b",
                  2},
                 {"a\xe2\x80\x8a"
                  "b",
                  2},
                 {"a\xe2\x80\x8b"
                  "b",
                  1},
                 {"a\xe3\x80\x80\xe1\x9a\x80"
                  "b",
                  2},
                 {"a\xe2\x80", 1},
                 {"\xc3\xa0 \xe0", 2},
                 {"a\xe2\x81\x9f\xe2\x80\xa8"
                  "b c",
                  3}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        CHECK(words_count(cases[i].text, (int64_t)strlen(cases[i].text)) == cases[i].words);
}

int main(void)
{
    test_words();
    char *path = golden_path("json");
    json_t *golden = json_load_file(path, 0, NULL);
    CHECK(golden != NULL);
    struct comm *self = comm_self();
    for (int64_t windows = 1; windows <= 9; windows += 4) {
        agree(self, cpu_executor_make, golden, (struct way){512, 200, windows, false, true, "plain", 0, NULL});
        agree(self, cpu_executor_make, golden, (struct way){512, 200, windows, true, true, "bos", 0, NULL});
        agree(self, cpu_executor_make, golden, (struct way){512, 200, windows, false, false, "no_mask", 0, NULL});
    }
    agree(self, make_oracle, golden, (struct way){512, 200, 2, false, true, "plain", 0, NULL});
    notice(self, golden, "overlap one smaller", (struct way){512, 199, 3, false, true, "plain", 0, NULL});
    notice(self, golden, "overlap one larger", (struct way){512, 201, 3, false, true, "plain", 0, NULL});
    notice(self, golden, "context one smaller", (struct way){511, 200, 3, false, true, "plain", 0, NULL});
    notice(self, golden, "BOS where none belongs", (struct way){512, 200, 3, true, true, "plain", 0, NULL});
    notice(self, golden, "mask forgotten", (struct way){512, 200, 3, false, false, "plain", 0, NULL});
    test_alone(self);
    json_decref(golden);
    comm_destroy(self);
    free(path);
    return check_end();
}
