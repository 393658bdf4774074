/* Folders of BioNeMo's recipes (bridge/dialect.h) give the logits of models of TransformerEngine's layers that
 * tests/golden/make_te.py computed in float64, and come back bit for bit through the other dialect. Injected faults:
 * order and interleaving of q, k and v, their biases, gate and up, norms. Options that the program does not support are
 * named. */
#include "bridge/config.h"
#include "deck/fields.h"
#include "folders.h"
#include "logits.h"
#include "stores.h"

#include <math.h>

static const char *work; /* the scratch folder */

enum { MOST_TOKENS = 64, MOST_SEQUENCES = 4, STORED = 33 };
static const double bound = 1e-5; /* relative L2, as all goldens' */

/* Of one of the goldens. */
struct golden_case {
    const char *name, *tokenizer;
    bool bf16;
    const char *first; /* layer, with a point at its end */
    int groups, each, head_dim;
    bool gated;
};
static const struct golden_case cases[] = {
    {"te_llama_gqa", "nucleotide", true, "model.layers.0.", 2, 2, 8, true},
    {"te_llama_mha", "nucleotide", false, "model.layers.0.", 4, 1, 4, true},
    {"te_esm2", NULL, true, "model.encoder.layers.0.", 4, 1, 8, false},
    {"te_esm2_old", NULL, false, "esm.encoder.layers.0.", 2, 1, 8, false},
    {"te_amplify", NULL, true, "amplify.transformer_encoder.0.", 4, 1, 8, true},
};
enum { CASES = sizeof cases / sizeof *cases };

/* -- Logits -------------------------------------------------------------------------------------------------------- */

/* A golden's tokens, packed into one row, and their first logits. */
struct expected {
    struct batch batch;
    double logits[MOST_TOKENS][STORED];
    int columns; /* of them */
};

static void read_expected(struct expected *e, const struct golden_case *c)
{
    char *path = memory_format("%s/logits.txt", golden(c->name)), line[STORED * 32], *next;
    FILE *file = fopen(path, "r");
    int64_t used = 0, last = -1;
    struct batch *b = &e->batch;
    batch_create(b, 1, MOST_TOKENS, MOST_SEQUENCES);
    for (; file != NULL && used < MOST_TOKENS && fgets(line, sizeof line, file) != NULL; used++) {
        int64_t sequence = strtol(line, &next, 10);
        if (sequence != last)
            b->segment_start[sequence] = (int32_t)used;
        last = sequence;
        b->segment_length[sequence] = (int32_t)used + 1 - b->segment_start[sequence];
        b->positions[used] = b->segment_length[sequence] - 1;
        b->labels[used] = 0;
        b->tokens[used] = (int32_t)strtol(next, &next, 10);
        for (e->columns = 0; *next != '\n'; e->columns++)
            e->logits[used][e->columns] = strtod(next, &next);
    }
    if (file == NULL || used == 0)
        error_fatal("%s: cannot be read", path);
    fclose(file);
    free(path);
    b->row_tokens = used;
    b->max_segments = last + 1;
}

/* How far the checkpoint's logits are from the golden's; INFINITY where there are none. */
static double distance(const char *checkpoint, const struct golden_case *c)
{
    static struct expected e;
    double *logits, apart = 0, size = 0;
    int64_t vocabulary;
    read_expected(&e, c);
    if (logits_compute(checkpoint, &e.batch, &logits, &vocabulary) != ERROR_NONE) {
        fprintf(stderr, "    %s\n", error_message());
        batch_destroy(&e.batch);
        return INFINITY;
    }
    for (int64_t t = 0; t < e.batch.row_tokens; t++)
        for (int v = 0; v < e.columns; v++) {
            apart += pow(logits[t * vocabulary + v] - e.logits[t][v], 2);
            size += pow(e.logits[t][v], 2);
        }
    free(logits);
    batch_destroy(&e.batch);
    return sqrt(apart / size);
}

