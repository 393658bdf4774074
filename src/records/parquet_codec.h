/* Decompression of Parquet pages: Snappy and LZ4 by their own libraries, the only decoders for C that distributions
 * have; zlib and libzstd as in records/source.h. */
#ifndef RECORDS_PARQUET_CODEC_H
#define RECORDS_PARQUET_CODEC_H

#include <stdbool.h>
#include <stdint.h>

/* Returns NULL if pages of this codec (a number in the footer) can be read; else its name, or "unknown". */
const char *parquet_codec_unread(int codec);
/* Decompresses packed[packed_bytes] into plain[plain_bytes]. Returns false if the data is damaged, or does not have
 * exactly plain_bytes bytes. */
bool parquet_codec_unpack(int codec, const uint8_t *packed, int64_t packed_bytes, uint8_t *plain, int64_t plain_bytes);

#endif
