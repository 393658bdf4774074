/* Sizes of memory and files, formatted for people: 3.10 GiB. */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

enum { BYTES_TEXT = 32 };

/* Writes "3.10 GiB" or "17.20 MiB" to out[BYTES_TEXT]; returns out. */
char *bytes_text(char *out, double bytes);

#endif
