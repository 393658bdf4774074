/* Finds deck files. */
#ifndef DECK_LOCATE_H
#define DECK_LOCATE_H

/* Returns the path of the deck or @include `name`, freed with free(). Candidates, in order: `name` relative to the
 * folder of the file `base` ("" for the current folder); for a name without "/", also with .cfg added, then `name` and
 * `name`.cfg among the decks that come with the program. Returns the first candidate that is a file; if none is, the
 * first candidate. */
char *deck_locate(const char *base, const char *name);

/* Returns the folder of the decks that come with the program, freed with free(). */
char *deck_folder(void);

#endif
