/* Durations, formatted for people: 1-02:03:04. */
#ifndef BASE_DURATION_H
#define BASE_DURATION_H

enum { DURATION_BYTES = 32 };

/* Writes seconds as "1-02:03:04", without days below one day; "-" for NaN and for 1e11 seconds or more. */
void duration_print(char text[DURATION_BYTES], double seconds);

#endif
