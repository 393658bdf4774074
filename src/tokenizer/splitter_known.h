/* The patterns of GPT-2, Llama 3 and Qwen 2, matched by hand. They are one pattern with a few differences:
 *
 *   contractions | letters | numbers | others | whitespace up to its last newline | whitespace but for its last
 * character
 *
 * Everything matches one of these, so that matches touch from end to end. */
#ifndef TOKENIZER_SPLITTER_KNOWN_H
#define TOKENIZER_SPLITTER_KNOWN_H

/* What ByteLevel, Llama 3 and Qwen 2 cut by. */
extern const char splitter_gpt2[], splitter_llama3[], splitter_qwen2[];

struct character_classes;
struct splitter_known;

/* NULL when it is none of them. */
const struct splitter_known *splitter_known_find(const char *pattern);
/* The end of the match that begins at `text`; text < end, and what is between is valid UTF-8. */
const unsigned char *splitter_known_next(const struct splitter_known *known, const struct character_classes *classes,
                                         const unsigned char *text, const unsigned char *end);

#endif
