/* A config.json that is being read: values of its keys, and messages about them. */
#ifndef BRIDGE_CONFIG_SOURCE_H
#define BRIDGE_CONFIG_SOURCE_H

#include "bridge/config.h"
#include "bridge/json_file.h"

struct config_source {
    const char *path;
    enum checkpoint_dialect dialect;
    const json_t *root;
    const struct family *family;
    enum deck_head head;
};

/* Returns a key's value; NULL if it is absent or null, which mean the same. */
const json_t *config_value(const json_t *object, const char *key);

/* Return ERROR_USER with a message that names the key and its value. section: prefix of the key, such as
 * "rope_scaling.", or "". */
int config_refuse(const struct config_source *s, const char *section, const char *key, const json_t *value,
                  const char *what);
int config_not_supported(const struct config_source *s, const char *section, const char *key, const json_t *value,
                         const char *allowed);

/* Read a boolean (`missing` if it is absent or null), a positive number, or a positive whole number below 2^31.
 * ERROR_USER. */
int config_read_bool(const struct config_source *s, const char *key, bool missing, bool *out);
int config_read_real(const struct config_source *s, const char *section, const char *key, const json_t *value,
                     double *out);
int config_read_size(const struct config_source *s, const char *section, const char *key, const json_t *value,
                     int64_t *out);

/* Read the family and the head that the classes name, and the head's labels. ERROR_USER. */
int config_read_family(struct config_source *s);
int config_read_head(const struct config_source *s, struct deck *deck);

/* Reads the rotary settings of the row's key and of rope_scaling or rope_parameters. ERROR_USER. */
int config_read_rope(const struct config_source *s, const struct config_key *row, struct deck *deck);

#endif
