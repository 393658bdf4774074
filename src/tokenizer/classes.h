/* Classes of Unicode characters in the patterns of tokenizers. They come from PCRE2, so that hand-written matching and
 * PCRE2 use the same version of Unicode. */
#ifndef TOKENIZER_CLASSES_H
#define TOKENIZER_CLASSES_H

#include <stdint.h>

enum character_class {
    CLASS_LETTER = 1, /* \p{L} */
    CLASS_NUMBER = 2, /* \p{N} */
    CLASS_SPACE = 4,  /* \s: Unicode's White_Space */
    CLASS_WORD = 8    /* \w: Alphabetic, marks, decimal numbers, connectors, joiners (Unicode's TR 18, annex C) */
};

/* White_Space inside a PCRE2 set. PCRE2's own \s also has U+180E, which is not white space since Unicode 6.3. */
#define CLASSES_SPACE "\\x09-\\x0d\\x{85}\\p{Z}"

struct character_classes {
    uint8_t of[0x110000]; /* bits of enum character_class, by code point */
};

/* Returns the table, which the first call makes in 20 ms. Thread-safe. */
const struct character_classes *classes_get(void);

#endif
