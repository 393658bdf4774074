#include "records/parquet_codec.h"
#include "base/error.h"

#include <lz4.h>
#include <snappy-c.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

enum codec { PLAIN, SNAPPY, GZIP, LZO, BROTLI, LZ4_FRAMED, ZSTD, LZ4_RAW, CODECS };

const char *parquet_codec_unread(int codec)
{
    if (codec < 0 || codec >= CODECS)
        return "unknown";
    return codec == LZO ? "LZO" : codec == BROTLI ? "BROTLI" : NULL;
}

static bool unpack_gzip(const uint8_t *packed, int64_t packed_bytes, uint8_t *plain, int64_t plain_bytes)
{
    z_stream inflater = {
        .next_in = (Bytef *)packed, .avail_in = (uInt)packed_bytes, .next_out = plain, .avail_out = (uInt)plain_bytes};
    if (inflateInit2(&inflater, 15 + 32) != Z_OK) /* gzip or zlib, by the header */
        error_fatal("zlib cannot start");
    int result = inflate(&inflater, Z_FINISH);
    while (result == Z_STREAM_END && inflater.avail_in > 0 && inflater.avail_out > 0) { /* next member */
        inflateReset(&inflater);
        result = inflate(&inflater, Z_FINISH);
    }
    inflateEnd(&inflater);
    return result == Z_STREAM_END && inflater.avail_out == 0;
}

static uint32_t big_endian(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | (uint32_t)at[3];
}

/* Decompresses blocks as Hadoop writes them, each preceded by its two sizes, plain and packed. */
static bool unpack_framed_lz4(const uint8_t *packed, int64_t packed_bytes, uint8_t *plain, int64_t plain_bytes)
{
    while (packed_bytes >= 8) {
        const int64_t out = big_endian(packed), in = big_endian(packed + 4);
        packed += 8;
        packed_bytes -= 8;
        if (in > packed_bytes || out > plain_bytes ||
            LZ4_decompress_safe((const char *)packed, (char *)plain, (int)in, (int)out) != out)
            return false;
        packed += in;
        packed_bytes -= in;
        plain += out;
        plain_bytes -= out;
    }
    return packed_bytes == 0 && plain_bytes == 0;
}

static bool unpack_lz4(const uint8_t *packed, int64_t packed_bytes, uint8_t *plain, int64_t plain_bytes)
{
    return LZ4_decompress_safe((const char *)packed, (char *)plain, (int)packed_bytes, (int)plain_bytes) == plain_bytes;
}

bool parquet_codec_unpack(int codec, const uint8_t *packed, int64_t packed_bytes, uint8_t *plain, int64_t plain_bytes)
{
    size_t length;
    switch (codec) {
    case PLAIN:
        if (packed_bytes == plain_bytes && plain_bytes > 0)
            memcpy(plain, packed, (size_t)plain_bytes);
        return packed_bytes == plain_bytes;
    case SNAPPY:
        length = (size_t)plain_bytes;
        return snappy_uncompress((const char *)packed, (size_t)packed_bytes, (char *)plain, &length) == SNAPPY_OK &&
               length == (size_t)plain_bytes;
    case GZIP:
        return unpack_gzip(packed, packed_bytes, plain, plain_bytes);
    case ZSTD:
        return ZSTD_decompress(plain, (size_t)plain_bytes, packed, (size_t)packed_bytes) == (size_t)plain_bytes;
    case LZ4_RAW:
        return unpack_lz4(packed, packed_bytes, plain, plain_bytes);
    case LZ4_FRAMED: /* early versions of Arrow omitted the sizes */
        return unpack_framed_lz4(packed, packed_bytes, plain, plain_bytes) ||
               unpack_lz4(packed, packed_bytes, plain, plain_bytes);
    default:
        return false;
    }
}
