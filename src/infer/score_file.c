#include "infer/score_file.h"
#include "base/error.h"
#include "base/memory.h"
#include "file/file.h"
#include "file/hdf5_file.h"
#include "file/hdf5_layout.h"
#include "file/open.h"
#include "records/csv.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LAYOUT_VERSION = 1, MOST_DATASETS = 8 };

bool score_file_is_hdf5(const char *path)
{
    const char *ending = strrchr(path, '.');
    return ending != NULL && (strcmp(ending, ".h5") == 0 || strcmp(ending, ".hdf5") == 0);
}

/* -- HDF5 -----------------------------------------------------------------------------------------------------------
 */

struct score_dataset {
    const char *name;
    hid_t type; /* of the file */
    int64_t rows, cols, row_bytes;
    bool flat;        /* one dimension */
    const void *data; /* [rows * row_bytes] */
    int64_t offset;
};

struct score_layout {
    const struct inference *inference;
    const struct variant_scoring *scoring;
    struct score_dataset datasets[MOST_DATASETS];
    int count;
};

static void add(struct score_layout *l, const char *name, hid_t type, int64_t rows, int64_t cols, const void *data)
{
    const int64_t bytes = (int64_t)H5Tget_size(type) * (cols > 0 ? cols : 1);
    l->datasets[l->count++] = (struct score_dataset){name, type, rows, cols, bytes, cols == 0, data, 0};
}

static bool create(hid_t file, void *self)
{
    struct score_layout *l = self;
    const struct inference *inference = l->inference;
    bool good = hdf5_write_integer(file, "cistron_scores", LAYOUT_VERSION) &&
                hdf5_write_text(file, "version", PACKAGE_VERSION) &&
                hdf5_write_text(file, "checkpoint", inference->path) &&
                hdf5_write_integer(file, "step", inference->step) &&
                hdf5_write_text(file, "family", inference->setup.model.family->name) &&
                hdf5_write_text(file, "tokenizer", inference->tokenizer->name) &&
                hdf5_write_integer(file, "context", l->scoring->tokens.context) &&
                hdf5_write_text(file, "method", score_method_names[l->scoring->methods[0]]);
    for (int i = 0; i < l->count && good; i++) {
        struct score_dataset *d = &l->datasets[i];
        const hsize_t extent[2] = {(hsize_t)d->rows, (hsize_t)d->cols};
        good = hdf5_layout_dataset(file, d->name, d->type, d->flat ? 1 : 2, extent, &d->offset);
    }
    return good;
}

static int write_layout(struct score_layout *l, const char *path)
{
    int64_t most = HDF5_LAYOUT_FIXED + (int64_t)strlen(l->inference->path);
    for (int i = 0; i < l->count; i++)
        most += HDF5_LAYOUT_DATASET + l->datasets[i].rows * l->datasets[i].row_bytes;
    const int descriptor = open_own(path, O_WRONLY | O_TRUNC);
    if (descriptor < 0)
        return error_environment("%s: cannot open it: %s", path, open_failure());
    int code = hdf5_layout_write(descriptor, path, most, create, l);
    for (int i = 0; i < l->count && code == ERROR_NONE; i++)
        code = file_write(descriptor, path, l->datasets[i].data, l->datasets[i].rows * l->datasets[i].row_bytes,
                          l->datasets[i].offset);
    return file_finish(descriptor, path, code);
}

/* Strings of one length for a dataset. */
struct fixed_strings {
    char *data; /* [count * bytes] */
    int64_t count, bytes;
    hid_t type;
};

/* text: returns string i, which this function frees with free(). */
static struct fixed_strings fixed_strings(int64_t count, char *(*text)(void *self, int64_t i), void *self)
{
    struct fixed_strings s = {.count = count, .bytes = 1, .type = H5Tcopy(H5T_C_S1)};
    char **texts = memory_allocate(count * (int64_t)sizeof *texts);
    for (int64_t i = 0; i < count; i++) {
        texts[i] = text(self, i);
        if ((int64_t)strlen(texts[i]) > s.bytes)
            s.bytes = (int64_t)strlen(texts[i]);
    }
    s.data = memory_allocate(count * s.bytes);
    for (int64_t i = 0; i < count; i++) {
        memcpy(s.data + i * s.bytes, texts[i], strlen(texts[i]));
        free(texts[i]);
    }
    memory_free(texts);
    H5Tset_size(s.type, (size_t)s.bytes);
    H5Tset_strpad(s.type, H5T_STR_NULLPAD);
    H5Tset_cset(s.type, H5T_CSET_UTF8);
    return s;
}

