/* Unicode's normalization form C, by utf8proc. */
#ifndef TOKENIZER_NFC_H
#define TOKENIZER_NFC_H

#include <stdint.h>

/* Room for the outcome, used again and again; {0} is empty. */
struct nfc {
    unsigned char *text;
    int64_t used, room;
    int32_t *codes; /* decomposed */
    int64_t codes_room;
};

void nfc_free(struct nfc *nfc);
/* The normalized text and its bytes: `text` itself where it is normalized at a glance, else in nfc, until the next
 * call. `text` is valid UTF-8. */
const unsigned char *nfc_normalize(struct nfc *nfc, const unsigned char *text, int64_t bytes, int64_t *normalized);

#endif