/* -- Faults -------------------------------------------------------------------------------------------------------- */

enum fault { NOTHING, KEYS_AND_VALUES, STACKED, GROUPS, BIASES, NORMS, GATE_AND_UP, TOKENS_BEYOND, FAULTS };
static const char *const fault_names[FAULTS] = {
    "nothing",        "k and v exchanged",   "q, k and v not interleaved", "groups exchanged",
    "biases stacked", "the norms exchanged", "gate and up exchanged",      "rows beyond the vocabulary"};

static int64_t find_part(const struct folder *f, const struct golden_case *c, const char *part)
{
    char *name = memory_format("%s%s", c->first, part);
    int64_t i = find(f, name);
    free(name);
    return i;
}

/* Puts rows of a tensor where other ones were: to[i] is the new place of row i, in blocks. */
static void move_blocks(struct folder *f, int64_t tensor, int blocks, const int *to)
{
    const int64_t bytes = f->entries[tensor].bytes, each = bytes / blocks;
    char *old = memory_grow(NULL, bytes);
    memcpy(old, f->data[tensor], (size_t)bytes);
    for (int i = 0; i < blocks; i++)
        memcpy((char *)f->data[tensor] + to[i] * each, old + i * each, (size_t)each);
    free(old);
}

static void exchange(struct folder *f, int64_t a, int64_t b)
{
    void *data = f->data[a];
    f->data[a] = f->data[b];
    f->data[b] = data;
}

/* The fault that a reader would make of good tensors, in them. false: the case has no place for it. */
static bool plant(struct folder *f, const struct golden_case *c, enum fault fault)
{
    enum { MOST_BLOCKS = 16 };
    const int per_group = c->each + 2, blocks = c->groups * per_group;
    const int64_t weight = find_part(f, c, "self_attention.layernorm_qkv.weight"),
                  bias = find_part(f, c, "self_attention.layernorm_qkv.bias"),
                  fc1 = find_part(f, c, "layernorm_mlp.fc1_weight"),
                  norm1 = find_part(f, c, "self_attention.layernorm_qkv.layer_norm_weight"),
                  norm2 = find_part(f, c, "layernorm_mlp.layer_norm_weight");
    int to[MOST_BLOCKS];
    CHECK(blocks <= MOST_BLOCKS && weight >= 0 && fc1 >= 0 && norm1 >= 0 && norm2 >= 0);
    CHECK(f->entries[weight].shape[0] == blocks * c->head_dim);
    for (int i = 0; i < blocks; i++) {
        const int group = i / per_group, part = i % per_group;
        to[i] = i;
        if (fault == KEYS_AND_VALUES && part >= c->each)
            to[i] = group * per_group + c->each + (c->each + 1 - part);
        if (fault == STACKED || fault == BIASES)
            to[i] = part < c->each ? group * c->each + part : (part * c->groups) + group;
        if (fault == GROUPS)
            to[i] = (c->groups - 1 - group) * per_group + part;
    }
    switch (fault) {
    case NOTHING:
        return true;
    case KEYS_AND_VALUES:
    case STACKED:
    case GROUPS:
        move_blocks(f, weight, blocks, to);
        return true;
    case BIASES:
        if (bias >= 0)
            move_blocks(f, bias, blocks, to);
        return bias >= 0;
    case NORMS:
        exchange(f, norm1, norm2);
        return true;
    case GATE_AND_UP:
        if (c->gated)
            move_blocks(f, fc1, 2, (const int[]){1, 0});
        return c->gated;
    default:
        return false;
    }
}

/* -- Rows beyond the vocabulary ------------------------------------------------------------------------------------ */

static const char *const of_tokens[] = {"model.embeddings.word_embeddings.weight",
                                        "lm_head.decoder.weight",
                                        "lm_head.decoder.bias",
                                        "amplify.encoder.weight",
                                        "decoder.weight",
                                        "decoder.bias"};
