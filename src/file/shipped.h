/* Where the files lie that come with the program. */
#ifndef FILE_SHIPPED_H
#define FILE_SHIPPED_H

/* The path of one of their folders ("input", "jobscripts", "tuning"), freed with free(): in the source tree while the
 * program runs from the folder that it was built in; else beside the program, in ../share/cistron of its own folder, so
 * that an installed tree may be moved; else where `make install` puts it. Tests have one of their own. */
char *shipped_folder(const char *name);

#endif
