/* Texts from files and users (names of records, paths), made safe to print on a terminal. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stddef.h>
#include <stdio.h>

/* Copies a text to out[room], cut short where it does not fit. Control characters, by which a file could move the
 * cursor or change colours, and bytes that are no UTF-8 become \x and two hexadecimal digits; tab and newline stay. A
 * text that was made printable stays as it is. */
void text_printable(char *out, size_t room, const char *text);

/* Copies the start of a text, at most 80 bytes of whole characters, for a message that quotes it; "..." ends a text
 * that was cut. So what follows it in the message is seen, however long a name, value or pattern is. Returns out. */
enum { TEXT_SHORT = 84 };
const char *text_short(char out[TEXT_SHORT], const char *text);

/* Writes a text to a stream, made printable in this way. */
void text_print(FILE *file, const char *text);

#endif
