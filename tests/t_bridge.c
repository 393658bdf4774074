/* Hugging Face folders survive import and export (src/bridge) bit for bit, in either spelling. Each tensor that does
 * not match the configuration is named, and a failure leaves no file. */
#include "bridge/config.h"
#include "checkpoint/checkpoint.h"
#include "deck/fields.h"
#include "folders.h"
#include "stores.h"

#include <glob.h>
#include <math.h>

static const char *work; /* the scratch folder */

/* -- There and back ------------------------------------------------------------------------------------------------ */

static void test_round_trip(const char *name, bool bf16, int64_t shard_bytes, const char *dropped, int64_t more)
{
    char *file = memory_format("%s/%s.h5", work, name), *out = memory_format("%s/%s.out", work, name);
    CHECK(import_folder(golden(name), file, NULL) == ERROR_NONE);
    CHECK(export_file(file, out, bf16, shard_bytes, false) == ERROR_NONE);
    CHECK_STRING(error_message(), "");
    struct folder *before = load_folder(golden(name)), *after = load_folder(out);
    check_same(before, after, dropped, more);
    CHECK(is_there(in_folder(out, "model.safetensors.index.json")) == (shard_bytes < 1000000));

    struct deck old, new;
    deck_defaults(&old);
    deck_defaults(&new);
    CHECK(config_read(&old, golden(name), DIALECT_HF) == ERROR_NONE &&
          config_read(&new, out, DIALECT_HF) == ERROR_NONE);
    CHECK(memcmp(&old, &new, sizeof old) == 0);
    forget_folder(before);
    forget_folder(after);
    free(file);
    free(out);
}

/* A model without a head: its file's names have no prefix, those of exports do. */
static void test_base(void)
{
    char *file = memory_format("%s/base.h5", work), *out = memory_format("%s/base.out", work);
    struct folder *before = load_folder(golden("esm2_base"));
    for (int64_t i = 0; i < before->count; i++) {
        char *whole = memory_format("esm.%s", before->entries[i].name);
        CHECK(strncmp(before->entries[i].name, "esm.", 4) != 0);
        free(before->entries[i].name);
        before->entries[i].name = whole;
    }
    struct deck deck;
    deck_defaults(&deck);
    CHECK(import_folder(golden("esm2_base"), file, NULL) == ERROR_NONE);
    CHECK(export_file(file, out, false, EXPORT_SHARD_BYTES, false) == ERROR_NONE);
    CHECK_STRING(error_message(), "");
    struct folder *after = load_folder(out);
    check_same(before, after, NULL, 0);
    CHECK(config_read(&deck, out, DIALECT_HF) == ERROR_NONE && deck.model.head == DECK_HEAD_NONE);
    CHECK(json_object_get(after->config, "id2label") == NULL);
    drop(after, find(after, "esm.encoder.emb_layer_norm_after.bias"));
    save_folder(after, out);
    CHECK(import_folder(out, file, NULL) == ERROR_USER);
    CHECK(strstr(error_message(), "esm.encoder.emb_layer_norm_after.bias: is missing") != NULL);
    error_clear();
    forget_folder(before);
    forget_folder(after);
    free(file);
    free(out);
}

/* Contact head and rotary table of an ESM-2 that had none. */
static void test_made_up(void)
{
    struct folder *before = load_folder(golden("esm2_old"));
    for (int64_t i = 0; i < before->count;)
        if (strstr(before->entries[i].name, "inv_freq") != NULL)
            drop(before, i);
        else
            i++;
    char *in = memory_format("%s/bare", work), *file = memory_format("%s/bare.h5", work);
    char *out = memory_format("%s/bare.out", work);
    save_folder(before, in);
    CHECK(import_folder(in, file, NULL) == ERROR_NONE);
    CHECK(export_file(file, out, false, EXPORT_SHARD_BYTES, false) == ERROR_NONE);
    struct folder *after = load_folder(out), *whole = load_folder(golden("esm2_old"));
    check_same(before, after, "lm_head.decoder.weight", 4);
    int64_t head = find(after, "esm.contact_head.regression.weight");
    CHECK(head >= 0 && after->entries[head].shape[1] == 8 && ((const float *)after->data[head])[7] == 0);
    const char *table = "esm.encoder.layer.1.attention.self.rotary_embeddings.inv_freq";
    int64_t a = find(after, table), b = find(whole, table);
    CHECK(a >= 0 && after->entries[a].bytes == whole->entries[b].bytes);
    for (int i = 0; i < 4 && a >= 0; i++)
        CHECK_NEAR(((const float *)after->data[a])[i], ((const float *)whole->data[b])[i], 1e-6, 0);
    forget_folder(before);
    forget_folder(after);
    forget_folder(whole);
    free(in);
    free(file);
    free(out);
}

