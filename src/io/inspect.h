/* `cistron inspect PATH`: what a file holds. */
#ifndef IO_INSPECT_H
#define IO_INSPECT_H

/* Prints to standard output what a token store or a checkpoint holds; a run folder means its newest checkpoint. A
 * checkpoint is verified first. One process, no MPI. ERROR_USER: neither of them, damaged, missing; the message is in
 * the record. */
int inspect_run(const char *path);

#endif
