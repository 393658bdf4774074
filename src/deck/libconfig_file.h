/* Files in libconfig's syntax that are not decks. */
#ifndef DECK_LIBCONFIG_FILE_H
#define DECK_LIBCONFIG_FILE_H

#include <libconfig.h>

/* Parses a file of at most 1 MiB, without @include. On success the caller destroys the config. what: describes a file
 * that cannot be parsed, as in "not a file of rates". Local. ERROR_USER, with file and line in the message. */
int libconfig_file_read(config_t *config, const char *path, const char *what);

#endif
