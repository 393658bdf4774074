/* Parses the time limit of a run. */
#ifndef SETUP_WALLTIME_H
#define SETUP_WALLTIME_H

/* Writes the seconds of a time limit: "90" (minutes), "MM:SS", "HH:MM:SS", "D-HH", "D-HH:MM" or "D-HH:MM:SS", as in
 * Slurm's --time; "" is 0, no limit. Local. ERROR_USER: the text is not a time limit; the message names train.walltime.
 */
int walltime_parse(const char *text, double *seconds);

#endif
