#include "infer/text_stream.h"

#include <stdbool.h>

/* Returns the bytes of the character that begins with this byte; 0: invalid (RFC 3629). */
static int length_of(unsigned char first)
{
    return first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
}

/* Returns whether a character that begins with `first` may have this second byte: no surrogates, nothing above
 * U+10FFFF, no overlong encodings. */
static bool fits_second(unsigned char first, unsigned char second)
{
    const unsigned char least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    const unsigned char most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    return second >= least && second <= most;
}

static bool fits(const struct text_stream *stream, unsigned char byte)
{
    return stream->count == 1 ? fits_second(stream->pending[0], byte) : byte >= 0x80 && byte <= 0xbf;
}

static void print_character(const struct text_stream *stream)
{
    const unsigned char first = stream->pending[0];
    const bool control = stream->count == 1 && ((first < ' ' && first != '\n' && first != '\t') || first == 0x7f);
    if (control)
        fputc('?', stream->out);
    else
        fwrite(stream->pending, 1, (size_t)stream->count, stream->out);
}

static void put_byte(struct text_stream *stream, unsigned char byte)
{
    if (stream->count > 0 && !fits(stream, byte))
        text_stream_end(stream);
    if (stream->count == 0 && length_of(byte) == 0) {
        fputs("\xef\xbf\xbd", stream->out);
        return;
    }
    stream->pending[stream->count++] = byte;
    if (stream->count == length_of(stream->pending[0])) {
        print_character(stream);
        stream->count = 0;
    }
}

void text_stream_put(struct text_stream *stream, const char *bytes, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        put_byte(stream, (unsigned char)bytes[i]);
    fflush(stream->out);
}

void text_stream_end(struct text_stream *stream)
{
    if (stream->count > 0)
        fputs("\xef\xbf\xbd", stream->out);
    stream->count = 0;
}
