#include "ref/golden.h"
#include "ref/fetch.h"
#include "base/error.h"
#include "base/memory.h"
#include "model/lm_head.h"
#include "ref/reference.h"

#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double attribute(hid_t file, const char *name)
{
    double value = 0;
    hid_t id = H5Aopen(file, name, H5P_DEFAULT);
    if (id < 0 || H5Aread(id, H5T_NATIVE_DOUBLE, &value) < 0)
        error_fatal("golden file: no attribute %s", name);
    H5Aclose(id);
    return value;
}

static double optional_attribute(hid_t file, const char *name, double missing)
{
    return H5Aexists(file, name) > 0 ? attribute(file, name) : missing;
}

/* Reads a text of at most 63 bytes; empty if there is no such attribute. */
static void attribute_text(hid_t file, const char *name, char value[64])
{
    memset(value, 0, 64);
    if (H5Aexists(file, name) <= 0)
        return;
    hid_t id = H5Aopen(file, name, H5P_DEFAULT), type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, 63);
    if (H5Aread(id, type, value) < 0)
        error_fatal("golden file: attribute %s is no text", name);
    H5Tclose(type);
    H5Aclose(id);
}

static bool attribute_is(hid_t file, const char *name, const char *text)
{
    char value[64];
    attribute_text(file, name, value);
    return strcmp(value, text) == 0;
}

static void open_adapters(struct lora_settings *lora, const struct family *family, hid_t file)
{
    char targets[64];
    attribute_text(file, "lora_targets", targets);
    if (targets[0] == '\0')
        return;
    *lora = (struct lora_settings){.rank = (int64_t)attribute(file, "lora_rank"),
                                   .alpha = attribute(file, "lora_alpha"),
                                   .dropout = optional_attribute(file, "lora_dropout", 0)};
    if (lora_read_targets(lora, family, targets) != ERROR_NONE)
        error_fatal("golden file: %s", error_message());
}

static void read_dataset(hid_t file, const char *name, hid_t type, int64_t count, void *out)
{
    hid_t id = H5Dopen2(file, name, H5P_DEFAULT);
    hid_t space = id < 0 ? -1 : H5Dget_space(id);
    if (space < 0 || H5Sget_simple_extent_npoints(space) != count ||
        H5Dread(id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, out) < 0)
        error_fatal("golden file: no dataset %s of %lld elements", name, (long long)count);
    H5Sclose(space);
    H5Dclose(id);
}

static int count_of(hid_t file, const char *name, int most)
{
    hid_t id = H5Dopen2(file, name, H5P_DEFAULT), space = H5Dget_space(id);
    hssize_t count = H5Sget_simple_extent_npoints(space);
    if (count < 1 || count > most)
        error_fatal("golden file: %s has %lld elements", name, (long long)count);
    H5Sclose(space);
    H5Dclose(id);
    return (int)count;
}

static void read_continuation(struct golden *g, hid_t file)
{
    if (H5Lexists(file, "/greedy", H5P_DEFAULT) <= 0)
        return;
    g->prompt_count = count_of(file, "/prompt", GOLDEN_TOKENS);
    g->greedy_count = count_of(file, "/greedy", GOLDEN_TOKENS);
    read_dataset(file, "/prompt", H5T_NATIVE_INT32, g->prompt_count, g->prompt);
    read_dataset(file, "/greedy", H5T_NATIVE_INT32, g->greedy_count, g->greedy);
}

double *golden_read(const struct golden *golden, const char *group, const char *name, int64_t count)
{
    char path[256];
    snprintf(path, sizeof path, "/%s/%s", group, name);
    double *values = memory_grow(NULL, (int64_t)sizeof *values * count);
    read_dataset((hid_t)golden->file, path, H5T_NATIVE_DOUBLE, count, values);
    return values;
}

