#include "bridge/peft.h"
#include "base/error.h"
#include "base/memory.h"
#include "bridge/json_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *config_path(const char *folder)
{
    return memory_format("%s/adapter_config.json", folder);
}

bool peft_is_adapter(const char *folder)
{
    char *path = config_path(folder);
    const bool is = access(path, F_OK) == 0;
    free(path);
    return is;
}

/* Returns the name of the module that peft saves whole for a parameter of the head, freed with free(): the final norm,
 * or a child of the model. */
static char *saved_module(const struct model *model, const struct parameter *parameter)
{
    const char *norm = model->settings.family->names.final_norm;
    const size_t length =
        strncmp(parameter->name, norm, strlen(norm)) == 0 ? strlen(norm) : strcspn(parameter->name, ".");
    return memory_format("%.*s", (int)length, parameter->name);
}

/* Returns the modules of the head, if it is trained; else null. */
static json_t *saved_modules(const struct model *model)
{
    const struct unit *head = model_head(model);
    if (!model_trains_head(&model->settings))
        return json_null();
    json_t *modules = json_array();
    for (int i = 0; i < head->parameter_count; i++) {
        char *name = saved_module(model, &head->parameters[i]);
        bool known = false;
        for (size_t m = 0; m < json_array_size(modules); m++)
            known |= strcmp(json_string_value(json_array_get(modules, m)), name) == 0;
        if (!known)
            json_array_append_new(modules, json_string(name));
        free(name);
    }
    return modules;
}

static json_t *task_type(const struct model_settings *s)
{
    static const char *const types[DECK_HEADS] = {[DECK_HEAD_SEQUENCE] = "SEQ_CLS", [DECK_HEAD_TOKEN] = "TOKEN_CLS"};
    if (s->task.head == DECK_HEAD_LM)
        return model_causal(s) ? json_string("CAUSAL_LM") : json_null();
    return json_string(types[s->task.head]);
}

int peft_write_config(const struct model *model, const char *folder)
{
    const struct model_settings *s = &model->settings;
    const double alpha = s->lora.alpha;
    const bool whole = alpha == floor(alpha) && alpha < 1e15;
    json_t *targets = json_array();
    for (int t = 0; t < LORA_TARGETS; t++)
        if (s->lora.targets[t])
            json_array_append_new(targets, json_string(lora_module(s->family, (enum lora_target)t)));
    json_t *out =
        json_pack("{ss so sI so so so sf ss sb sb sb}", "peft_type", "LORA", "task_type", task_type(s), "r",
                  (json_int_t)s->lora.rank, "lora_alpha", whole ? json_integer((json_int_t)alpha) : json_real(alpha),
                  "target_modules", targets, "modules_to_save", saved_modules(model), "lora_dropout", s->lora.dropout,
                  "bias", "none", "fan_in_fan_out", 0, "inference_mode", 1, "init_lora_weights", 1);
    json_object_set_new(out, "base_model_name_or_path", json_null());
    char *path = config_path(folder);
    int code = json_file_write(out, path);
    free(path);
    return code;
}

/* -- Reading ------------------------------------------------------------------------------------------------------ */

/* Returns whether a value means that its feature is off: absent, null, false, "none", or empty. */
static bool is_off(const json_t *value)
{
    if (value == NULL || json_is_null(value) || json_is_false(value))
        return true;
    if (json_is_string(value))
        return strcmp(json_string_value(value), "none") == 0;
    return (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_object(value) && json_object_size(value) == 0);
}

/* Returns whether the initial values left the base's weights as they were. */
static bool keeps_base(const json_t *value)
{
    static const char *const keep[] = {"gaussian", "orthogonal", "eva"};
    if (value == NULL || json_is_boolean(value))
        return true;
    for (size_t i = 0; i < sizeof keep / sizeof *keep && json_is_string(value); i++)
        if (strcmp(json_string_value(value), keep[i]) == 0)
            return true;
    return false;
}

/* Reads the head of task_type. Other types, or none, have a language-model head. */
static enum deck_head head_of(const json_t *type)
{
    const char *name = json_is_string(type) ? json_string_value(type) : "";
    return strcmp(name, "SEQ_CLS") == 0     ? DECK_HEAD_SEQUENCE
           : strcmp(name, "TOKEN_CLS") == 0 ? DECK_HEAD_TOKEN
                                            : DECK_HEAD_LM;
}

static int read_keys(struct peft_config *to, const json_t *config, const char *path)
{
    static const char *const off[] = {
        "bias",          "use_dora",   "fan_in_fan_out",          "rank_pattern",
        "alpha_pattern", "lora_bias",  "layer_replication",       "target_parameters",
        "use_qalora",    "use_bdlora", "alora_invocation_tokens", "trainable_token_indices"};
    const json_t *type = json_object_get(config, "peft_type"), *rank = json_object_get(config, "r");
    const json_t *alpha = json_object_get(config, "lora_alpha"), *dropout = json_object_get(config, "lora_dropout");
    if (!json_is_string(type) || strcmp(json_string_value(type), "LORA") != 0)
        return error_user("%s: key peft_type: must be \"LORA\"", path);
    for (size_t i = 0; i < sizeof off / sizeof *off; i++)
        if (!is_off(json_object_get(config, off[i])))
            return error_user("%s: key %s: is set, and this program has adapters without it only", path, off[i]);
    if (!keeps_base(json_object_get(config, "init_lora_weights")))
        return error_user("%s: key init_lora_weights: this way of initialising changes the base's weights; convert the "
                          "adapter to a plain one with peft (path_initial_model_for_weight_conversion)",
                          path);
    if (!json_is_integer(rank) || json_integer_value(rank) < 1 || json_integer_value(rank) > 65536)
        return error_user("%s: key r: must be an integer from 1 to 65536", path);
    if (!json_is_number(alpha) || !(json_number_value(alpha) >= 0))
        return error_user("%s: key lora_alpha: must be a number", path);
    if (dropout != NULL &&
        !(json_is_number(dropout) && json_number_value(dropout) >= 0 && json_number_value(dropout) < 1))
        return error_user("%s: key lora_dropout: must be a number of at least 0 and below 1", path);
    *to = (struct peft_config){.lora = {.rank = json_integer_value(rank),
                                        .alpha = json_number_value(alpha),
                                        .dropout = json_number_value(dropout)},
                               .head = head_of(json_object_get(config, "task_type")),
                               .saves_modules = !is_off(json_object_get(config, "modules_to_save"))};
    if (!is_off(json_object_get(config, "use_rslora"))) /* the factor is alpha / sqrt(r) */
        to->lora.alpha *= sqrt((double)to->lora.rank);
    return ERROR_NONE;
}

int peft_read_config(struct peft_config *to, const char *folder)
{
    char *path = config_path(folder);
    json_t *config;
    int code = json_file_read(&config, path);
    if (code == ERROR_NONE)
        code = read_keys(to, config, path);
    json_decref(config);
    free(path);
    return code;
}

char *peft_targets(const struct safetensors *st, const struct family *family)
{
    char layer[64], *list = NULL;
    snprintf(layer, sizeof layer, family->names.layer, 0);
    for (int t = 0; t < LORA_TARGETS; t++) {
        const char *module = lora_module(family, (enum lora_target)t);
        char *name = memory_format(PEFT_PREFIX "%s.%s.lora_A.weight", layer, module != NULL ? module : "");
        if (module != NULL && safetensors_find(st, name) != NULL) {
            char *longer = memory_format("%s%s%s", list != NULL ? list : "", list != NULL ? "," : "", module);
            free(list);
            list = longer;
        }
        free(name);
    }
    return list;
}
