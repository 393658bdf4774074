/* Regular expressions of Hugging Face's tokenizers, which are Oniguruma's, made into those of PCRE2. Only what means
 * the same to both is taken; the rest is refused by name. */
#ifndef TOKENIZER_PATTERN_H
#define TOKENIZER_PATTERN_H

/* The pattern for PCRE2 with UTF and UCP, in *out, freed with free(). ERROR_USER: what is not offered; the message
 * begins with `where`. */
int pattern_translate(char **out, const char *pattern, const char *where);

#endif
