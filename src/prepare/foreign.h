/* Files that are no records: told by their first bytes, so that a mistake is named as what it is. */
#ifndef PREPARE_FOREIGN_H
#define PREPARE_FOREIGN_H

#include <stdint.h>

/* head[bytes] are the first (plain) bytes of the file. ERROR_USER: they are of a kind that no reader takes; the message
 * names the kind, and what to do. */
int foreign_refuse(const char *path, const uint8_t *head, int64_t bytes);

#endif
