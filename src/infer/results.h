/* Writes generated sequences as FASTA (bases or residues) or as JSON lines. */
#ifndef INFER_RESULTS_H
#define INFER_RESULTS_H

#include "infer/text_stream.h"
#include "tokenizer/tokenizer.h"

enum results_format { RESULTS_FASTA, RESULTS_JSONL };

struct generate_result {
    const char *name; /* of the prompt */
    int64_t sample;   /* number, from 1 */
    const char *prompt;
    int64_t prompt_bytes;
    const int32_t *tokens; /* [count] tokens added to the prompt */
    int64_t count;
    double log_probability; /* nats */
    bool ended;             /* by the end token; false: at the maximum length */
};

/* Finds the format called `name`. If name is NULL, the ending of the path decides, and without a known ending FASTA is
 * chosen for characters and JSON lines for text. ERROR_USER: the name is unknown, or FASTA is requested for text. */
int results_choose(enum results_format *format, const char *name, const char *path, const struct tokenizer *tokenizer);

/* Writes a token: its bytes of text, or the character of a sequence ('?' if it does not have a printable one). `first`:
 * no text precedes it. */
void results_put_token(struct text_stream *stream, const struct tokenizer *tokenizer, int32_t token, bool first);

/* Writes a result. FASTA: `>NAME sample=N prompt=N tokens=N log_probability=X end=length|token`, where prompt is the
 * number of characters of the sequence that were given, then the sequence. JSON: an object with the members record,
 * sample, prompt, text, tokens, log_probability and end. I/O errors stay in the error state of `out`. Returns the
 * number of characters that cannot be in FASTA and were written as '?' ('>', ';', blanks, control characters, bytes
 * outside ASCII, and tokens without a character); 0 for JSON. */
int64_t results_write(FILE *out, enum results_format format, const struct tokenizer *tokenizer,
                      const struct generate_result *result);

#endif
