/* Paths as users write them. */
#ifndef FILE_PATH_H
#define FILE_PATH_H

#include <stddef.h>

/* A copy of a path, freed with free(), in which a first "~" that stands alone or before "/" is the user's home folder
 * ($HOME, or the one that the system knows). Shells do so only where it begins a word: not in key=~/run, nor in
 * --output=~/x.h5. */
char *path_home(const char *path);

/* A list of paths has commas between them; a comma in a path stands behind a backslash. path_list_comma returns the
 * comma behind the first path of a list, NULL where it is the last; path_list_item the path in text[length], without
 * backslashes before commas, path_list_quote the reverse, both freed with free(). */
const char *path_list_comma(const char *list);
char *path_list_item(const char *text, size_t length);
char *path_list_quote(const char *path);

/* As path_home, and $NAME and ${NAME} become what the environment has for NAME; $$ is one $. A $ before anything else
 * stays, and so does a variable that is not set: *unset is the name of the first one (freed with free()), NULL where
 * all are set; unset may be NULL. */
char *path_expand(const char *path, char **unset);
/* A copy of a path of which path_expand makes the path again. Freed with free(). */
char *path_literal(const char *path);

/* Why a path cannot be opened, for a message: strerror's words of `error`, and where a relative path leads to nothing
 * the folder that it was looked for from. Until this thread's next call. */
const char *path_failure(const char *path, int error);
/* " (seen from FOLDER)" for a relative path, "" for another. Until this thread's next call. */
const char *path_seen_from(const char *path);

/* A file's name without its folders and its ending (from the last dot on); freed with free(). */
char *path_stem(const char *path);

#endif
