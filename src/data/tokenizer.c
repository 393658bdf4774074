#include "data/tokenizer.h"

#include <stddef.h>
#include <string.h>

enum { NUCLEOTIDE_EOS, NUCLEOTIDE_PAD, NUCLEOTIDE_BOS, NUCLEOTIDE_UNK, NUCLEOTIDE_SPECIALS };

static void encode_nucleotides(const char *text, int64_t bytes, uint8_t *ids)
{
    for (int64_t i = 0; i < bytes; i++) {
        uint8_t byte = (uint8_t)text[i];
        ids[i] = byte < NUCLEOTIDE_SPECIALS ? NUCLEOTIDE_UNK : byte;
    }
}

static const struct tokenizer tokenizers[] = {
    {.name = "nucleotide",
     .vocabulary = 256,
     .eos = NUCLEOTIDE_EOS,
     .pad = NUCLEOTIDE_PAD,
     .bos = NUCLEOTIDE_BOS,
     .unk = NUCLEOTIDE_UNK,
     .bases = true,
     .encode = encode_nucleotides},
};

const struct tokenizer *tokenizer_find(const char *name)
{
    for (size_t i = 0; i < sizeof tokenizers / sizeof *tokenizers; i++)
        if (strcmp(tokenizers[i].name, name) == 0)
            return &tokenizers[i];
    return NULL;
}

const char *tokenizer_names(void)
{
    return "nucleotide";
}

int tokenizer_base(int32_t id)
{
    switch (id) {
    case 'A':
    case 'a':
        return 0;
    case 'C':
    case 'c':
        return 1;
    case 'G':
    case 'g':
        return 2;
    case 'T':
    case 't':
        return 3;
    default:
        return -1;
    }
}
