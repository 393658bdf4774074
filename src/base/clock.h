/* Monotonic seconds since the first call, which is main's first act: the age of the program. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

double clock_seconds(void);

#endif
