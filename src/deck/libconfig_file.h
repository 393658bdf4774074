/* Files in libconfig's language that are no decks. */
#ifndef DECK_LIBCONFIG_FILE_H
#define DECK_LIBCONFIG_FILE_H

#include <libconfig.h>

/* Parses a file of 1 MiB at most, without @include of others. what: said of a file that cannot be parsed, "no file of
 * rates". Local. ERROR_USER, naming file and line; else the caller destroys the config. */
int libconfig_file_read(config_t *config, const char *path, const char *what);

#endif
