/* Text from files and users (names of records, paths), made safe to print on a terminal. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stddef.h>
#include <stdio.h>

/* Copies a text to out[capacity], truncated if it does not fit. Control characters, with which a file could move the
 * cursor or change colours, and bytes that are not UTF-8 become \x and two hexadecimal digits; tab and newline stay. A
 * text that is printable already is not changed. */
void text_printable(char *out, size_t capacity, const char *text);

/* Copies the start of a text, at most 80 bytes of whole characters, for a message that quotes it; a truncated text ends
 * in "...". So the rest of the message stays visible, however long a name, value or pattern is. Returns out. */
enum { TEXT_SHORT = 84 };
const char *text_short(char out[TEXT_SHORT], const char *text);

/* Writes a text to a stream, made printable as by text_printable. */
void text_print(FILE *file, const char *text);

#endif
