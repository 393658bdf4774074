/* Hand-written matching of the patterns of GPT-2, Llama 3 and Qwen 2, which are variants of one pattern:
 *
 *    contractions | letters | numbers | others
 *       | whitespace up to its last newline | whitespace except its last character
 *
 * Every text matches, so matches are adjacent. */
#ifndef TOKENIZER_SPLITTER_KNOWN_H
#define TOKENIZER_SPLITTER_KNOWN_H

/* Patterns of ByteLevel (GPT-2), Llama 3 and Qwen 2. */
extern const char splitter_gpt2[], splitter_llama3[], splitter_qwen2[];
/* Words (\w of the Rust regular expressions that Hugging Face uses) and runs of other characters that are not white
 * space. By PCRE2. */
extern const char splitter_words[];

struct character_classes;
struct splitter_known;

/* Returns NULL if the pattern is not one of them. */
const struct splitter_known *splitter_known_find(const char *pattern);
/* Returns the end of the match that begins at `text`; text < end, valid UTF-8. */
const unsigned char *splitter_known_next(const struct splitter_known *known, const struct character_classes *classes,
                                         const unsigned char *text, const unsigned char *end);

#endif