static void fixed_strings_free(struct fixed_strings *s)
{
    memory_free(s->data);
    H5Tclose(s->type);
}

static char *variant_record(void *self, int64_t i)
{
    const struct variant_list *v = self;
    return memory_string(v->references->list[v->list[i].record].name);
}

static char *variant_text(void *self, int64_t i)
{
    char *text;
    size_t bytes;
    FILE *stream = memory_stream(&text, &bytes);
    variants_name(self, i, stream);
    memory_stream_end(stream);
    return text;
}

static char *method_text(void *self, int64_t i)
{
    const struct variant_scoring *scoring = self;
    return memory_string(score_method_names[scoring->methods[i]]);
}

static char *record_text(void *self, int64_t i)
{
    const struct reference_list *references = self;
    return memory_string(references->list[i].name);
}

static char *letter_text(void *self, int64_t i)
{
    const struct reference_list *references = self;
    char token[TOKENIZER_TEXT];
    return memory_string(tokenizer_token(references->census.tokenizer, references->ids[i], token));
}

static char *token_text(void *self, int64_t i)
{
    const struct tokenizer *tokenizer = self;
    char token[TOKENIZER_TEXT];
    return memory_string(i < tokenizer->vocabulary ? tokenizer_token(tokenizer, (int32_t)i, token) : "");
}

static int write_hdf5(const char *path, const struct inference *inference, const struct variant_scoring *scoring,
                      const struct variant_list *v, double *const *scores)
{
    struct fixed_strings names = fixed_strings(v->count, variant_record, (void *)v);
    struct fixed_strings mutations = fixed_strings(v->count, variant_text, (void *)v);
    struct fixed_strings methods = fixed_strings(scoring->count, method_text, (void *)scoring);
    double *rows = memory_allocate(v->count * scoring->count * (int64_t)sizeof *rows);
    double *measured = memory_allocate(v->count * (int64_t)sizeof *measured);
    struct score_layout layout = {.inference = inference, .scoring = scoring};
    for (int64_t i = 0; i < v->count; i++) {
        measured[i] = v->list[i].measured;
        for (int m = 0; m < scoring->count; m++)
            rows[i * scoring->count + m] = scores[m][i];
    }
    add(&layout, "names", names.type, v->count, 0, names.data);
    add(&layout, "mutations", mutations.type, v->count, 0, mutations.data);
    add(&layout, "methods", methods.type, scoring->count, 0, methods.data);
    add(&layout, "scores", H5T_IEEE_F64LE, v->count, scoring->count, rows);
    if (v->measured != NULL)
        add(&layout, "measured", H5T_IEEE_F64LE, v->count, 0, measured);
    int code = write_layout(&layout, path);
    fixed_strings_free(&names);
    fixed_strings_free(&mutations);
    fixed_strings_free(&methods);
    memory_free(rows);
    memory_free(measured);
    return code;
}

