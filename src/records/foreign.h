/* Files whose kind no reader reads, recognised by their first bytes, so that a mistake is named as what it is. */
#ifndef RECORDS_FOREIGN_H
#define RECORDS_FOREIGN_H

#include <stdint.h>

/* head[bytes] are the first (plain) bytes of the file, as source_head has them. ERROR_USER: they are of a kind that no
 * reader reads: archives, binary files, and texts of bioinformatics other than FASTA. The message names the kind, what
 * is read, and what to do. */
int foreign_refuse(const char *path, const uint8_t *head, int64_t bytes);

#endif
