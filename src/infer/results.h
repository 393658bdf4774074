/* What was generated, in a file: as FASTA, of bases or residues, or as JSON lines. */
#ifndef INFER_RESULTS_H
#define INFER_RESULTS_H

#include "infer/text_stream.h"
#include "tokenizer/tokenizer.h"

enum results_format { RESULTS_FASTA, RESULTS_JSONL };

struct generate_result {
    const char *name; /* of the prompt */
    int64_t sample;   /* of that prompt, from 1 on */
    const char *prompt;
    int64_t prompt_bytes;
    const int32_t *tokens; /* [count] that were added to it */
    int64_t count;
    double log_probability; /* nats */
    bool ended;             /* by the end token; else it is as long as it may become */
};

/* The format that is called so; NULL: that of the path's ending, and of another path, or NULL, FASTA of characters and
 * JSON lines of text. ERROR_USER: there is none of that name; FASTA of text. */
int results_choose(enum results_format *format, const char *name, const char *path, const struct tokenizer *tokenizer);

/* A token's bytes of text; of a sequence its character, '?' where it has none that can be printed. */
void results_put_token(struct text_stream *stream, const struct tokenizer *tokenizer, int32_t token);

/* FASTA: `>NAME sample=N prompt=N tokens=N log_probability=X end=length|token`, where prompt is the number of
 * characters of the sequence that were given, then the sequence. JSON: an object with the members record, sample,
 * prompt, text, tokens, log_probability and end. Errors stay with the file. Returns how many characters of the sequence
 * cannot stand in FASTA and are '?' there: '>', ';', blanks, control characters, bytes beyond ASCII, and tokens that
 * stand for no character; 0 of JSON. */
int64_t results_write(FILE *out, enum results_format format, const struct tokenizer *tokenizer,
                      const struct generate_result *result);

#endif
