/* `cistron inspect PATH`: what a file holds. */
#ifndef CHECKPOINT_INSPECT_H
#define CHECKPOINT_INSPECT_H

#include <stdbool.h>

/* Prints to standard output what a token store, a checkpoint or a file of embeddings holds, as text or as one JSON
 * object with the same keys; a run folder means its newest checkpoint. A checkpoint is verified first; a
 * token store is read whole and compared with its checksum where `verify` asks for it. One process, no MPI. ERROR_USER:
 * none of them, damaged, missing; the message is in the record, and nothing is printed. */
int inspect_run(const char *path, bool json, bool verify);

#endif
