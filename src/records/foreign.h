/* Recognises files of unsupported formats by their first bytes, for precise error messages. */
#ifndef RECORDS_FOREIGN_H
#define RECORDS_FOREIGN_H

#include <stdint.h>

/* head[bytes]: the first (decompressed) bytes of the file, as from source_head. ERROR_USER: the format is known and not
 * supported: archives, binary files, texts of bioinformatics; or a format of sequences where another one is wanted. The
 * message names the format, the supported formats, and what to do. */
int foreign_refuse(const char *path, const uint8_t *head, int64_t bytes);

#endif
