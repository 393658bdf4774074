/* Hugging Face folders survive import and export (src/bridge) bit for bit, in either spelling. Each option of a
 * config.json that the program does not support is named, so is each tensor that does not match the configuration.
 * Memory stays far below the largest tensor, and a failure leaves no file. */
#include "bridge/config.h"
#include "deck/fields.h"
#include "bridge/tokenizer_files.h"
#include "tokenizer/tokenizer.h"
#include "checkpoint/checkpoint.h"
#include "folders.h"
#include "stores.h"

#include <glob.h>
#include <math.h>
#include <sys/resource.h>
#include <sys/wait.h>

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

static void test_old_spelling(void)
{
    char *path = memory_format("%s/spelling", work),
         *command = memory_format("cp %s %s/config.json", golden("llama_tiny/config_old.json"), path);
    struct deck old, new;
    mkdir(path, 0777);
    CHECK(system(command) == 0);
    deck_defaults(&old);
    deck_defaults(&new);
    CHECK(config_read(&old, path, DIALECT_HF) == ERROR_NONE &&
          config_read(&new, golden("llama_tiny"), DIALECT_HF) == ERROR_NONE);
    CHECK(memcmp(&old, &new, sizeof old) == 0);
    CHECK(new.model.rope_scaling.factor == 8 && new.model.rope_scaling.original == 32 && new.data.window == 256);
    free(path);
    free(command);
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

/* -- config.json --------------------------------------------------------------------------------------------------- */

struct config_case {
    const char *model, *change; /* members that take the place of those there */
    const char *says;           /* NULL: can be read */
};

#define LLAMA3_ROPE                                                                                                    \
    "{\"rope_scaling\": null, \"rope_parameters\": {\"rope_type\": \"llama3\", \"factor\": 8.0, \"low_freq_factor\": " \
    "1.0, "                                                                                                            \
    "\"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 32}"

static const struct config_case config_cases[] = {
    {"llama_tiny", "{\"model_type\": \"phi3\"}", "key model_type = \"phi3\": is not supported; allowed: \"llama\""},
    {"llama_tiny", "{\"model_type\": null}", "key model_type = null"},
    {"llama_tiny", "{\"model_type\": 3}", "key model_type = 3"},
    {"llama_tiny", "{\"architectures\": [\"LlamaForQuestionAnswering\"]}",
     "key architectures = [\"LlamaForQuestionAnswering\"]: is not supported; allowed: [\"LlamaForCausalLM\"]"},
    {"llama_tiny", "{\"hidden_act\": \"gelu\"}", "key hidden_act = \"gelu\": is not supported; allowed: \"silu\""},
    {"llama_tiny", "{\"attention_bias\": true, \"mlp_bias\": true}", NULL},
    {"llama_tiny", "{\"attention_bias\": 1}", "key attention_bias = 1: must be true or false"},
    {"llama_tiny", "{\"mlp_bias\": \"true\"}", "key mlp_bias = \"true\": must be true or false"},
    {"qwen2_tiny", "{\"use_sliding_window\": true}", NULL},
    {"qwen2_tiny", "{\"use_sliding_window\": 1}", "key use_sliding_window = 1: must be true or false"},
    {"qwen2_tiny", "{\"use_sliding_window\": true, \"sliding_window\": 0}",
     "key sliding_window = 0: must be a positive whole number"},
    {"qwen2_tiny", "{\"use_sliding_window\": true, \"sliding_window\": 9, \"max_window_layers\": -1}",
     "key max_window_layers = -1: must be a positive whole number"},
    {"qwen2_tiny", "{\"use_sliding_window\": true, \"sliding_window\": 9, \"max_window_layers\": 1}",
     "key layer_types = [\"full_attention\", \"full_attention\"]: must have"},
    {"qwen2_tiny",
     "{\"use_sliding_window\": true, \"sliding_window\": 9, \"max_window_layers\": 1, "
     "\"layer_types\": [\"full_attention\", \"sliding_attention\"]}",
     NULL},
    {"qwen2_tiny", "{\"layer_types\": [\"sliding_attention\", \"full_attention\"]}", "key layer_types = "},
    {"mistral_tiny", "{\"sliding_window\": null}", NULL},
    {"mistral_tiny", "{\"sliding_window\": \"24\"}", "key sliding_window = \"24\": must be a positive whole number"},
    {"mistral_tiny", "{\"rope_parameters\": {\"rope_type\": \"dynamic\", \"factor\": 2.0}}",
     "key rope_parameters.rope_type = \"dynamic\": is not supported"},
    {"mistral_tiny", "{\"rope_parameters\": {\"rope_type\": \"longrope\"}}",
     "key rope_parameters.rope_type = \"longrope\": is not supported"},
    {"qwen2_tiny", "{\"use_sliding_window\": null, \"head_dim\": null, \"sliding_window\": 131072}", NULL},
    {"llama_tiny", "{\"quantization_config\": {\"bits\": 4}}", "key quantization_config = {\"bits\": 4}"},
    {"llama_tiny", "{\"hidden_size\": 33.0}", "key hidden_size = 33.0: must be a positive whole number"},
    {"llama_tiny", "{\"hidden_size\": \"32\"}", "key hidden_size = \"32\": must be a positive whole number"},
    {"llama_tiny", "{\"num_hidden_layers\": 0}", "key num_hidden_layers = 0: must be a positive whole number"},
    {"llama_tiny", "{\"num_hidden_layers\": 70000}", "model.layers = 70000"},
    {"amplify_tiny", "{\"intermediate_size\": 9223372036854775807}", "must be below 2^31"},
    {"llama_tiny", "{\"num_attention_heads\": 5, \"head_dim\": null}", "model.heads = 5"},
    {"llama_tiny", "{\"num_key_value_heads\": 3}", "key model.kv_heads = 3: must divide model.heads = 4"},
    {"llama_tiny", "{\"rms_norm_eps\": 0}", "key rms_norm_eps = 0: must be a positive number"},
    {"llama_tiny", "{\"rms_norm_eps\": true}", "key rms_norm_eps = true: must be a positive number"},
    {"llama_tiny", "{\"tie_word_embeddings\": 1}", "key tie_word_embeddings = 1: must be true or false"},
    {"llama_tiny", "{\"rope_theta\": \"10000\"}", "key rope_theta = \"10000\": must be a positive number"},
    {"llama_tiny", "{\"partial_rotary_factor\": 0.5}", "key partial_rotary_factor = 0.5: is not supported; allowed: 1"},
    {"llama_tiny", "{\"rope_scaling\": 8}", "key rope_scaling = 8: must be an object"},
    {"llama_tiny", "{\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2.0}}",
     "key rope_scaling.rope_type = \"dynamic\": is not supported; allowed: \"default\", \"llama3\", \"linear\" or "
     "\"yarn\""},
    {"llama_tiny", "{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2.0}}", NULL},
    {"llama_tiny", "{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2.0, \"beta_fast\": 32}}",
     "key rope_scaling.*"},
    {"llama_tiny", "{\"rope_scaling\": {\"type\": \"linear\"}}",
     "key rope_scaling.factor = null: must be a positive number"},
    {"llama_tiny", "{\"rope_parameters\": {\"rope_type\": \"yarn\", \"factor\": 4.0}}",
     "key rope_parameters.original_max_position_embeddings = null: must be a positive whole number"},
    {"llama_tiny",
     "{\"rope_parameters\": {\"rope_type\": \"yarn\", \"factor\": 4.0, \"original_max_position_embeddings\": 64, "
     "\"truncate\": false}}",
     "key rope_parameters.truncate = false: is not supported; allowed: true"},
    {"llama_tiny",
     "{\"rope_parameters\": {\"rope_type\": \"yarn\", \"factor\": 4.0, \"original_max_position_embeddings\": 64, "
     "\"beta_slow\": 40}}",
     "0 < low < high"},
    {"llama_tiny", "{\"rope_parameters\": {\"rope_type\": \"llama3\", \"factor\": 4.0}}",
     "key rope_parameters.low_freq_factor = null: must be a positive number"},
    {"llama_tiny", "{\"rope_parameters\": {\"rope_type\": \"default\", \"partial_rotary_factor\": 0.25}}",
     "key rope_parameters.partial_rotary_factor = 0.25"},
    {"llama_tiny", "{\"rope_parameters\": {\"full_attention\": {\"rope_type\": \"default\"}}}",
     "key rope_parameters.*"},
    {"llama_tiny",
     "{\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0, \"low_freq_factor\": 4.0, "
     "\"high_freq_factor\": 1.0, \"original_max_position_embeddings\": 32}}",
     "0 < low < high"},
    {"llama_tiny",
     "{\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 0.5, \"low_freq_factor\": 1.0, "
     "\"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 32}}",
     "key rope_scaling.factor = 0.5: must be at least 1"},
    {"llama_tiny", LLAMA3_ROPE ", \"original_max_position_embeddings\": 64}",
     "key original_max_position_embeddings = 64: differs from rope_parameters.original_max_position_embeddings = 32"},
    {"llama_tiny", LLAMA3_ROPE ", \"original_max_position_embeddings\": 32}", NULL},
    {"llama_tiny", LLAMA3_ROPE ", \"original_max_position_embeddings\": \"32\"}",
     "key original_max_position_embeddings = \"32\""},
    {"llama_tiny", "{\"is_causal\": false}", "key is_causal = false: is not supported; allowed: true"},
    {"llama_tiny", "{\"is_causal\": null}", "key is_causal = null: is not supported; allowed: true"},
    {"llama_tiny", "{\"is_causal\": true}", NULL},
    {"llama_tiny", "{\"rope_parameters\": null, \"rope_theta\": 5000}", NULL},
    {"llama_tiny", "{\"architectures\": null, \"num_key_value_heads\": null}", NULL},
    {"llama_tiny", "{\"rope_scaling\": {\"type\": \"default\"}, \"attention_dropout\": 0.1, \"use_cache\": true}",
     NULL},
    {"qwen3_tiny", "{\"use_sliding_window\": \"yes\"}", "key use_sliding_window = \"yes\": must be true or false"},
    {"qwen3_tiny", "{\"head_dim\": 33}", "key model.head_dim = 33: must be even"},
    {"qwen3_tiny", "{\"attention_bias\": true, \"head_dim\": null}", NULL},
    {"olmo2_tiny", "{\"attention_bias\": true, \"num_key_value_heads\": null}", NULL},
    {"olmo2_tiny", "{\"hidden_act\": \"gelu\"}", "key hidden_act = \"gelu\": is not supported; allowed: \"silu\""},
    {"esmc_tiny", "{\"attention_bias\": true}", "key attention_bias = true: is not supported; allowed: false"},
    {"esmc_tiny", "{\"tie_word_embeddings\": true}", "key tie_word_embeddings = true: is not supported"},
    {"esmc_tiny", "{\"num_key_value_heads\": null, \"head_dim\": null}", NULL},
    {"ntv2_tiny", "{\"add_bias_fnn\": true}", "key add_bias_fnn = true: is not supported; allowed: false"},
    {"ntv2_tiny", "{\"model_type\": \"esm\"}", NULL},
    {"ntv2_tiny", "{\"model_type\": \"other\"}", "key model_type = \"other\""},
    {"ntv2_tiny", "{\"token_dropout\": true}", "key token_dropout = true"},
    {"mixtral_tiny", "{\"router_jitter_noise\": 0.1}",
     "key router_jitter_noise = 0.1: is not supported; allowed: 0.0 or 0"},
    {"mixtral_tiny", "{\"router_jitter_noise\": 0}", NULL},
    {"mixtral_tiny", "{\"sliding_window\": 64}", "key sliding_window = 64: is not supported; allowed: null"},
    {"mixtral_tiny", "{\"num_experts_per_tok\": 6}",
     "key model.num_experts_per_tok = 6: must be from 1 to model.num_local_experts = 5"},
    {"mixtral_tiny", "{\"num_local_experts\": 257}", "key model.num_local_experts = 257"},
    {"mixtral_tiny", "{\"router_aux_loss_coef\": -1}", "key router_aux_loss_coef = -1: must be a number of at least 0"},
    {"mixtral_tiny", "{\"router_aux_loss_coef\": 0}", NULL},
    {"esm2_tiny", "{\"position_embedding_type\": \"absolute\"}",
     "key position_embedding_type = \"absolute\": is not supported; allowed: \"rotary\""},
    {"esm2_tiny", "{\"position_embedding_type\": null}", "key position_embedding_type = null"},
    {"esm2_tiny", "{\"emb_layer_norm_before\": true}", "key emb_layer_norm_before = true"},
    {"esm2_tiny", "{\"is_folding_model\": true}", "key is_folding_model = true"},
    {"esm2_tiny", "{\"is_decoder\": true, \"token_dropout\": false}", NULL},
    {"esm2_tiny", "{\"is_decoder\": true, \"token_dropout\": true}",
     "key token_dropout = true: is supported in masked models only, but is_decoder is true"},
    {"esm2_tiny", "{\"is_decoder\": 1}", "key is_decoder = 1: must be true or false"},
    {"esm2_tiny", "{\"is_causal\": true}", "key is_causal = true: is not supported; allowed: false"},
    {"esm2_tiny", "{\"is_causal\": null}", NULL},
    {"esm2_tiny", "{\"add_cross_attention\": true}", "key add_cross_attention = true"},
    {"esm2_tiny", "{\"vocab_size\": 64, \"pad_token_id\": 0}", NULL}, /* another tokenizer than ESM-2's */
    {"esm2_tiny", "{\"pad_token_id\": 0}", "key pad_token_id = 0: is not supported; allowed: 1"},
    {"esm2_tiny", "{\"mask_token_id\": null}", "key mask_token_id = null: is not supported; allowed: 32"},
    {"esm2_tiny", "{\"cistron_gelu\": \"relu\"}",
     "key cistron_gelu = \"relu\": is not supported; allowed: \"erf\" or \"tanh\""},
    {"esm2_tiny", "{\"cistron_gelu\": 1}", "key cistron_gelu = 1: is not supported"},
    {"esm2_tiny", "{\"token_dropout\": \"yes\"}", "key token_dropout = \"yes\": must be true or false"},
    {"esm2_tiny", "{\"layer_norm_eps\": -1e-5}", "key layer_norm_eps = -1e-5: must be a positive number"},
    {"esm2_tiny", "{\"num_attention_heads\": 32}", "model.head_dim = 1: must be even"},
    {"esm2_tiny", "{\"architectures\": [\"EsmForProteinFolding\"]}", "allowed: [\"EsmForMaskedLM\"]"},
    {"esm2_tiny",
     "{\"architectures\": [\"EsmForSequenceClassification\"], \"problem_type\": \"multi_label_classification\"}",
     "key problem_type = \"multi_label_classification\": is not supported"},
    {"esm2_tiny", "{\"emb_layer_norm_before\": null, \"hidden_act\": \"gelu\", \"hidden_dropout_prob\": 0.1}", NULL},
    {"amplify_tiny", "{\"hidden_act\": \"relu\"}", "key hidden_act = \"relu\": is not supported; allowed: \"SwiGLU\""},
    {"amplify_tiny", "{\"rms_norm\": false}", "key rms_norm = false: is not supported; allowed: true"},
    {"amplify_tiny", "{\"att_bias\": true}", "key att_bias = true"},
    {"amplify_tiny", "{\"ffn_bias\": true}", "key ffn_bias = true"},
    {"amplify_tiny", "{\"layer_norm_after_embedding\": true}", "key layer_norm_after_embedding = true"},
    {"amplify_tiny", "{\"layer_norm_before_last_layer\": false}", "key layer_norm_before_last_layer = false"},
    {"amplify_tiny", "{\"pre_activation_layer_norm\": false}", "key pre_activation_layer_norm = false"},
    {"amplify_tiny", "{\"pad_token_id\": 1}", "key pad_token_id = 1: is not supported; allowed: 0"},
};

static void test_configs(void)
{
    char *path = memory_format("%s/config", work), *file = memory_format("%s/config.json", path);
    mkdir(path, 0777);
    for (size_t i = 0; i < sizeof config_cases / sizeof *config_cases; i++) {
        const struct config_case *c = &config_cases[i];
        json_t *config, *change = json_loads(c->change, 0, NULL);
        struct deck deck;
        deck_defaults(&deck);
        error_clear();
        CHECK(json_file_read(&config, in_folder(golden(c->model), "config.json")) == ERROR_NONE);
        json_object_update(config, change);
        CHECK(json_file_write(config, file) == ERROR_NONE);
        int code = config_read(&deck, path, DIALECT_HF);
        bool named = c->says == NULL ||
                     (strstr(error_message(), c->says) != NULL && strncmp(error_message(), file, strlen(file)) == 0);
        if (!CHECK(code == (c->says == NULL ? ERROR_NONE : ERROR_USER) && named))
            fprintf(stderr, "    %s says \"%s\"\n", c->change, error_message());
        json_decref(change);
    }
    struct deck deck; /* the number that stands beside alone */
    static const char alone[] =
        "{\"model_type\": \"llama\", \"original_max_position_embeddings\": 64, \"rope_scaling\": "
        "{\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 1, "
        "\"high_freq_factor\": 4}}";
    deck_defaults(&deck);
    write_file(file, alone, (int64_t)strlen(alone));
    CHECK(config_read(&deck, path, DIALECT_HF) == ERROR_NONE && deck.model.rope_scaling.original == 64);
    static const char *const texts[] = {"", "[]", "{\"a\": 1, \"a\": 2}", "{", "{\"model_type\": \"\\ud800\"}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct deck deck;
        deck_defaults(&deck);
        error_clear();
        write_file(file, texts[i], (int64_t)strlen(texts[i]));
        CHECK(config_read(&deck, path, DIALECT_HF) == ERROR_USER && strstr(error_message(), "config.json") != NULL);
    }
    free(path);
    free(file);
}

/* transformers' ESM-2 ignores hidden_act; a model with GELU's tanh form stays one through an export. */
static void test_gelu(void)
{
    static const struct {
        const char *change;
        enum deck_gelu gelu;
    } cases[] = {
        {"{}", DECK_GELU_ERF},
        {"{\"hidden_act\": \"gelu\"}", DECK_GELU_ERF},
        {"{\"hidden_act\": \"gelu_pytorch_tanh\"}", DECK_GELU_ERF},
        {"{\"hidden_act\": \"gelu_new\"}", DECK_GELU_ERF},
        {"{\"hidden_act\": [\"relu\"]}", DECK_GELU_ERF},
        {"{\"hidden_act\": \"gelu\", \"cistron_gelu\": \"tanh\"}", DECK_GELU_TANH},
        {"{\"hidden_act\": \"gelu_new\", \"cistron_gelu\": \"erf\"}", DECK_GELU_ERF},
    };
    char *path = memory_format("%s/gelu", work), *file = memory_format("%s/config.json", path);
    char *h5 = memory_format("%s/gelu.h5", work);
    struct deck deck;
    mkdir(path, 0777);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *config, *change = json_loads(cases[i].change, 0, NULL);
        CHECK(json_file_read(&config, in_folder(golden("esm2_tiny"), "config.json")) == ERROR_NONE);
        json_object_update(config, change);
        CHECK(json_file_write(config, file) == ERROR_NONE);
        deck_defaults(&deck);
        CHECK(config_read(&deck, path, DIALECT_HF) == ERROR_NONE && deck.model.gelu == (int)cases[i].gelu);
        json_decref(change);
    }
    unlink(file);
    CHECK(import_folder(golden("te_esm2"), h5, NULL) == ERROR_NONE);
    CHECK(export_file(h5, path, false, EXPORT_SHARD_BYTES, false) == ERROR_NONE);
    deck_defaults(&deck);
    CHECK(config_read(&deck, path, DIALECT_HF) == ERROR_NONE && deck.model.gelu == DECK_GELU_TANH);
    free(path);
    free(file);
    free(h5);
}