/* A table of frequencies that was rounded to 16 bits is what the model computes with, and is exported unchanged. A
 * table that differs slightly is reported and recomputed; a table of another theta is refused. */
static void test_tables(void)
{
    static const struct {
        float table[4];
        const char *says; /* NULL: refused */
    } cases[] = {{{1, 0.1f, 0.01f, 0.001f}, "rope_rounding = \"none\""},
                 {{1, 0.0999755859375f, 0.01000213623046875f, 0.0010004043579101562f}, "rope_rounding = \"fp16\""},
                 {{1, 0.10009765625f, 0.010009765625f, 0.00099945068359375f}, "rope_rounding = \"bf16\""},
                 {{1, 0.1005f, 0.01f, 0.001f}, "rope_rounding = \"none\""},
                 {{1, 0.2f, 0.04f, 0.008f}, NULL},
                 {{1, 0.1f, NAN, 0.001f}, NULL}};
    static const char name[] = "esm.encoder.layer.*.attention.self.rotary_embeddings.inv_freq";
    char *in = memory_format("%s/table", work), *file = memory_format("%s/table.h5", work);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct folder *f = load_folder(golden("esm2_tiny"));
        memcpy(f->data[find(f, name)], cases[i].table, sizeof cases[i].table);
        save_folder(f, in);
        forget_folder(f);
        int code = import_folder(in, file, NULL);
        CHECK(code == (cases[i].says != NULL ? ERROR_NONE : ERROR_USER));
        if (code != ERROR_NONE)
            continue;
        struct comm *self = comm_self();
        struct checkpoint_meta meta;
        CHECK(checkpoint_read_meta(self, file, &meta) == ERROR_NONE);
        CHECK(cases[i].says != NULL && strstr(meta.deck_text, cases[i].says) != NULL);
        checkpoint_meta_destroy(&meta);
        comm_destroy(self);
        char *out = memory_format("%s/table.out.%d", work, (int)i);
        CHECK(export_file(file, out, false, EXPORT_SHARD_BYTES, false) == ERROR_NONE);
        struct folder *after = load_folder(out);
        const float *left = after->data[find(after, name)];
        for (int k = 0; k < 4; k++)
            CHECK_NEAR(left[k], i < 3 ? cases[i].table[k] : cases[0].table[k], i < 3 ? 0 : 1e-6, 0);
        forget_folder(after);
        free(out);
    }
    free(in);
    free(file);
}

static void test_rounding(void)
{
    char *file = memory_format("%s/esm2_tiny.h5", work), *out = memory_format("%s/rounded", work);
    CHECK(export_file(file, out, true, EXPORT_SHARD_BYTES, false) == ERROR_NONE);
    struct folder *exact = load_folder(golden("esm2_tiny")), *rounded = load_folder(out);
    int64_t a = find(exact, "lm_head.dense.weight"), b = find(rounded, "lm_head.dense.weight");
    CHECK(rounded->entries[b].dtype == SAFETENSORS_BF16);
    float back[32 * 32], worst = 0;
    safetensors_to_float(SAFETENSORS_BF16, rounded->data[b], 32 * 32, back);
    for (int i = 0; i < 32 * 32; i++)
        worst = fmaxf(worst, fabsf(back[i] / ((const float *)exact->data[a])[i] - 1));
    CHECK(worst > 0 && worst <= 1.0f / 256);
    CHECK(rounded->entries[find(rounded, "esm.contact_head.regression.weight")].dtype == SAFETENSORS_F32);
    CHECK_STRING(json_string_value(json_object_get(rounded->config, "dtype")), "bfloat16");
    forget_folder(exact);
    forget_folder(rounded);
    free(file);
    free(out);
}

/* -- Tensors ------------------------------------------------------------------------------------------------------- */

