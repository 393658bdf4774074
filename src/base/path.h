/* Paths as users write them. */
#ifndef BASE_PATH_H
#define BASE_PATH_H

/* A copy of a path, freed with free(), in which a first "~" that stands alone or before "/" is the user's home folder
 * ($HOME, or the one that the system knows). Shells do so only where it begins a word: not in key=~/run, nor in
 * --output=~/x.h5. */
char *path_home(const char *path);

/* A file's name without its folders and its ending (from the last dot on); freed with free(). */
char *path_stem(const char *path);

#endif
