/* Unicode normalization form C, with utf8proc. */
#ifndef TOKENIZER_NFC_H
#define TOKENIZER_NFC_H

#include <stdint.h>

/* Buffers, reused between calls; {0} is empty. */
struct nfc {
    unsigned char *text;
    int64_t used, capacity;
    int32_t *codes; /* [codes_capacity] decomposed text */
    int64_t codes_capacity;
};

void nfc_free(struct nfc *nfc);
/* Normalizes `text`, valid UTF-8. Returns the result, *normalized bytes: `text` itself if a quick check shows that it
 * is normalized, else a buffer in nfc, valid until the next call. */
const unsigned char *nfc_normalize(struct nfc *nfc, const unsigned char *text, int64_t bytes, int64_t *normalized);

#endif
