#include "estimate/rates_file.h"
#include "base/error.h"
#include "deck/libconfig_file.h"

#include <math.h>
#include <string.h>

enum { FORM = 1 };

static const char *const gemm_types[] = {"f32", "bf16", "fp8", "f32_gradient", "bf16_gradient", "fp8_gradient", NULL};
static const char *const masks[] = {"full", "causal", NULL};

/* The names of each kind in a file. */
static const struct form {
    const char *name;
    const char *sizes[RATE_SIZES];
    const char *const *types; /* NULL: the kind has no types */
    double unit;              /* unit of the rates */
} forms[RATE_KINDS] = {
    [RATE_GEMM] = {"product", {"m", "n", "k"}, gemm_types, 1e12},
    [RATE_ATTENTION_FORWARD] = {"attention_forward", {"head_dim", "tokens"}, masks, 1e12},
    [RATE_ATTENTION_BACKWARD] = {"attention_backward", {"head_dim", "tokens"}, masks, 1e12},
    [RATE_MEMORY] = {"memory", {"bytes"}, NULL, 1e9},
    [RATE_HOST] = {"host", {"bytes"}, NULL, 1e9},
    [RATE_ALL_REDUCE] = {"all_reduce", {"ranks", "bytes"}, NULL, 1e9},
    [RATE_REDUCE_SCATTER] = {"reduce_scatter", {"ranks", "bytes"}, NULL, 1e9},
    [RATE_ALL_GATHER] = {"all_gather", {"ranks", "bytes"}, NULL, 1e9},
    [RATE_ALL_TO_ALL] = {"all_to_all", {"ranks", "bytes"}, NULL, 1e9},
    [RATE_SHIFT] = {"shift", {"ranks", "bytes"}, NULL, 1e9},
};

/* -- Reading ------------------------------------------------------------------------------------------------------ */

static bool read_positive(double *value, const config_setting_t *from, const char *name)
{
    const config_setting_t *setting = config_setting_get_member(from, name);
    if (setting == NULL || !config_setting_is_number(setting))
        return false;
    *value = config_setting_type(setting) == CONFIG_TYPE_FLOAT ? config_setting_get_float(setting)
                                                               : (double)config_setting_get_int64(setting);
    return isfinite(*value) && *value > 0;
}

static bool read_type(int *type, const config_setting_t *from, const char *const *names)
{
    const char *text;
    if (names == NULL)
        return true;
    if (!config_setting_lookup_string(from, "type", &text))
        return false;
    for (*type = 0; names[*type] != NULL; ++*type)
        if (strcmp(text, names[*type]) == 0)
            return true;
    return false;
}

static bool read_rate(struct machine_rate *rate, const config_setting_t *from, enum rate_kind kind)
{
    const struct form *form = &forms[kind];
    *rate = (struct machine_rate){.kind = kind};
    bool good = config_setting_is_group(from) && read_type(&rate->type, from, form->types);
    for (int i = 0; i < rate_sizes(kind); i++)
        good = good && read_positive(&rate->size[i], from, form->sizes[i]);
    good = good && read_positive(&rate->per_second, from, "rate");
    rate->per_second *= form->unit;
    return good;
}

static int read_list(struct machine_rates *rates, const config_setting_t *list, enum rate_kind kind, const char *path)
{
    if (!config_setting_is_list(list))
        return error_user("%s:%d: %s: must be a list of groups", path, (int)config_setting_source_line(list),
                          forms[kind].name);
    for (int i = 0; i < config_setting_length(list); i++) {
        const config_setting_t *from = config_setting_get_elem(list, (unsigned)i);
        struct machine_rate rate;
        if (!read_rate(&rate, from, kind))
            return error_user("%s:%d: %s number %d: sizes and rate must be numbers above 0, and the type must be known",
                              path, (int)config_setting_source_line(from), forms[kind].name, i + 1);
        if (!rates_add(rates, &rate))
            return error_user("%s: has more than %d rates", path, RATES_MOST);
    }
    return ERROR_NONE;
}

static int read_root(struct machine_rates *rates, const config_setting_t *root, const char *path)
{
    int form = 0;
    const char *device = "";
    if (!config_setting_lookup_int(root, "cistron_rates", &form))
        return error_user("%s: is not a machine profile; cistron measure writes one", path);
    if (form != FORM)
        return error_user("%s: has format %d, but this program reads format %d; run cistron measure again", path, form,
                          FORM);
    config_setting_lookup_string(root, "device", &device);
    snprintf(rates->device, sizeof rates->device, "%s", device);
    double between;
    if (config_setting_get_member(root, "between_nodes") != NULL) {
        if (!read_positive(&between, root, "between_nodes"))
            return error_user("%s: between_nodes: must be a number above 0, in GB/s", path);
        rates->between_nodes = between * 1e9;
    }
    int code = ERROR_NONE;
    for (int kind = 0; kind < RATE_KINDS && code == ERROR_NONE; kind++) {
        const config_setting_t *list = config_setting_get_member(root, forms[kind].name);
        if (list != NULL)
            code = read_list(rates, list, (enum rate_kind)kind, path);
    }
    return code == ERROR_NONE && rates->count == 0 ? error_user("%s: has no rates", path) : code;
}

int rates_file_read(struct machine_rates *rates, const char *path)
{
    config_t config;
    int code = libconfig_file_read(&config, path, "not a machine profile; cistron measure writes one");
    if (code != ERROR_NONE)
        return code;
    code = read_root(rates, config_root_setting(&config), path);
    config_destroy(&config);
    return code;
}

int rates_choose(struct machine_rates *rates, const char *path, double peak)
{
    rates_default(rates, peak);
    return path[0] != '\0' ? rates_file_read(rates, path) : ERROR_NONE;
}

/* -- Writing ------------------------------------------------------------------------------------------------------ */

static void write_rate(FILE *file, const struct machine_rate *rate)
{
    const struct form *form = &forms[rate->kind];
    fputs("    { ", file);
    if (form->types != NULL)
        fprintf(file, "type = \"%s\"; ", form->types[rate->type]);
    for (int i = 0; i < rate_sizes(rate->kind); i++)
        fprintf(file, "%s = %.1f; ", form->sizes[i], rate->size[i]);
    fprintf(file, "rate = %.6e; }", rate->per_second / form->unit);
}

void rates_file_write(const struct machine_rates *rates, FILE *file)
{
    fprintf(file, "# Machine profile, by cistron measure: TFLOP/s of GEMMs and attention, else GB/s.\n");
    fprintf(file,
            "cistron_rates = %d;\ndevice = \"%s\";\nbetween_nodes = %.3f; # GB/s; measured on several nodes, else "
            "assumed\n",
            FORM, rates->device, rates->between_nodes / 1e9);
    for (int kind = 0; kind < RATE_KINDS; kind++) {
        const char *before = NULL;
        for (int i = 0; i < rates->count; i++) {
            if (rates->measured[i].kind != (enum rate_kind)kind)
                continue;
            if (before == NULL)
                fprintf(file, "%s = (\n", forms[kind].name);
            else
                fputs(before, file);
            write_rate(file, &rates->measured[i]);
            before = ",\n";
        }
        if (before != NULL)
            fputs("\n);\n", file);
    }
}