enum { OF_TOKENS = sizeof of_tokens / sizeof *of_tokens };

/* Of a golden with such rows: they are spoilt, and that changes nothing. */
static bool spoil_rows(struct folder *f)
{
    bool any = false;
    for (int k = 0; k < OF_TOKENS; k++) {
        const int64_t i = find(f, of_tokens[k]),
                      vocabulary = json_integer_value(json_object_get(f->config, "vocab_size"));
        if (i < 0 || f->entries[i].shape[0] <= vocabulary)
            continue;
        const int64_t used = f->entries[i].bytes / f->entries[i].shape[0] * vocabulary;
        memset((char *)f->data[i] + used, 0x40, (size_t)(f->entries[i].bytes - used));
        any = true;
    }
    return any;
}

static void test_logits(const struct golden_case *c)
{
    char *in = memory_format("%s/%s.in", work, c->name), *file = memory_format("%s/%s.h5", work, c->name);
    for (enum fault fault = NOTHING; fault < FAULTS; fault++) {
        struct folder *f = load_folder(golden(c->name));
        const bool planted = fault == TOKENS_BEYOND ? spoil_rows(f) : plant(f, c, fault),
                   good = !fault || fault == TOKENS_BEYOND;
        save_folder(f, in);
        forget_folder(f);
        if (!planted)
            continue;
        CHECK(import_folder(in, file, c->tokenizer) == ERROR_NONE);
        CHECK_STRING(error_message(), "");
        const double apart = distance(file, c);
        printf("%-14s %-28s %.1e\n", c->name, fault_names[fault], apart);
        CHECK(good ? apart <= bound : apart > 100 * bound);
    }
    CHECK(import_folder(golden(c->name), file, c->tokenizer) == ERROR_NONE); /* in shards, where it is */
    CHECK(distance(file, c) <= bound);
    free(in);
    free(file);
}

/* -- There and back ------------------------------------------------------------------------------------------------ */

/* Less what no model has: states, poolers, a tied matrix written twice, rows beyond the vocabulary. */
static void drop_rest(struct folder *f)
{
    static const char *const dropped[] = {"_extra_state", "pooler"};
    for (size_t k = 0; k < 2; k++)
        for (int64_t i = 0; i < f->count;)
            if (strstr(f->entries[i].name, dropped[k]) != NULL)
                drop(f, i);
            else
                i++;
    const int64_t vocabulary = json_integer_value(json_object_get(f->config, "vocab_size"));
    for (int k = 0; k < OF_TOKENS; k++) {
        const int64_t i = find(f, of_tokens[k]);
        if (i < 0)
            continue;
        f->entries[i].bytes = f->entries[i].bytes / f->entries[i].shape[0] * vocabulary;
        f->entries[i].shape[0] = vocabulary;
    }
    for (int64_t i = 0; i < f->count; i++)
        if (strncmp(f->entries[i].name, "esm.", 4) == 0) {
            char *today = memory_format("model.%s", f->entries[i].name + 4);
            free(f->entries[i].name);
            f->entries[i].name = today;
        }
    const int64_t twin = find(f, "lm_head.decoder.weight");
    if (twin >= 0)
        drop(f, twin);
}

static enum checkpoint_dialect dialect_in(const char *folder)
{
    struct safetensors *st;
    if (!CHECK(safetensors_open(&st, folder) == ERROR_NONE))
        return DIALECT_COUNT;
    const enum checkpoint_dialect dialect = dialect_of(st);
    safetensors_close(st);
    return dialect;
}

