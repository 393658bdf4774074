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

int peft_write_config(const struct model_settings *s, const char *folder)
{
    const double alpha = s->lora.alpha;
    const bool whole = alpha == floor(alpha) && alpha < 1e15;
    json_t *targets = json_array();
    for (int t = 0; t < LORA_TARGETS; t++)
        if (s->lora.targets[t])
            json_array_append_new(targets, json_string(lora_module(s->family, (enum lora_target)t)));
    json_t *out =
        json_pack("{ss so sI so so sf ss sb sb sb}", "peft_type", "LORA", "task_type",
                  model_causal(s) ? json_string("CAUSAL_LM") : json_null(), "r", (json_int_t)s->lora.rank, "lora_alpha",
                  whole ? json_integer((json_int_t)alpha) : json_real(alpha), "target_modules", targets, "lora_dropout",
                  0.0, "bias", "none", "fan_in_fan_out", 0, "inference_mode", 1, "init_lora_weights", 1);
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

static int read_keys(struct lora_settings *lora, const json_t *config, const char *path)
{
    static const char *const off[] = {"bias",
                                      "use_dora",
                                      "fan_in_fan_out",
                                      "modules_to_save",
                                      "rank_pattern",
                                      "alpha_pattern",
                                      "lora_bias",
                                      "layer_replication",
                                      "target_parameters",
                                      "use_qalora",
                                      "use_bdlora",
                                      "alora_invocation_tokens",
                                      "trainable_token_indices"};
    const json_t *type = json_object_get(config, "peft_type"), *rank = json_object_get(config, "r");
    const json_t *alpha = json_object_get(config, "lora_alpha");
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
    *lora = (struct lora_settings){.rank = json_integer_value(rank), .alpha = json_number_value(alpha)};
    if (!is_off(json_object_get(config, "use_rslora"))) /* the factor is alpha / sqrt(r) */
        lora->alpha *= sqrt((double)lora->rank);
    return ERROR_NONE;
}

int peft_read_config(struct lora_settings *lora, const char *folder)
{
    char *path = config_path(folder);
    json_t *config;
    int code = json_file_read(&config, path);
    if (code == ERROR_NONE)
        code = read_keys(lora, config, path);
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