static void open_batch(struct golden *g, hid_t file)
{
    struct batch *b = &g->batch;
    batch_create(b, (int64_t)attribute(file, "rows"), (int64_t)attribute(file, "row_tokens"),
                 (int64_t)attribute(file, "max_segments"));
    int64_t tokens = b->rows * b->row_tokens, slots = b->rows * b->max_segments;
    read_dataset(file, "/tokens", H5T_NATIVE_INT32, tokens, b->tokens);
    read_dataset(file, "/labels", H5T_NATIVE_INT32, tokens, b->labels);
    read_dataset(file, "/positions", H5T_NATIVE_INT32, tokens, b->positions);
    read_dataset(file, "/segment_start", H5T_NATIVE_INT32, slots, b->segment_start);
    read_dataset(file, "/segment_length", H5T_NATIVE_INT32, slots, b->segment_length);
    if (H5Lexists(file, "/inputs_scale", H5P_DEFAULT) > 0)
        read_dataset(file, "/inputs_scale", H5T_NATIVE_FLOAT, tokens, b->scale);
    if (H5Lexists(file, "/dropout_keys", H5P_DEFAULT) > 0)
        read_dataset(file, "/dropout_keys", H5T_NATIVE_INT32, tokens, b->dropout_keys);
    for (int64_t t = 0; t < tokens; t++)
        b->valid += b->labels[t] >= 0;
}

void golden_open(struct golden *g, const char *name)
{
    const char *top = getenv("abs_top_srcdir");
    memset(g, 0, sizeof *g);
    snprintf(g->path, sizeof g->path, "%s/tests/golden/%s.h5", top ? top : ".", name);
    hid_t file = H5Fopen(g->path, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (file < 0)
        error_fatal("%s: cannot be opened", g->path);
    g->file = file;
    g->settings = (struct model_settings){
        .family = &family_llama, /* these files do not name the family */
        .layers = (int64_t)attribute(file, "layers"),
        .hidden = (int64_t)attribute(file, "hidden"),
        .ffn = (int64_t)attribute(file, "ffn"),
        .heads = (int64_t)attribute(file, "heads"),
        .kv_heads = (int64_t)attribute(file, "kv_heads"),
        .head_dim = (int64_t)attribute(file, "head_dim"),
        .vocabulary = (int64_t)attribute(file, "vocab"),
        .tied = attribute(file, "tied") != 0,
        .attention_bias = optional_attribute(file, "attention_bias", 0) != 0,
        .mlp_bias = optional_attribute(file, "mlp_bias", 0) != 0,
        .sliding_window = (int64_t)optional_attribute(file, "sliding_window", 0),
        .max_window_layers = (int64_t)optional_attribute(file, "max_window_layers", 0),
        .experts = (int64_t)optional_attribute(file, "num_local_experts", 0),
        .experts_per_token = (int64_t)optional_attribute(file, "num_experts_per_tok", 0),
        .router_aux_loss_coef = optional_attribute(file, "router_aux_loss_coef", 0),
        .rope = {attribute(file, "rope_theta"), attribute(file, "rope_factor"), attribute(file, "rope_low"),
                 attribute(file, "rope_high"), (int64_t)attribute(file, "rope_original"),
                 .type = attribute_is(file, "rope_type", "yarn")     ? DECK_ROPE_YARN
                         : attribute_is(file, "rope_type", "linear") ? DECK_ROPE_LINEAR
                                                                     : DECK_ROPE_LLAMA3},
        .norm_eps = attribute(file, "norm_eps"),
        .decay_matrices = true,
        .decay_embedding = true,
    };
    for (int f = 0; families[f] != NULL; f++)
        if (attribute_is(file, "family", families[f]->name))
            g->settings.family = families[f];
    if (!g->settings.family->causal)
        g->settings.token_dropout = attribute(file, "token_dropout") != 0;
    open_adapters(&g->settings.lora, g->settings.family, file);
    g->settings.tanh_gelu = attribute_is(file, "gelu", "tanh");
    g->optimizer = (struct optimizer_settings){.beta1 = attribute(file, "beta1"),
                                               .beta2 = attribute(file, "beta2"),
                                               .eps = attribute(file, "adam_eps"),
                                               .weight_decay = attribute(file, "weight_decay"),
                                               .clip = attribute(file, "clip")};
    g->lr = attribute(file, "lr");
    open_batch(g, file);
    int64_t logits = g->batch.rows * g->batch.row_tokens * g->settings.vocabulary;
    g->logits = golden_read(g, "", "logits", logits);
    read_dataset(file, "/loss", H5T_NATIVE_DOUBLE, 1, &g->loss);
    g->steps = count_of(file, "/losses", GOLDEN_STEPS);
    read_dataset(file, "/losses", H5T_NATIVE_DOUBLE, g->steps, g->losses);
    read_dataset(file, "/grad_norms", H5T_NATIVE_DOUBLE, g->steps, g->norms);
    read_continuation(g, file);
}

void golden_close(struct golden *g)
{
    H5Fclose((hid_t)g->file);
    batch_destroy(&g->batch);
    free(g->logits);
}

double golden_distance(const double *a, const double *b, int64_t count)
{
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < count; i++) {
        difference += (a[i] - b[i]) * (a[i] - b[i]);
        norm += b[i] * b[i];
    }
    return norm > 0 ? sqrt(difference / norm) : sqrt(difference);
}

