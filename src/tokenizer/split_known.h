/* The patterns of GPT-2, Llama 3 and Qwen 2, matched by hand. They are one pattern with a few differences:
 *
 *   contractions | letters | numbers | others | whitespace up to its last newline | whitespace but for its last
 * character
 *
 * Everything matches one of these, so that matches touch from end to end. */
#ifndef TOKENIZER_SPLIT_KNOWN_H
#define TOKENIZER_SPLIT_KNOWN_H

/* What ByteLevel, Llama 3 and Qwen 2 cut by. */
extern const char split_gpt2[], split_llama3[], split_qwen2[];

struct classes;
struct split_known;

/* NULL when it is none of them. */
const struct split_known *split_known_find(const char *pattern);
/* The end of the match that begins at `text`; text < end, and what is between is valid UTF-8. */
const unsigned char *split_known_next(const struct split_known *known, const struct classes *classes,
                                      const unsigned char *text, const unsigned char *end);

#endif
