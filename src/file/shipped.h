/* The location of the files that come with the program. */
#ifndef FILE_SHIPPED_H
#define FILE_SHIPPED_H

/* Returns the path of a folder of these files ("input", "jobscripts", "tuning"; tests have another), freed with free():
 * in the source tree while the program runs from its build folder; else ../share/cistron next to the program's folder,
 * so that an installed tree may be moved; else where `make install` puts it. */
char *shipped_folder(const char *name);

#endif