/* What a deck can say and a config.json not. */
static void test_check(void)
{
    struct model_settings s = {.family = &family_esm2,
                               .layers = 1,
                               .hidden = 32,
                               .ffn = 64,
                               .heads = 4,
                               .kv_heads = 4,
                               .head_dim = 8,
                               .vocabulary = 33,
                               .tied = true,
                               .rope = {.theta = 10000}};
    CHECK(config_check(&s, DIALECT_HF) == ERROR_NONE);
    struct model_settings t = s;
    const struct {
        int64_t *field;
        int64_t value;
        const char *says;
    } sizes[] = {{&t.kv_heads, 2, "model.kv_heads = 2"},
                 {&t.head_dim, 16, "model.head_dim = 16"},
                 {&t.heads, 5, "model.heads = 5"}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        t = s;
        *sizes[i].field = sizes[i].value;
        error_clear();
        CHECK(config_check(&t, DIALECT_HF) == ERROR_USER && strstr(error_message(), sizes[i].says) != NULL);
    }
    t = s;
    t.objective = DECK_OBJECTIVE_CAUSAL;
    error_clear();
    CHECK(config_check(&t, DIALECT_HF) == ERROR_NONE);
    CHECK(config_check(&t, DIALECT_TE) == ERROR_USER &&
          strstr(error_message(), "key model.objective = \"causal\": not supported by NVEsmForMaskedLM") != NULL);
    t = s;
    t.rope.factor = 8;
    error_clear();
    CHECK(config_check(&t, DIALECT_HF) == ERROR_USER && strstr(error_message(), "rope_scaling.factor = 8") != NULL);
    s.family = &family_amplify;
    s.vocabulary = 27;
    error_clear();
    CHECK(config_check(&s, DIALECT_HF) == ERROR_USER && strstr(error_message(), "model.tied") != NULL);
    s.tied = false;
    CHECK(config_check(&s, DIALECT_HF) == ERROR_NONE);
    s.ffn = 60;
    error_clear();
    CHECK(config_check(&s, DIALECT_HF) == ERROR_USER && strstr(error_message(), "model.ffn = 60") != NULL);
    struct family without_te = family_amplify;
    without_te.architecture[DIALECT_TE] = NULL;
    s.family = &without_te;
    error_clear();
    CHECK(config_check(&s, DIALECT_TE) == ERROR_USER && strstr(error_message(), "BioNeMo has no class") != NULL);
    s.family = &family_llama;
    s.attention_bias = true;
    error_clear();
    CHECK(config_check(&s, DIALECT_HF) == ERROR_NONE && config_check(&s, DIALECT_TE) == ERROR_USER);
    CHECK(strstr(error_message(), "model.attention_bias = true: not supported by NVLlamaForCausalLM") != NULL);
    error_clear();
    s.attention_bias = false;
    s.sliding_window = 9;
    CHECK(config_check(&s, DIALECT_HF) == ERROR_USER);
    CHECK(strstr(error_message(), "model.sliding_window = 9: not supported by LlamaForCausalLM") != NULL);
    error_clear();
    s.family = &family_mistral;
    CHECK(config_check(&s, DIALECT_HF) == ERROR_NONE);
    s.layers = 2;
    s.max_window_layers = 1;
    CHECK(config_check(&s, DIALECT_HF) == ERROR_USER && strstr(error_message(), "model.max_window_layers = 1") != NULL);
    s.family = &family_qwen2;
    error_clear();
    CHECK(config_check(&s, DIALECT_HF) == ERROR_NONE);
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

/* -- Tokenizers and folders ---------------------------------------------------------------------------------------- */

/* Is a text of this tokenizer.json BOS, itself and, or not, EOS, and as it is, or in capitals? */
static bool reads_text(const char *folder, bool with_eos, bool capitals)
{
    json_t *root;
    CHECK(json_file_read(&root, in_folder(folder, "tokenizer.json")) == ERROR_NONE);
    const json_t *single = json_object_get(json_object_get(root, "post_processor"), "single");
    bool good = json_array_size(single) == (with_eos ? 3 : 2) &&
                json_object_get(json_array_get(single, 1), "Sequence") != NULL &&
                json_is_object(json_object_get(root, "normalizer")) == capitals;
    json_decref(root);
    return good;
}

static void test_tokenizers(void)
{
    char *file = memory_format("%s/named.h5", work), *out = memory_format("%s/named", work);
    char *other = memory_format("%s/other.h5", work), *other_out = memory_format("%s/other", work);
    const struct tokenizer *nucleotide = tokenizer_find("nucleotide");
    CHECK(import_folder(golden("llama_tiny"), file, "nucleotide") == ERROR_NONE);
    CHECK(export_file(file, out, false, EXPORT_SHARD_BYTES, false) == ERROR_NONE);
    CHECK(tokenizer_files_match(nucleotide, out) && !tokenizer_files_match(tokenizer_find("amplify"), out));
    CHECK(!tokenizer_files_match(nucleotide, golden("llama_tiny")));
    CHECK(reads_text(out, false, true)); /* a causal model goes on with it */
    CHECK(import_folder(golden("amplify_tiny"), other, NULL) == ERROR_NONE);
    CHECK(export_file(other, other_out, false, EXPORT_SHARD_BYTES, false) == ERROR_NONE);
    CHECK(reads_text(other_out, true, false));
    CHECK(is_there(in_folder(out, "generation_config.json")));
    CHECK(import_folder(golden("llama_tiny"), file, "klingon") == ERROR_USER);
    CHECK(strstr(error_message(), "--tokenizer klingon: unknown; this program has nucleotide") != NULL);
    CHECK(import_folder(golden("esm2_tiny"), file, "amplify") == ERROR_USER);
    CHECK(strstr(error_message(), "esm2_tiny are those of esm2") != NULL);
    CHECK(import_folder(out, file, "esm2") == ERROR_USER);
    CHECK(strstr(error_message(), "--tokenizer esm2: the ids of ") != NULL);
    CHECK(strstr(error_message(), " are those of nucleotide") != NULL);
    /* a Llama of proteins, whose folder says so */
    CHECK(import_folder(golden("llama_tiny"), other, "esm2") == ERROR_NONE);
    CHECK(export_file(other, other_out, false, EXPORT_SHARD_BYTES, true) == ERROR_NONE);
    CHECK(tokenizer_files_match(tokenizer_find("esm2"), other_out) && reads_text(other_out, false, false));
    free(other);
    free(other_out);
    free(file);
    free(out);
}

/* Puts these eos_token_id (JSON; NULL: leaves the file out) into the two files of a copy of llama_tiny. */
static char *llama_with_ends(const char *config_ends, const char *generation_ends)
{
    char *folder = memory_format("%s/ends", work);
    char *command = memory_format("rm -rf '%s'; cp -r '%s' '%s'; rm '%s/generation_config.json'", folder,
                                  golden("llama_tiny"), folder, folder);
    json_t *config;
    CHECK(system(command) == 0);
    CHECK(json_file_read(&config, in_folder(golden("llama_tiny"), "config.json")) == ERROR_NONE);
    json_object_set_new(config, "eos_token_id", json_loads(config_ends, JSON_DECODE_ANY, NULL));
    char *path = memory_format("%s/config.json", folder),
         *generation = memory_format("%s/generation_config.json", folder);
    CHECK(json_file_write(config, path) == ERROR_NONE);
    if (generation_ends != NULL) {
        char *text = memory_format("{\"eos_token_id\": %s}", generation_ends);
        write_file(generation, text, (int64_t)strlen(text));
        free(text);
    }
    free(command);
    free(path);
    free(generation);
    return folder;
}

static bool ends_are(const char *folder, const char *name, const char *wanted)
{
    json_t *root, *value = json_loads(wanted, JSON_DECODE_ANY, NULL);
    CHECK(json_file_read(&root, in_folder(folder, name)) == ERROR_NONE);
    const bool good = json_equal(json_object_get(root, "eos_token_id"), value);
    json_decref(root);
    json_decref(value);
    return good;
}

/* Every end token of a model comes back, in the file that had it. */
static void test_ends(void)
{
    static const struct {
        const char *config, *generation, *tokenizer; /* in */
        const char *config_out, *generation_out;     /* NULL: no file */
    } cases[] = {
        {"null", NULL, NULL, "null", NULL},
        {"null", NULL, "nucleotide", "0", "0"},
        {"0", "0", "nucleotide", "0", "0"},
        {"7", NULL, "nucleotide", "7", "7"},
        {"[0, 9, 255]", "[9, 0]", "nucleotide", "[0, 9, 255]", "[9, 0]"},
        {"0", "[9, 0]", "nucleotide", "0", "[9, 0]"},
        {"[0, 9]", "0", "nucleotide", "[0, 9]", "0"},
        {"[0, 9]", "null", "nucleotide", "[0, 9]", "[0, 9]"},
        {"[0, 9]", NULL, NULL, "[0, 9]", NULL},
        {"[0, 9]", "9", NULL, "[0, 9]", "9"},
        {"[0, 256, -1, 9]", "[4000000000, 9, 8]", "nucleotide", "[0, 9]", "[9, 8]"},
    };
    static const struct {
        const char *config, *generation, *says;
    } faults[] = {
        {"\"</s>\"", NULL, "config.json: eos_token_id: \"</s>\" is not supported; must be an id"},
        {"[0, 1.5]", NULL, "config.json: eos_token_id[1]: 1.5 is not supported"},
        {"[[0]]", NULL, "config.json: eos_token_id[0]: must be an id"},
        {"0", "{}", "generation_config.json: eos_token_id: must be an id"},
        {"0", "0, \"x", "generation_config.json:1: is not JSON"},
        {"0",
         "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
         "1,1,1,1,1,1,1,1,1,1,1,1]",
         "generation_config.json: eos_token_id: has more than 64 ids"},
    };
    char *file = memory_format("%s/ends.h5", work), *out = memory_format("%s/ends.out", work);
    char *clear = memory_format("rm -rf '%s'", out);
    for (int dialect = DIALECT_HF; dialect <= DIALECT_TE; dialect++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            char *folder = llama_with_ends(cases[i].config, cases[i].generation);
            CHECK(import_folder(folder, file, cases[i].tokenizer) == ERROR_NONE && system(clear) == 0);
            CHECK(export_run(&(struct export_settings){.checkpoint = file,
                                                       .folder = out,
                                                       .shard_bytes = EXPORT_SHARD_BYTES,
                                                       .dialect = (enum checkpoint_dialect)dialect}) == ERROR_NONE);
            CHECK(ends_are(out, "config.json", cases[i].config_out));
            CHECK(is_there(in_folder(out, "generation_config.json")) == (cases[i].generation_out != NULL));
            CHECK(cases[i].generation_out == NULL || ends_are(out, "generation_config.json", cases[i].generation_out));
            free(folder);
        }
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        char *folder = llama_with_ends(faults[i].config, faults[i].generation);
        CHECK(import_folder(folder, file, "nucleotide") == ERROR_USER);
        if (!CHECK(strstr(error_message(), faults[i].says) != NULL))
            fprintf(stderr, "    says \"%s\"\n", error_message());
        error_clear();
        free(folder);
    }
    free(file);
    free(out);
    free(clear);
}

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