static struct master_weights parameter_part(const struct master_weights *flat, const struct parameter *p)
{
    return master_part(flat, p->offset, p->part.rows * p->part.cols);
}

void golden_load(const struct golden *g, struct engine *engine)
{
    for (int u = 0; u < engine->model->unit_count; u++) {
        struct unit *unit = &engine->model->units[u];
        for (int i = 0; i < unit->parameter_count; i++) {
            const struct parameter *p = &unit->parameters[i];
            struct store_shard shard = engine->store->class->shard(engine->store, unit, p->storage);
            struct master_weights part = parameter_part(&shard.weight, p);
            struct tensor host = fetch_master(&engine->streams[0], &part);
            double *values = golden_read(g, "weights", p->name, host.cols);
            for (int64_t k = 0; k < host.cols; k++)
                reference_store(&host, 0, k, values[k]);
            fetch_master_return(&engine->streams[0], host, &part);
            free(values);
        }
    }
}

static double worst_distance(const struct golden *g, struct engine *engine, const char *group, bool gradient,
                             double divisor, char *worst)
{
    double largest = 0;
    for (int u = 0; u < engine->model->unit_count; u++) {
        struct unit *unit = &engine->model->units[u];
        for (int i = 0; i < unit->parameter_count && !(gradient && unit->frozen); i++) {
            const struct parameter *p = &unit->parameters[i];
            struct store_shard shard = engine->store->class->shard(engine->store, unit, p->storage);
            const struct master_weights sums = {.value = shard.gradient};
            struct master_weights part = parameter_part(gradient ? &sums : &shard.weight, p);
            struct tensor host = fetch_master(&engine->streams[0], &part);
            double *expected = golden_read(g, group, p->name, host.cols);
            double *own = memory_grow(NULL, (int64_t)sizeof *own * host.cols);
            for (int64_t k = 0; k < host.cols; k++)
                own[k] = reference_load(&host, 0, k) / divisor;
            memory_free(host.data);
            double distance = golden_distance(own, expected, host.cols);
            if (!(distance <= largest)) { /* also for NaN */
                largest = distance;
                strcpy(worst, p->name);
            }
            free(own);
            free(expected);
        }
    }
    return largest;
}

double golden_gradient_distance(const struct golden *g, struct engine *engine, double labels, char *worst)
{
    return worst_distance(g, engine, "gradients", true, labels, worst);
}

double golden_final_distance(const struct golden *g, struct engine *engine, char *worst)
{
    return worst_distance(g, engine, "final", false, 1, worst);
}

double *golden_engine_logits(const struct golden *g, struct engine *engine)
{
    int64_t tokens = g->batch.rows * g->batch.row_tokens, vocabulary = g->settings.vocabulary;
    const struct unit *head = model_head(engine->model);
    struct tensor there = unit_tensor(&engine->execution, head, LM_HEAD_LOGITS);
    struct tensor logits = fetch(&engine->streams[0], &there);
    double *values = memory_allocate((int64_t)sizeof *values * tokens * vocabulary);
    double *out = memory_grow(NULL, (int64_t)sizeof *out * tokens * vocabulary);
    for (int64_t s = 0; s < g->batch.rows * g->batch.max_segments; s++)
        for (int64_t t = g->batch.segment_start[s]; t < g->batch.segment_start[s] + g->batch.segment_length[s]; t++)
            for (int64_t v = 0; v < vocabulary; v++)
                values[t * vocabulary + v] = reference_load(&logits, t, v);
    memory_free(logits.data);
    memcpy(out, values, sizeof *out * (size_t)(tokens * vocabulary));
    memory_free(values);
    return out;
}
