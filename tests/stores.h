/* Small token stores for tests: a scratch folder, sequences written as a store, and five periodic sequences. */
#ifndef TESTS_STORES_H
#define TESTS_STORES_H

#include "base/error.h"
#include "base/memory.h"
#include "comm/comm.h"
#include "prepare/megatron_writer.h"
#include "prepare/token_store_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char stores_folder[256];

/* Makes a new folder under TMPDIR; stores_end removes it. */
static inline void stores_begin(void)
{
    const char *base = getenv("TMPDIR");
    snprintf(stores_folder, sizeof stores_folder, "%s/cistron-test-XXXXXX", base != NULL ? base : "/tmp");
    if (mkdtemp(stores_folder) == NULL)
        error_fatal("cannot make a scratch folder from %s", stores_folder);
}

static inline void stores_end(void)
{
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", stores_folder);
    if (system(command) != 0)
        fprintf(stderr, "%s stays behind\n", stores_folder);
}

/* Makes one folder for all ranks, which rank 0 makes and fills. Collective. */
static inline void stores_begin_on_ranks(struct comm *world, void (*fill)(void))
{
    if (world->rank == 0) {
        stores_begin();
        fill();
    }
    comm_broadcast(world, stores_folder, sizeof stores_folder, 0);
}

/* Returns the path of a file in the scratch folder, valid until the eighth later call. */
static inline const char *stores_path(const char *name)
{
    static char paths[8][400];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", stores_folder, name);
    return path;
}

/* Writes sequences s0, s1, ... with a writer for that tokenizer, and destroys the writer. code: the result of making
 * it; a failure is fatal. */
static inline void stores_fill(int code, struct store_writer *writer, const char *tokenizer, char *const *sequences,
                               int64_t count)
{
    char name[32];
    uint64_t checksum;
    for (int64_t i = 0; i < count && code == ERROR_NONE; i++) {
        const int64_t length = (int64_t)strlen(sequences[i]);
        snprintf(name, sizeof name, "s%lld", (long long)i);
        uint8_t *ids = memory_allocate(length + 1);
        tokenizer_find(tokenizer)->encode_characters(sequences[i], length, ids);
        code = writer->class->append(writer, ids, length);
        memory_free(ids);
        if (code == ERROR_NONE)
            code = writer->class->end(writer, name);
    }
    if (code == ERROR_NONE)
        code = writer->class->finish(writer, NULL, 0, &checksum);
    if (code == ERROR_NONE)
        code = writer->class->commit(writer);
    if (code != ERROR_NONE)
        error_fatal("%s", error_message());
    writer->class->destroy(writer);
}

/* Writes sequences as a token store of that tokenizer. */
static inline void stores_write_as(const char *tokenizer, const char *path, char *const *sequences, int64_t count)
{
    int64_t tokens = 0, names = 0;
    char name[32];
    for (int64_t i = 0; i < count; i++) {
        tokens += (int64_t)strlen(sequences[i]);
        names += snprintf(name, sizeof name, "s%lld", (long long)i) + 1;
    }
    struct store_writer *writer;
    int code = token_store_writer_create(&writer, path, tokenizer_find(tokenizer), count, tokens, names, NULL);
    stores_fill(code, writer, tokenizer, sequences, count);
}

/* Writes sequences as a Megatron data set of nucleotides, each with an end token. */
static inline void stores_write_megatron(const char *prefix, char *const *sequences, int64_t count)
{
    int64_t tokens = 0;
    for (int64_t i = 0; i < count; i++)
        tokens += (int64_t)strlen(sequences[i]);
    struct store_writer *writer;
    int code = megatron_writer_create(&writer, prefix, tokenizer_find("nucleotide"), true, count, tokens);
    stores_fill(code, writer, "nucleotide", sequences, count);
}

static inline void stores_write(const char *path, char *const *sequences, int64_t count)
{
    stores_write_as("nucleotide", path, sequences, count);
}

enum { STORES_PERIODIC = 5 };

/* Makes the five periodic sequences of the recipes' test data (spec/recipes.md 10.2); free each with free(). */
static inline void stores_periodic(char *sequences[STORES_PERIODIC])
{
    static const char *const periods[STORES_PERIODIC] = {"ATCG", "GCTA", "TTAA", "CCGG", "AT"};
    static const int lengths[STORES_PERIODIC] = {1200, 1800, 2400, 3000, 5000};
    for (int i = 0; i < STORES_PERIODIC; i++) {
        int period = (int)strlen(periods[i]);
        sequences[i] = memory_grow(NULL, lengths[i] + 1);
        for (int t = 0; t < lengths[i]; t++)
            sequences[i][t] = periods[i][t % period];
        sequences[i][lengths[i]] = '\0';
    }
}

static inline void stores_free(char **sequences, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        free(sequences[i]);
}

static inline void stores_write_periodic(const char *path)
{
    char *sequences[STORES_PERIODIC];
    stores_periodic(sequences);
    stores_write(path, sequences, STORES_PERIODIC);
    stores_free(sequences, STORES_PERIODIC);
}

/* Reads the digest of a step's checkpoint from a run's log; "" if there is none. */
static inline void stores_digest(const char *name, int step, char out[32])
{
    char path[500], line[8192], key[100];
    snprintf(path, sizeof path, "%s/log.jsonl", stores_path(name));
    snprintf(key, sizeof key, "\"event\":\"checkpoint\",\"step\":%d,\"digest\":\"", step);
    out[0] = '\0';
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        const char *at = strstr(line, key);
        if (at != NULL)
            sscanf(at + strlen(key), "%31[0-9a-f]", out);
    }
    if (file != NULL)
        fclose(file);
}

#endif