/* A golden, exported; the same through Hugging Face's dialect. */
static void test_export(const struct golden_case *c)
{
    char *file = memory_format("%s/%s.h5", work, c->name), *te = memory_format("%s/%s.te", work, c->name);
    char *hf = memory_format("%s/%s.hf", work, c->name), *back = memory_format("%s/%s.back", work, c->name);
    char *file2 = memory_format("%s/%s.2.h5", work, c->name);
    const int64_t table = strncmp(c->name, "te_llama_mha", 12) == 0; /* of frequencies, which the others have or lack */
    CHECK(export_as(DIALECT_TE, file, te, c->bf16, EXPORT_SHARD_BYTES, false) == ERROR_NONE);
    CHECK(export_as(DIALECT_HF, file, hf, c->bf16, 20000, false) == ERROR_NONE);
    CHECK(import_folder(hf, file2, c->tokenizer) == ERROR_NONE && distance(file2, c) <= bound);
    CHECK(export_as(DIALECT_TE, file2, back, c->bf16, 20000, false) == ERROR_NONE);
    CHECK_STRING(error_message(), "");
    CHECK(dialect_in(te) == DIALECT_TE && dialect_in(hf) == DIALECT_HF);
    struct folder *before = load_folder(golden(c->name)), *after = load_folder(te), *again = load_folder(back);
    drop_rest(before);
    check_same(before, after, NULL, table);
    check_same(after, again, NULL, 0);
    CHECK(json_equal(after->config, again->config));
    CHECK(import_folder(back, file2, c->tokenizer) == ERROR_NONE && distance(file2, c) <= bound);

    struct deck old, new;
    deck_defaults(&old);
    deck_defaults(&new);
    CHECK(config_read(&old, golden(c->name), DIALECT_TE) == ERROR_NONE &&
          config_read(&new, te, DIALECT_TE) == ERROR_NONE);
    CHECK(memcmp(&old, &new, sizeof old) == 0);
    for (const char *const *key = (const char *const[]){"model_type", "auto_map", NULL}; *key != NULL; key++) {
        const json_t *a = json_object_get(before->config, *key), *b = json_object_get(after->config, *key);
        const char *name;
        json_t *value;
        CHECK(json_is_string(a) ? json_equal((json_t *)a, (json_t *)b) : b != NULL);
        json_object_foreach((json_t *)a, name, value) CHECK(json_equal(value, json_object_get(b, name)));
    }
    forget_folder(before);
    forget_folder(after);
    forget_folder(again);
    free(file);
    free(file2);
    free(te);
    free(hf);
    free(back);
}

/* A folder of transformers, through the other dialect; more: tensors that come out and had no place in between. */
static void test_round_trip(const char *name, const char *tokenizer, bool bf16, int64_t more)
{
    char *file = memory_format("%s/%s.h5", work, name), *te = memory_format("%s/%s.te", work, name);
    char *out = memory_format("%s/%s.out", work, name);
    CHECK(import_folder(golden(name), file, tokenizer) == ERROR_NONE);
    CHECK(export_as(DIALECT_TE, file, te, bf16, 30000, false) == ERROR_NONE);
    CHECK(import_folder(te, file, tokenizer) == ERROR_NONE);
    CHECK(export_as(DIALECT_HF, file, out, bf16, EXPORT_SHARD_BYTES, false) == ERROR_NONE);
    CHECK_STRING(error_message(), "");
    struct folder *before = load_folder(golden(name)), *between = load_folder(te), *after = load_folder(out);
    for (int64_t i = 0; i < before->count;)
        if (strstr(before->entries[i].name, "contact_head") != NULL ||
            strstr(before->entries[i].name, "inv_freq") != NULL)
            drop(before, i);
        else
            i++;
    check_same(before, after, NULL, more);
    for (int64_t i = 0; i < between->count; i++)
        CHECK(strstr(between->entries[i].name, "contact_head") == NULL &&
              strstr(between->entries[i].name, "_proj") == NULL);
    forget_folder(before);
    forget_folder(between);
    forget_folder(after);
    free(file);
    free(te);
    free(out);
}

/* -- What cannot be kept ------------------------------------------------------------------------------------------- */