/* -- Memory -------------------------------------------------------------------------------------------------------- */

/* A Llama whose embedding is far larger than what a process may take. */
enum { LARGE_ROWS = 1 << 20, LARGE_COLS = 32, LARGE_BYTES = LARGE_ROWS * LARGE_COLS * 4, MOST_RESIDENT = 64 << 20 };

static void write_large(const char *path)
{
    struct folder *f = load_folder(golden("llama_tiny"));
    drop(f, find(f, "lm_head.weight"));
    int64_t i = find(f, "model.embed_tokens.weight");
    f->entries[i].shape[0] = LARGE_ROWS;
    f->entries[i].dtype = SAFETENSORS_F32;
    f->entries[i].bytes = LARGE_BYTES;
    f->data[i] = memory_grow(f->data[i], LARGE_BYTES);
    for (int64_t k = 0; k < LARGE_BYTES / 4; k++)
        ((float *)f->data[i])[k] = (float)k;
    json_object_set_new(f->config, "vocab_size", json_integer(LARGE_ROWS));
    json_object_set_new(f->config, "tie_word_embeddings", json_true());
    save_folder(f, path);
    forget_folder(f);
}

/* In a process of its own: its peak resident memory in bytes. */
static int64_t peak_of(int (*body)(void), int *code)
{
    int status;
    struct rusage usage;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(body());
    wait4(child, &status, 0, &usage);
    *code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return (int64_t)usage.ru_maxrss << 10;
}