enum fault { MISSING, EXTRA, SHAPE, DTYPE, TWIN, WIDE_TWIN, OTHER_TWIN, OTHER_BIAS, LAYER, MANY, BIG, FAULTS };

static const struct {
    const char *model, *says[3]; /* says[0] NULL: is read */
} fault_cases[FAULTS] = {
    [MISSING] = {"esm2_tiny", {"lm_head.dense.bias: is missing; the model has it as [32]"}},
    [EXTRA] = {"llama_tiny", {"model.layers.0.self_attn.q_proj.bias: is not in the model"}},
    [SHAPE] = {"llama_tiny", {"model.layers.1.mlp.up_proj.weight: is [32, 48]", "but [48, 32] by config.json"}},
    [DTYPE] = {"esm2_tiny", {"lm_head.bias: has element type I32; F32, BF16 and F16 can be read"}},
    [TWIN] = {"esm2_tiny", {NULL}},
    [WIDE_TWIN] = {"esm2_tiny", {"esm.embeddings.word_embeddings.weight: is [1048576]"}},
    [OTHER_TWIN] = {"esm2_tiny", {"lm_head.decoder.weight differs from esm.embeddings.word_embeddings.weight"}},
    [OTHER_BIAS] = {"esm2_tiny", {"lm_head.decoder.bias differs from lm_head.bias"}},
    [LAYER] = {"esm2_tiny", {"esm.encoder.layer.2.attention.output.dense.weight: is missing", "and 4 more"}},
    [MANY] = {"esm2_tiny", {"esm.encoder.layer.1.attention.self.query.weight: is not in the model"}},
    [BIG] = {"esm2_tiny", {"esm.pooler.dense.weight", "64 MiB"}},
};

static void plant(struct folder *f, enum fault fault)
{
    int64_t i;
    switch (fault) {
    case MISSING:
        drop(f, find(f, "lm_head.dense.bias"));
        break;
    case EXTRA:
        duplicate(f, find(f, "model.norm.weight"), "model.layers.0.self_attn.q_proj.bias");
        break;
    case SHAPE:
        i = find(f, "model.layers.1.mlp.up_proj.weight");
        f->entries[i].shape[0] = 32;
        f->entries[i].shape[1] = 48;
        break;
    case DTYPE:
        f->entries[find(f, "lm_head.bias")].dtype = SAFETENSORS_I32;
        break;
    case TWIN:
        duplicate(f, find(f, "esm.embeddings.word_embeddings.weight"), "lm_head.decoder.weight");
        duplicate(f, find(f, "lm_head.bias"), "lm_head.decoder.bias");
        break;
    case WIDE_TWIN: /* both of 8 bytes an element, longer than a piece of f32 */
        i = find(f, "esm.embeddings.word_embeddings.weight");
        f->entries[i].dtype = SAFETENSORS_F64;
        f->entries[i].dims = 1;
        f->entries[i].shape[0] = 1 << 20;
        f->entries[i].bytes = (int64_t)8 << 20;
        f->data[i] = memory_grow(f->data[i], f->entries[i].bytes);
        memset(f->data[i], 0, (size_t)f->entries[i].bytes);
        duplicate(f, i, "lm_head.decoder.weight");
        break;
    case OTHER_TWIN:
        duplicate(f, find(f, "esm.embeddings.word_embeddings.weight"), "lm_head.decoder.weight");
        ((uint32_t *)f->data[f->count - 1])[33 * 32 - 1] ^= 1;
        break;
    case OTHER_BIAS:
        duplicate(f, find(f, "lm_head.bias"), "lm_head.decoder.bias");
        ((uint32_t *)f->data[f->count - 1])[32] ^= 1;
        break;
    case LAYER:
        json_object_set_new(f->config, "num_hidden_layers", json_integer(3));
        break;
    case MANY:
        json_object_set_new(f->config, "num_hidden_layers", json_integer(1));
        break;
    case BIG:
        duplicate(f, find(f, "lm_head.dense.weight"), "esm.pooler.dense.weight");
        i = f->count - 1;
        f->entries[i].shape[0] = 1 << 20;
        f->entries[i].bytes = (int64_t)128 << 20;
        f->data[i] = memory_grow(f->data[i], f->entries[i].bytes);
        break;
    case FAULTS:
        break;
    }
}

