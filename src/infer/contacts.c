#include "infer/contacts.h"
#include "base/error.h"
#include "base/memory.h"
#include "checkpoint/carried.h"
#include "checkpoint/safetensors_dtype.h"

#include <math.h>
#include <string.h>

enum { SPECIAL_TOKENS = 2 };

/* -- The contact head --------------------------------------------------------------------------------------------- */

/* Returns the name of the family's extra tensor of a kind; NULL: it has none. */
static const char *name_of(const struct family *family, enum extra_kind kind)
{
    for (const struct family_extra *extra = family->extras; extra != NULL && extra->name != NULL; extra++)
        if (extra->kind == kind && extra->dialect == DIALECT_HF)
            return extra->name;
    return NULL;
}

/* Copies a carried tensor of `count` numbers. */
static int copy_carried(const struct carried_files *carried, const char *path, const char *name, int64_t count,
                        float *out)
{
    for (int i = 0; i < carried->count; i++) {
        const struct carried_tensor *t = &carried->tensors[i];
        enum safetensors_dtype dtype;
        if (strcmp(t->name, name) != 0)
            continue;
        if (safetensors_dtype_find(t->dtype, &dtype) && t->bytes == count * safetensors_dtype_size(dtype) &&
            safetensors_to_float(dtype, t->data, count, out))
            return ERROR_NONE;
        return error_user("%s: /carried/%s: must be %lld numbers (F32, BF16 or F16)", path, name, (long long)count);
    }
    return error_user(
        "%s: --contacts needs ESM-2's contact head (%s), which it does not have; an import of a published "
        "ESM-2 has one",
        path, name);
}

static int read_head(struct contact_maps *m, const struct inference *inference)
{
    const struct family *family = inference->setup.model.family;
    const char *weights = name_of(family, EXTRA_HEADS), *bias = name_of(family, EXTRA_ONE);
    struct carried_files carried = {0};
    bool zero = true;
    if (weights == NULL || bias == NULL)
        return error_user("--contacts: models of family %s have no contact head; ESM-2 has one", family->name);
    int code = carried_read(inference->path, &carried);
    if (code == ERROR_NONE)
        code = copy_carried(&carried, inference->path, weights, m->layers * m->heads, m->weights);
    if (code == ERROR_NONE)
        code = copy_carried(&carried, inference->path, bias, 1, &m->bias);
    carried_destroy(&carried);
    for (int64_t i = 0; i < m->layers * m->heads; i++)
        zero = zero && m->weights[i] == 0;
    if (code == ERROR_NONE && zero)
        code =
            error_user("%s: its contact head is zeros, as of a model that was exported without one", inference->path);
    return code;
}

/* -- Memory ------------------------------------------------------------------------------------------------------- */

int64_t contacts_of(int64_t length)
{
    return (length - SPECIAL_TOKENS) * (length - SPECIAL_TOKENS);
}

int64_t contacts_bytes(const struct inference *inference, int64_t tokens, int64_t longest)
{
    const struct model_settings *s = &inference->setup.model;
    const int64_t width = s->heads * s->head_dim;
    return tokens * longest * (int64_t)sizeof(double) +
           (2 * tokens * width + s->head_dim * longest + longest * longest) * (int64_t)sizeof(float) +
           longest * (int64_t)sizeof(double);
}

int contacts_create(struct contact_maps *m, struct inference *inference, int64_t tokens, int64_t longest)
{
    const struct model_settings *s = &inference->setup.model;
    const int64_t number = (int64_t)sizeof(float), width = s->heads * s->head_dim, maps = s->layers * s->heads;
    struct comm *world = inference->world;
    *m = (struct contact_maps){
        .layers = s->layers, .heads = s->heads, .head_dim = s->head_dim, .threads = inference->threads};
    m->weights = memory_allocate(maps * number);
    int code = comm_agree(world, world->rank == 0 ? read_head(m, inference) : ERROR_NONE);
    if (code != ERROR_NONE)
        return code;
    comm_broadcast(world, m->weights, maps * number, 0);
    comm_broadcast(world, &m->bias, sizeof m->bias, 0);
    m->sums = memory_allocate(tokens * longest * (int64_t)sizeof *m->sums);
    m->queries = memory_allocate(tokens * width * number);
    m->keys = memory_allocate(tokens * width * number);
    m->columns = memory_allocate(s->head_dim * longest * number);
    m->map = memory_allocate(longest * longest * number);
    m->averages = memory_allocate(longest * (int64_t)sizeof *m->averages);
    return ERROR_NONE;
}

