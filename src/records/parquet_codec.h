/* Decompression of Parquet's pages. Snappy, LZ4: the formats' own libraries, the only decoders that distributions ship
 * for C; zlib and libzstd as in records/source.h. */
#ifndef RECORDS_PARQUET_CODEC_H
#define RECORDS_PARQUET_CODEC_H

#include <stdbool.h>
#include <stdint.h>

/* NULL where pages of that codec (as the footer has it) are read; else its name, or "unknown". */
const char *parquet_codec_unread(int codec);
/* Unpacks packed[packed_bytes] into plain[plain_bytes]. False: damaged, or not exactly that many bytes. */
bool parquet_codec_unpack(int codec, const uint8_t *packed, int64_t packed_bytes, uint8_t *plain, int64_t plain_bytes);

#endif