static void test_tensors(void)
{
    char *in = memory_format("%s/faulty", work), *file = memory_format("%s/faulty.h5", work);
    for (enum fault fault = 0; fault < FAULTS; fault++) {
        struct folder *f = load_folder(golden(fault_cases[fault].model));
        plant(f, fault);
        save_folder(f, in);
        bool good = fault_cases[fault].says[0] == NULL, named = true;
        int code = import_folder(in, file, NULL);
        for (int i = 0; i < 3 && fault_cases[fault].says[i] != NULL; i++)
            named = named && strstr(error_message(), fault_cases[fault].says[i]) != NULL;
        if (!CHECK(code == (good ? ERROR_NONE : ERROR_USER) && named && is_there(file) == good))
            fprintf(stderr, "    case %d says \"%s\"\n", (int)fault, error_message());
        forget_folder(f);
        unlink(file);
    }
    free(in);
    free(file);
}

/* -- Folders ------------------------------------------------------------------------------------------------------- */

static void test_places(void)
{
    char *file = memory_format("%s/esm2_tiny.h5", work), *out = memory_format("%s/place", work);
    char *config = memory_format("%s/config.json", out);
    mkdir(out, 0777);
    CHECK(export_file(file, out, false, EXPORT_SHARD_BYTES, false) == ERROR_NONE); /* an empty one may be there */
    CHECK(export_file(file, out, false, EXPORT_SHARD_BYTES, false) == ERROR_USER);
    CHECK(strstr(error_message(), "exists; name a new folder") != NULL);
    char *aside = memory_format("%s/aside.json", work);
    CHECK(rename(config, aside) == 0);
    CHECK(export_file(file, out, false, 20000, true) == ERROR_USER); /* no export is without its config.json */
    CHECK(strstr(error_message(), "is not empty and not an earlier export") != NULL && !is_there(config));
    CHECK(rename(aside, config) == 0);
    free(aside);
    CHECK(export_file(file, out, false, 20000, true) == ERROR_NONE);
    CHECK(is_there(config) && !is_there(in_folder(out, "model.safetensors")));
    glob_t left;
    CHECK(glob(in_folder(work, "place.*"), 0, NULL, &left) == GLOB_NOMATCH);
    CHECK(export_file(file, in_folder(work, "none/here"), false, EXPORT_SHARD_BYTES, false) == ERROR_USER);
    CHECK(export_file(in_folder(work, "none.h5"), in_folder(work, "new"), false, 1, false) == ERROR_USER);
    CHECK(!is_there(in_folder(work, "new")));
    CHECK(import_folder(golden("esm2_tiny"), in_folder(work, "none/here.h5"), NULL) == ERROR_USER);
    CHECK(import_folder(golden("esm2_tiny"), out, NULL) == ERROR_USER);
    CHECK(import_folder(in_folder(work, "none"), in_folder(work, "x.h5"), NULL) == ERROR_USER);
    CHECK(strstr(error_message(), "none: cannot read the folder: No such file") != NULL);
    error_clear();
    free(file);
    free(out);
    free(config);
}

int main(void)
{
    stores_begin();
    work = stores_folder;
    test_round_trip("llama_tiny", true, 30000, NULL, 0);
    test_round_trip("esm2_tiny", false, EXPORT_SHARD_BYTES, NULL, 0);
    test_round_trip("esm2_old", false, EXPORT_SHARD_BYTES, "lm_head.decoder.weight", 2);
    test_round_trip("amplify_tiny", false, EXPORT_SHARD_BYTES, NULL, 0);
    test_round_trip("qwen2_tiny", true, EXPORT_SHARD_BYTES, NULL, 0);
    test_round_trip("qwen3_tiny", true, EXPORT_SHARD_BYTES, NULL, 0);
    test_round_trip("esmc_tiny", false, EXPORT_SHARD_BYTES, NULL, 0);
    test_round_trip("ntv2_tiny", false, EXPORT_SHARD_BYTES, NULL, 0);
    test_round_trip("mistral_tiny", true, EXPORT_SHARD_BYTES, NULL, 0);
    test_round_trip("mixtral_tiny", true, EXPORT_SHARD_BYTES, NULL, 0);
    test_round_trip("olmo2_tiny", true, EXPORT_SHARD_BYTES, NULL, 0);
    test_made_up();
    test_base();
    test_tables();
    test_rounding();
    test_tensors();
    test_places();
    stores_end();
    return check_end();
}
