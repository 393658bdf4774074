/* The deck's section `profile`: which ranks are profiled in which steps. */
#ifndef SETUP_PROFILE_RANKS_H
#define SETUP_PROFILE_RANKS_H

#include "deck/deck.h"

/* Checks the section for a run on `ranks` ranks. ERROR_USER: its keys contradict each other, or profile.ranks names
 * ranks that the run does not have. */
int profile_check(const struct deck *deck, int64_t ranks);

/* Returns whether a list of ranks, profile.ranks of a deck that passed profile_check, contains the rank. */
bool profile_lists(const char *ranks, int rank);

#endif
