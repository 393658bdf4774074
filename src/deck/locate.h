/* Inside src/deck: where a deck lies. */
#ifndef DECK_LOCATE_H
#define DECK_LOCATE_H

/* The path of the deck or include `name`, freed with free(). It is looked for from the folder of the file `base`, ""
 * for the current one; a name without "/" also with .cfg behind it, then among the decks that come with the program.
 * The first of these that is a file; where none is, the first. */
char *deck_locate(const char *base, const char *name);

/* The folder of the decks that come with the program: the installed one or, for a program in the folder where it was
 * built, that of its sources. */
const char *deck_folder(void);

#endif
