/* Durations for people: 1-02:03:04. */
#ifndef BASE_DURATION_H
#define BASE_DURATION_H

enum { DURATION_BYTES = 32 };

/* Seconds as "1-02:03:04", days left out below one; "-" for more than any run takes, and for NaN. */
void duration_print(char text[DURATION_BYTES], double seconds);

#endif
