/* Clocks. clock_seconds returns monotonic seconds since its first call, which begins main: the age of the program. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

double clock_seconds(void);

/* Returns Unix seconds by the system clock, which may be set during a run: for times that people and other programs
 * read. */
double clock_of_day(void);

#endif
