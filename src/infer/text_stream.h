/* Prints text that arrives in pieces, but only complete UTF-8 characters. Invalid bytes are printed as U+FFFD, control
 * characters other than tabs and line ends as '?'. */
#ifndef INFER_TEXT_STREAM_H
#define INFER_TEXT_STREAM_H

#include <stdint.h>
#include <stdio.h>

struct text_stream {
    FILE *out;
    unsigned char pending[4]; /* [count] the first bytes of an incomplete character */
    int count;
};

void text_stream_put(struct text_stream *stream, const char *bytes, int64_t count);
/* Ends the text: an incomplete character is printed as invalid. */
void text_stream_end(struct text_stream *stream);

#endif
