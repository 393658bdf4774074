/* Text that comes in pieces, printed as it comes, but never half a character of UTF-8. Bytes that are no UTF-8 are
 * printed as U+FFFD, control characters other than tabs and line ends as '?'. */
#ifndef INFER_TEXT_STREAM_H
#define INFER_TEXT_STREAM_H

#include <stdint.h>
#include <stdio.h>

struct text_stream {
    FILE *out;
    unsigned char begun[4]; /* [count] the first bytes of a character */
    int count;
};

void text_stream_put(struct text_stream *stream, const char *bytes, int64_t count);
/* Nothing more comes: half a character is no UTF-8. */
void text_stream_end(struct text_stream *stream);

#endif
