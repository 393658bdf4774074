/* Paths as users write them, and messages about them. */
#ifndef FILE_PATH_H
#define FILE_PATH_H

#include <stddef.h>

/* Returns a copy of a path, freed with free(), in which a leading "~", alone or before "/", is the user's home folder
 * ($HOME, or else that of the password database). Shells expand "~" only at the beginning of a word: not in key=~/run,
 * nor in --output=~/x.h5. */
char *path_home(const char *path);

/* Lists of paths are separated by commas; a comma within a path is preceded by a backslash. path_list_comma returns the
 * comma after the first path of a list, NULL if there is only one path. path_list_item returns the path in text[length]
 * without these backslashes; path_list_quote is its inverse. Both are freed with free(). */
const char *path_list_comma(const char *list);
char *path_list_item(const char *text, size_t length);
char *path_list_quote(const char *path);

/* As path_home, and replaces $NAME and ${NAME} by the value of the environment variable; $$ becomes $. A $ before
 * anything else stays, and so does a variable that is not set: *unset is the name of the first one (freed with free()),
 * NULL if all are set; unset may be NULL. */
char *path_expand(const char *path, char **unset);
/* Returns a copy of a path, escaped so that path_expand returns the path; freed with free(). */
char *path_literal(const char *path);

/* Returns why a path cannot be opened, for a message: strerror's text of `error`, and for a missing relative path also
 * the current folder. Valid until this thread's next call. */
const char *path_failure(const char *path, int error);
/* Returns " (seen from FOLDER)" for a relative path, "" for an absolute one. Valid until this thread's next call. */
const char *path_seen_from(const char *path);

/* Returns a file's name without its folders and its ending (the last dot and what follows it); freed with free(). */
char *path_stem(const char *path);

#endif