static int import_large(void)
{
    return import_folder(in_folder(work, "large"), in_folder(work, "large.h5"), NULL);
}

static int export_large(void)
{
    return export_file(in_folder(work, "large.h5"), in_folder(work, "large.out"), false, EXPORT_SHARD_BYTES, false);
}

static int export_large_rounded(void)
{
    return export_file(in_folder(work, "large.h5"), in_folder(work, "large.bf16"), true, EXPORT_SHARD_BYTES, false);
}

static int make_large(void)
{
    char *path = memory_format("%s/large", work);
    write_large(path);
    free(path);
    return ERROR_NONE;
}

/* The embedding is 0, 1, 2, ... wherever a piece may begin or end. */
static void check_large(const char *folder, enum safetensors_dtype dtype)
{
    enum { SEEN = 1 << 10, STRIDE = 1 << 19 };
    struct safetensors *st = open_good(in_folder(work, folder));
    const struct safetensors_entry *entry = safetensors_find(st, "model.embed_tokens.weight");
    const int64_t width = safetensors_dtype_size(dtype);
    float rounded[SEEN];
    uint8_t raw[SEEN * sizeof(float)], wanted[SEEN * sizeof(float)];
    CHECK(entry->dtype == dtype);
    for (int64_t first = 0; first < LARGE_BYTES / 4; first += STRIDE) {
        CHECK(safetensors_read(st, entry, first * width, SEEN * width, raw) == ERROR_NONE);
        for (int i = 0; i < SEEN; i++)
            rounded[i] = (float)(first + i);
        safetensors_from_float(dtype, rounded, SEEN, wanted);
        CHECK(memcmp(raw, wanted, (size_t)(SEEN * width)) == 0);
    }
    safetensors_close(st);
}

static void test_memory(void)
{
    int code;
    CHECK(peak_of(make_large, &code) > LARGE_BYTES && code == ERROR_NONE); /* the measure measures */
    int64_t import = peak_of(import_large, &code);
    CHECK(code == ERROR_NONE);
    int64_t export = peak_of(export_large, &code);
    CHECK(code == ERROR_NONE);
    printf("largest tensor %d MiB: import took %lld MiB, export %lld MiB\n", LARGE_BYTES >> 20,
           (long long)(import >> 20), (long long)(export >> 20));
    CHECK(import < MOST_RESIDENT && export < MOST_RESIDENT);
    check_large("large.out", SAFETENSORS_F32);
    CHECK(peak_of(export_large_rounded, &code) < MOST_RESIDENT && code == ERROR_NONE);
    check_large("large.bf16", SAFETENSORS_BF16);
}

int main(void)
{
    stores_begin();
    work = stores_folder;
    test_memory(); /* first: a child's peak counts what it has of its parent */
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
    test_old_spelling();
    test_rounding();
    test_configs();
    test_gelu();
    test_check();
    test_tensors();
    test_tokenizers();
    test_ends();
    test_places();
    stores_end();
    return check_end();
}