static int write_positions_hdf5(const char *path, const struct inference *inference,
                                const struct variant_scoring *scoring, const struct site_logits *sites)
{
    const struct reference_list *s = scoring->tokens.references;
    struct fixed_strings names = fixed_strings(s->count, record_text, (void *)s);
    struct fixed_strings letters = fixed_strings(s->letters, letter_text, (void *)s);
    struct fixed_strings tokens = fixed_strings(sites->vocabulary, token_text, (void *)inference->tokenizer);
    int64_t *lengths = memory_allocate(s->count * (int64_t)sizeof *lengths);
    int64_t *offsets = memory_allocate((s->count + 1) * (int64_t)sizeof *offsets);
    const int64_t vocabulary = sites->vocabulary;
    float *logs = memory_allocate(sites->count * vocabulary * (int64_t)sizeof *logs);
    struct score_layout layout = {.inference = inference, .scoring = scoring};
    for (int64_t r = 0; r < s->count; r++) {
        lengths[r] = s->list[r].length;
        offsets[r + 1] = offsets[r] + lengths[r];
    }
    for (int64_t i = 0; i < sites->count * vocabulary; i++)
        logs[i] = (float)sites_log_probability(sites, i / vocabulary, (int32_t)(i % vocabulary));
    add(&layout, "names", names.type, s->count, 0, names.data);
    add(&layout, "lengths", H5T_STD_I64LE, s->count, 0, lengths);
    add(&layout, "offsets", H5T_STD_I64LE, s->count + 1, 0, offsets);
    add(&layout, "wild_type", letters.type, s->letters, 0, letters.data);
    add(&layout, "tokens", tokens.type, vocabulary, 0, tokens.data);
    add(&layout, "logits", H5T_IEEE_F32LE, sites->count, vocabulary, sites->logits);
    add(&layout, "log_probabilities", H5T_IEEE_F32LE, sites->count, vocabulary, logs);
    int code = write_layout(&layout, path);
    fixed_strings_free(&names);
    fixed_strings_free(&letters);
    fixed_strings_free(&tokens);
    memory_free(lengths);
    memory_free(offsets);
    memory_free(logs);
    return code;
}

/* -- Text -----------------------------------------------------------------------------------------------------------
 */

/* Writes a number; nothing for NaN. */
static void put_number(FILE *file, char delimiter, double value)
{
    putc(delimiter, file);
    if (!isnan(value))
        fprintf(file, "%.9g", value);
}

static void write_text(FILE *file, const struct variant_scoring *scoring, const struct variant_list *v,
                       double *const *scores)
{
    variants_write_header(v, file);
    for (int m = 0; m < scoring->count; m++)
        fprintf(file, "%c%s", v->delimiter, scoring->count == 1 ? "score" : score_method_names[scoring->methods[m]]);
    putc('\n', file);
    for (int64_t i = 0; i < v->count; i++) {
        variants_write_row(v, i, file);
        for (int m = 0; m < scoring->count; m++)
            put_number(file, v->delimiter, scores[m][i]);
        putc('\n', file);
    }
}

static void write_positions_text(FILE *file, const struct inference *inference, const struct variant_scoring *scoring,
                                 const struct site_logits *sites)
{
    const struct reference_list *s = scoring->tokens.references;
    char wild_type[TOKENIZER_TEXT], token[TOKENIZER_TEXT];
    fputs("name,position,wild_type,token,log_probability,logit\n", file);
    for (int64_t i = 0; i < sites->count; i++)
        for (int32_t t = 0; t < inference->tokenizer->vocabulary && t < sites->vocabulary; t++) {
            const struct variant_site *site = &sites->list[i];
            const uint8_t own = reference_ids(s, site->record)[site->position];
            csv_write_cell(file, ',', s->list[site->record].name);
            fprintf(file, ",%lld,", (long long)site->position + 1);
            csv_write_cell(file, ',', tokenizer_token(inference->tokenizer, own, wild_type));
            putc(',', file);
            csv_write_cell(file, ',', tokenizer_token(inference->tokenizer, t, token));
            put_number(file, ',', sites_log_probability(sites, i, t));
            put_number(file, ',', sites->logits[i * sites->vocabulary + t]);
            putc('\n', file);
        }
}

int score_file_write(struct atomic_file *output, const char *path, const struct inference *inference,
                     const struct variant_scoring *scoring, const struct variant_list *v, double *const *scores)
{
    if (score_file_is_hdf5(path))
        return write_hdf5(output->target.temporary, inference, scoring, v, scores);
    write_text(output->file, scoring, v, scores);
    return ERROR_NONE;
}

int score_file_write_positions(struct atomic_file *output, const char *path, const struct inference *inference,
                               const struct variant_scoring *scoring, const struct site_logits *sites)
{
    if (score_file_is_hdf5(path))
        return write_positions_hdf5(output->target.temporary, inference, scoring, sites);
    write_positions_text(output->file, inference, scoring, sites);
    return ERROR_NONE;
}
