/* Monotonic seconds since the first call, which is main's first act: the age of the program. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

double clock_seconds(void);

/* Unix seconds by the clock of the day, which may be set under way: for what people and other programs read. */
double clock_of_day(void);

#endif