static const struct {
    const char *model, *change; /* members that take the place of those there */
    const char *says;           /* NULL: can be read */
} config_cases[] = {
    {"te_esm2", "{\"encoder_activation\": \"relu\"}",
     "key encoder_activation = \"relu\": is not supported; allowed: \"gelu\""},
    {"te_esm2", "{\"fuse_qkv_params\": false}", "key fuse_qkv_params = false: is not supported; allowed: true"},
    {"te_esm2", "{\"qkv_weight_interleaved\": false}", "key qkv_weight_interleaved = false"},
    {"te_esm2", "{\"attn_mask_type\": \"causal\"}",
     "key attn_mask_type = \"causal\": is not supported; allowed: \"padding\""},
    {"te_esm2", "{\"emb_layer_norm_before\": true}", "key emb_layer_norm_before = true"},
    {"te_esm2", "{\"rope_theta\": 5000.0}",
     "key model.rope_theta = 5000: not supported by NVEsmForMaskedLM, whose base is always 10000"},
    {"te_esm2", "{\"model_type\": \"esm\"}",
     "key model_type = \"esm\": is not supported; allowed: \"llama\", \"nv_esm\" or \"AMPLIFY\""},
    {"te_esm2", "{\"architectures\": [\"NVEsmForTokenClassification\"]}", "allowed: [\"NVEsmForMaskedLM\"]"},
    {"te_esm2", "{\"attn_input_format\": \"thd\", \"max_seq_length\": 512, \"auto_map\": null}", NULL},
    {"te_llama_gqa", "{\"self_attn_mask_type\": \"no_mask\"}",
     "key self_attn_mask_type = \"no_mask\": is not supported; allowed: \"causal\" or \"padding_causal\""},
    {"te_llama_gqa", "{\"head_dim\": 16}", "key model.head_dim = 16: NVLlamaForCausalLM has no head size of its own"},
    {"te_llama_gqa", "{\"attention_bias\": true}", "key attention_bias = true"},
    {"te_llama_gqa", "{\"architectures\": null, \"self_attn_mask_type\": null, \"layer_precision\": [\"fp8\", null]}",
     NULL},
    {"te_amplify", "{\"architectures\": [\"AMPLIFY\"]}", NULL},
    {"te_amplify", "{\"hidden_act\": \"gelu\"}", "key hidden_act = \"gelu\": is not supported; allowed: \"SwiGLU\""},
};

static void test_configs(void)
{
    char *path = memory_format("%s/config", work), *file = memory_format("%s/config.json", path);
    mkdir(path, 0777);
    for (size_t i = 0; i < sizeof config_cases / sizeof *config_cases; i++) {
        json_t *config, *change = json_loads(config_cases[i].change, 0, NULL);
        const char *says = config_cases[i].says;
        struct deck deck;
        deck_defaults(&deck);
        error_clear();
        CHECK(json_file_read(&config, in_folder(golden(config_cases[i].model), "config.json")) == ERROR_NONE);
        json_object_update(config, change);
        CHECK(json_file_write(config, file) == ERROR_NONE);
        const int code = config_read(&deck, path, DIALECT_TE);
        const bool named = says == NULL || strstr(error_message(), says) != NULL;
        if (!CHECK(code == (says == NULL ? ERROR_NONE : ERROR_USER) && named))
            fprintf(stderr, "    %s says \"%s\"\n", config_cases[i].change, error_message());
        json_decref(change);
    }
    free(path);
    free(file);
}

