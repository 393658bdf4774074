/* A list of faults (of a deck, a file), so that the user sees all of them at once. */
#ifndef BASE_FAULTS_H
#define BASE_FAULTS_H

#include "base/error.h"

enum { FAULTS_LISTED = 12 /* more are only counted */ };

/* {0} has none. */
struct fault_list {
    int count;
    char *text; /* owned */
};

/* Adds one line. */
void faults_add(struct fault_list *faults, const char *format, ...) BASE_PRINTF(2, 3);

/* Ends the list: ERROR_NONE when it is empty, else ERROR_USER with "<format>:" and a line for each fault. */
int faults_verdict(struct fault_list *faults, const char *format, ...) BASE_PRINTF(2, 3);

#endif
