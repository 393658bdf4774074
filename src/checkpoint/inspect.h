/* Implements `cistron inspect PATH`: describes a file. */
#ifndef CHECKPOINT_INSPECT_H
#define CHECKPOINT_INSPECT_H

#include <stdbool.h>

/* Prints a description of a token store, a checkpoint or a file of embeddings or scores on standard output, as text or
 * as one JSON object with the same keys. A run folder means its newest checkpoint. A checkpoint is verified first; a
 * token store is read completely and compared with its checksum only with `verify`. One process, without MPI.
 * ERROR_USER: the file is missing, damaged or of another kind; the message is recorded, and nothing is printed. */
int inspect_run(const char *path, bool json, bool verify);

#endif