/* Changes to te_esm2 and te_llama_gqa, and what is said. */
static void test_tensors(void)
{
    static const struct {
        const char *model, *dropped, *renamed, *key;
        int64_t value; /* of the key, unless it is NULL */
        const char *says;
    } faults[] = {
        {"te_llama_gqa", "model.layers.1.self_attention.layernorm_qkv.weight", NULL, NULL, 0,
         "model.layers.1.self_attention.layernorm_qkv.weight: is missing; the model has it as [64, 32]"},
        {"te_llama_gqa", NULL, "model.layers.0.self_attn.q_proj.weight", NULL, 0,
         "model.layers.0.self_attn.q_proj.weight: is not in the model"},
        {"te_llama_gqa", NULL, NULL, "intermediate_size", 48, "model.layers.0.layernorm_mlp.fc1_weight: is [80, 32]"},
        {"te_llama_gqa", NULL, NULL, "num_key_value_heads", 4,
         "model.layers.0.self_attention.layernorm_qkv.weight: is [64, 32]"},
        {"te_esm2", NULL, NULL, "padded_vocab_size", 40, "model.embeddings.word_embeddings.weight: is [64, 32]"},
        {"te_esm2", NULL, NULL, "padded_vocab_size", 32, "key padded_vocab_size = 32: must be at least vocab_size"},
        {"te_esm2", NULL, NULL, "padded_vocab_size", 0, "key padded_vocab_size = 0: must be a positive whole number"},
    };
    char *in = memory_format("%s/faulty", work), *file = memory_format("%s/faulty.h5", work);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        struct folder *f = load_folder(golden(faults[i].model));
        if (faults[i].dropped != NULL)
            drop(f, find(f, faults[i].dropped));
        if (faults[i].renamed != NULL)
            duplicate(f, find(f, "model.norm.weight"), faults[i].renamed);
        if (faults[i].key != NULL)
            json_object_set_new(f->config, faults[i].key, json_integer(faults[i].value));
        save_folder(f, in);
        forget_folder(f);
        const char *again;
        const bool bad = import_folder(in, file, NULL) == ERROR_USER && !is_there(file),
                   named = (again = strstr(error_message(), faults[i].says)) != NULL &&
                           strstr(again + 1, faults[i].says) == NULL; /* of several parts, once */
        if (!CHECK(bad && named))
            fprintf(stderr, "    case %d says \"%s\"\n", (int)i, error_message());
    }
    struct folder *f = load_folder(golden("te_llama_gqa")); /* another rope's table: the class would compute with it */
    ((float *)f->data[find(f, "model.rotary_emb.inv_freq")])[1] *= 2;
    save_folder(f, in);
    forget_folder(f);
    CHECK(import_folder(in, file, NULL) == ERROR_USER && strstr(error_message(), "inv_freq does not match") != NULL);
    error_clear();
    free(in);
    free(file);
}

/* What is said of a shard that is not there is not what is said of its folder's other dialect. */
static void test_missing_shard(void)
{
    char *file = memory_format("%s/shards.h5", work), *te = memory_format("%s/shards", work);
    char *shard = memory_format("%s/model-00002-of-00002.safetensors", te);
    CHECK(import_folder(golden("te_llama_gqa"), file, NULL) == ERROR_NONE);
    CHECK(export_as(DIALECT_TE, file, te, false, 70000, false) == ERROR_NONE);
    CHECK(unlink(file) == 0 && unlink(shard) == 0);
    CHECK(import_folder(te, file, NULL) == ERROR_USER && !is_there(file));
    if (!CHECK(strstr(error_message(), "model-00002-of-00002.safetensors: cannot be opened: No such file") != NULL))
        fprintf(stderr, "    says \"%s\"\n", error_message());
    error_clear();
    free(file);
    free(te);
    free(shard);
}

int main(void)
{
    stores_begin();
    work = stores_folder;
    for (int i = 0; i < CASES; i++) {
        test_logits(&cases[i]);
        test_export(&cases[i]);
    }
    test_round_trip("llama_tiny", "nucleotide", true, 0);
    test_round_trip("esm2_tiny", NULL, false, 4);
    test_round_trip("amplify_tiny", NULL, false, 0);
    test_configs();
    test_tensors();
    test_missing_shard();
    stores_end();
    return check_end();
}
