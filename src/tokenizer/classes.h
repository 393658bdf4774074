/* Classes of Unicode characters, as the patterns of tokenizers have them. They are asked of PCRE2, so that what is
 * matched by hand and what PCRE2 matches have one version of Unicode. */
#ifndef TOKENIZER_CLASSES_H
#define TOKENIZER_CLASSES_H

#include <stdint.h>

enum character_class {
    CLASS_LETTER = 1, /* \p{L} */
    CLASS_NUMBER = 2, /* \p{N} */
    CLASS_SPACE = 4,  /* \s: Unicode's White_Space */
    CLASS_WORD = 8    /* \w: Alphabetic, marks, decimal numbers, connectors, joiners (Unicode's TR 18, annex C) */
};

/* White_Space inside a PCRE2 set. PCRE2's own \s also has U+180E, which is no space since Unicode 6.3. */
#define CLASSES_SPACE "\\x09-\\x0d\\x{85}\\p{Z}"

struct character_classes {
    uint8_t of[0x110000]; /* by code point: bits of enum character_class */
};

/* Made by the first call, which takes 20 ms; any thread. */
const struct character_classes *classes_get(void);

#endif
