/* A config.json of Hugging Face (bridge/config.h) is read in either spelling, and each option that the program does not
 * support is named; so is each setting of a deck that a config.json cannot say. */
#include "bridge/config.h"
#include "deck/fields.h"
#include "folders.h"
#include "stores.h"

static const char *work; /* the scratch folder */

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

int main(void)
{
    stores_begin();
    work = stores_folder;
    test_old_spelling();
    test_configs();
    test_gelu();
    test_check();
    stores_end();
    return check_end();
}