void contacts_destroy(struct contact_maps *m)
{
    memory_free(m->weights);
    memory_free(m->sums);
    memory_free(m->queries);
    memory_free(m->keys);
    memory_free(m->columns);
    memory_free(m->map);
    memory_free(m->averages);
    *m = (struct contact_maps){0};
}

/* -- Maps --------------------------------------------------------------------------------------------------------- */

/* Makes row i of a head's map: the softmax over all tokens. */
static void make_row(const struct contact_maps *m, const float *query, int64_t length, float *row)
{
    const double scale = 1 / sqrt((double)m->head_dim);
    double most = -INFINITY, sum = 0;
    memset(row, 0, (size_t)length * sizeof *row);
    for (int64_t d = 0; d < m->head_dim; d++)
        for (int64_t j = 0; j < length; j++)
            row[j] += query[d] * m->columns[d * length + j];
    for (int64_t j = 0; j < length; j++)
        most = fmax(most, row[j]);
    for (int64_t j = 0; j < length; j++) {
        row[j] = (float)exp((row[j] - most) * scale);
        sum += row[j];
    }
    for (int64_t j = 0; j < length; j++)
        row[j] = (float)(row[j] / sum);
}

/* Makes the map of a head between a record's residues and its tokens: [residues, tokens]. first: its first token. */
static void make_map(const struct contact_maps *m, int64_t head, int64_t first, int64_t length)
{
    const int64_t width = m->heads * m->head_dim, residues = length - SPECIAL_TOKENS;
    for (int64_t d = 0; d < m->head_dim; d++)
        for (int64_t j = 0; j < length; j++)
            m->columns[d * length + j] = m->keys[(first + j) * width + head * m->head_dim + d];
#pragma omp parallel for num_threads(m->threads)
    for (int64_t i = 0; i < residues; i++)
        make_row(m, m->queries + (first + 1 + i) * width + head * m->head_dim, length, m->map + i * length);
}

/* Adds a head's map, symmetrized and corrected, to a record's sums [residues, residues]. */
static void add_map(const struct contact_maps *m, float weight, int64_t length, double *sums)
{
    const int64_t residues = length - SPECIAL_TOKENS;
    double total = 0;
    memset(m->averages, 0, (size_t)residues * sizeof *m->averages);
    for (int64_t i = 0; i < residues; i++)
        for (int64_t j = 0; j < residues; j++) {
            const double value = m->map[i * length + 1 + j];
            m->averages[i] += value;
            m->averages[j] += value;
        }
    for (int64_t i = 0; i < residues; i++)
        total += m->averages[i];
#pragma omp parallel for num_threads(m->threads)
    for (int64_t i = 0; i < residues; i++)
        for (int64_t j = 0; j < residues; j++) {
            const double both = (double)m->map[i * length + 1 + j] + m->map[j * length + 1 + i];
            sums[i * residues + j] += weight * (both - m->averages[i] * m->averages[j] / total);
        }
}

static void copy_floats(const struct tensor *from, float *to)
{
    for (int64_t t = 0; t < from->rows; t++)
        for (int64_t i = 0; i < from->cols; i++)
            to[t * from->cols + i] = (float)tensor_get(from, t, i);
}

void contacts_begin(struct contact_maps *m, const int64_t *lengths, int64_t records)
{
    int64_t count = 0;
    m->lengths = lengths;
    m->records = records;
    for (int64_t r = 0; r < records; r++)
        count += contacts_of(lengths[r]);
    memset(m->sums, 0, (size_t)count * sizeof *m->sums);
}

void contacts_add_layer(void *self, int64_t layer, const struct tensor *queries, const struct tensor *keys)
{
    struct contact_maps *m = self;
    const float *weights = m->weights + layer * m->heads;
    double *sums = m->sums;
    int64_t first = 0;
    copy_floats(queries, m->queries);
    copy_floats(keys, m->keys);
    for (int64_t r = 0; r < m->records; r++) {
        for (int64_t head = 0; head < m->heads; head++) {
            make_map(m, head, first, m->lengths[r]);
            add_map(m, weights[head], m->lengths[r], sums);
        }
        first += m->lengths[r];
        sums += contacts_of(m->lengths[r]);
    }
}

void contacts_copy(const struct contact_maps *m, int64_t first, int64_t count, float *out)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = (float)(1 / (1 + exp(-(m->sums[first + i] + m->bias))));
}
