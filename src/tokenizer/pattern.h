/* Translates regular expressions of Hugging Face's tokenizers (Oniguruma syntax) to PCRE2. Accepts only syntax that has
 * the same meaning in both; the error message names anything else. */
#ifndef TOKENIZER_PATTERN_H
#define TOKENIZER_PATTERN_H

/* Sets *out to the pattern for PCRE2 with UTF and UCP, freed with free(). ERROR_USER: unsupported syntax; the message
 * begins with `where`. */
int pattern_translate(char **out, const char *pattern, const char *where);

#endif
