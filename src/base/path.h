/* Paths as users write them. */
#ifndef BASE_PATH_H
#define BASE_PATH_H

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

/* A file's name without its folders and its ending (from the last dot on); freed with free(). */
char *path_stem(const char *path);

#endif
