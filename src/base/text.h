/* Texts from files and users (names of records, paths), made safe to print on a terminal. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stddef.h>
#include <stdio.h>

/* Copies a text to out[room], cut short where it does not fit. Control characters, by which a file could move the
 * cursor or change colours, and bytes that are no UTF-8 become \x and two hexadecimal digits; tab and newline stay. A
 * text that was made printable stays as it is. */
void text_printable(char *out, size_t room, const char *text);

/* Writes a text to a stream, made printable in this way. */
void text_print(FILE *file, const char *text);

#endif
