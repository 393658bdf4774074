#include "bridge/config_source.h"
#include "base/error.h"
#include "base/memory.h"

#include <stdlib.h>

const json_t *config_value(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

int config_refuse(const struct config_source *s, const char *section, const char *key, const json_t *value,
                  const char *what)
{
    enum { SHOWN_BYTES = 200 };
    char *text = value == NULL ? memory_string("null") : json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    int code = error_user("%s: key %s%s = %.*s: %s", s->path, section, key, SHOWN_BYTES, text, what);
    free(text);
    return code;
}

int config_not_supported(const struct config_source *s, const char *section, const char *key, const json_t *value,
                         const char *allowed)
{
    char *what = memory_format("is not supported; allowed: %s", allowed);
    int code = config_refuse(s, section, key, value, what);
    free(what);
    return code;
}

int config_read_bool(const struct config_source *s, const char *key, bool missing, bool *out)
{
    const json_t *value = config_value(s->root, key);
    if (value != NULL && !json_is_boolean(value))
        return config_refuse(s, "", key, value, "must be true or false");
    *out = value == NULL ? missing : json_is_true(value);
    return ERROR_NONE;
}

int config_read_real(const struct config_source *s, const char *section, const char *key, const json_t *value,
                     double *out)
{
    double number = json_number_value(value);
    if (!json_is_number(value) || !(number > 0))
        return config_refuse(s, section, key, value, "must be a positive number");
    *out = number;
    return ERROR_NONE;
}

int config_read_size(const struct config_source *s, const char *section, const char *key, const json_t *value,
                     int64_t *out)
{
    if (!json_is_integer(value) || json_integer_value(value) <= 0)
        return config_refuse(s, section, key, value, "must be a positive whole number");
    if (json_integer_value(value) > INT32_MAX) /* so that sums and products of a few sizes do not overflow */
        return config_refuse(s, section, key, value, "must be below 2^31");
    *out = json_integer_value(value);
    return ERROR_NONE;
}
