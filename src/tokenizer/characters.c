#include "tokenizer/tokenizer.h"

#include <stddef.h>
#include <string.h>

/* Special ids of nucleotides. The mask token is only in nucleotide_mask; in nucleotide its id is a character. */
enum { NUCLEOTIDE_EOS, NUCLEOTIDE_PAD, NUCLEOTIDE_BOS, NUCLEOTIDE_UNK, NUCLEOTIDE_MASK };

static void encode_bytes(int specials, const char *text, int64_t bytes, uint8_t *ids)
{
    for (int64_t i = 0; i < bytes; i++) {
        uint8_t byte = (uint8_t)text[i];
        ids[i] = byte < specials ? NUCLEOTIDE_UNK : byte;
    }
}

static void encode_nucleotides(const char *text, int64_t bytes, uint8_t *ids)
{
    encode_bytes(NUCLEOTIDE_UNK + 1, text, bytes, ids);
}

static void encode_nucleotides_mask(const char *text, int64_t bytes, uint8_t *ids)
{
    encode_bytes(NUCLEOTIDE_MASK + 1, text, bytes, ids);
}

/* In the order of the published vocabularies (recipes 3). ESM-2's <cls> is its BOS. AMPLIFY's '|' separates the chains
 * of a record: it is text like any residue, so it is masked and predicted too. */
static const char *const esm2_texts[] = {
    "<cls>", "<pad>", "<eos>", "<unk>", "L", "A", "G", "V", "S", "E", "R", "T", "I", "D", "P",        "K",     "Q",
    "N",     "F",     "Y",     "M",     "H", "W", "C", "X", "B", "U", "Z", "O", ".", "-", "<null_1>", "<mask>"};
static const char *const amplify_texts[] = {"<pad>", "<unk>", "<mask>", "<bos>", "<eos>", "|", "L", "A", "G",
                                            "V",     "S",     "E",      "R",     "T",     "I", "D", "P", "K",
                                            "Q",     "N",     "F",      "Y",     "M",     "H", "W", "C", "B"};
enum { ESM2_IDS = sizeof esm2_texts / sizeof *esm2_texts, AMPLIFY_IDS = sizeof amplify_texts / sizeof *amplify_texts };
enum { ESM2_CLS, ESM2_PAD, ESM2_EOS, ESM2_UNK, ESM2_MASK = ESM2_IDS - 1 };
enum { AMPLIFY_PAD, AMPLIFY_UNK, AMPLIFY_MASK, AMPLIFY_BOS, AMPLIFY_EOS };

/* Makes the table for each piece of text, which costs less than a line of FASTA. */
static void encode_by_texts(const char *const *texts, int count, int32_t unk, const char *text, int64_t bytes,
                            uint8_t *ids)
{
    uint8_t id_of[256];
    memset(id_of, unk, sizeof id_of);
    for (int id = 0; id < count; id++)
        if (texts[id][1] == '\0')
            id_of[(uint8_t)texts[id][0]] = (uint8_t)id;
    for (int64_t i = 0; i < bytes; i++)
        ids[i] = id_of[(uint8_t)text[i]];
}

static void encode_esm2(const char *text, int64_t bytes, uint8_t *ids)
{
    encode_by_texts(esm2_texts, ESM2_IDS, ESM2_UNK, text, bytes, ids);
}

static void encode_amplify(const char *text, int64_t bytes, uint8_t *ids)
{
    encode_by_texts(amplify_texts, AMPLIFY_IDS, AMPLIFY_UNK, text, bytes, ids);
}

static const struct tokenizer tokenizers[] = {
    {.name = "nucleotide",
     .vocabulary = 256,
     .eos = NUCLEOTIDE_EOS,
     .pad = NUCLEOTIDE_PAD,
     .bos = NUCLEOTIDE_BOS,
     .unk = NUCLEOTIDE_UNK,
     .mask = -1,
     .bases = true,
     .encode_characters = encode_nucleotides},
    {.name = "nucleotide_mask",
     .vocabulary = 256,
     .eos = NUCLEOTIDE_EOS,
     .pad = NUCLEOTIDE_PAD,
     .bos = NUCLEOTIDE_BOS,
     .unk = NUCLEOTIDE_UNK,
     .mask = NUCLEOTIDE_MASK,
     .bases = true,
     .encode_characters = encode_nucleotides_mask},
    {.name = "esm2",
     .vocabulary = ESM2_IDS,
     .eos = ESM2_EOS,
     .pad = ESM2_PAD,
     .bos = ESM2_CLS,
     .unk = ESM2_UNK,
     .mask = ESM2_MASK,
     .texts = esm2_texts,
     .encode_characters = encode_esm2},
    {.name = "amplify",
     .vocabulary = AMPLIFY_IDS,
     .eos = AMPLIFY_EOS,
     .pad = AMPLIFY_PAD,
     .bos = AMPLIFY_BOS,
     .unk = AMPLIFY_UNK,
     .mask = AMPLIFY_MASK,
     .texts = amplify_texts,
     .encode_characters = encode_amplify},
};

const struct tokenizer *tokenizer_find(const char *name)
{
    for (size_t i = 0; i < sizeof tokenizers / sizeof *tokenizers; i++)
        if (strcmp(tokenizers[i].name, name) == 0)
            return &tokenizers[i];
    return NULL;
}

const struct tokenizer *tokenizer_bundled(int number)
{
    return number < (int)(sizeof tokenizers / sizeof *tokenizers) ? &tokenizers[number] : NULL;
}

const char *tokenizer_names(void)
{
    return "nucleotide, nucleotide_mask, esm2, amplify";
}

const char *tokenizer_token(const struct tokenizer *tokenizer, int32_t id, char buffer[TOKENIZER_TEXT])
{
    static const char *const nucleotide_specials[] = {"<EOS>", "<PAD>", "<BOS>", "<UNK>", "<MASK>"};
    if (tokenizer->texts != NULL)
        return tokenizer->texts[id];
    if (tokenizer_is_special(tokenizer, id))
        return nucleotide_specials[id];
    if (id < 0x80) {
        buffer[0] = (char)id;
        buffer[1] = '\0';
    } else { /* a Latin-1 code point */
        buffer[0] = (char)(0xc0 | id >> 6);
        buffer[1] = (char)(0x80 | (id & 0x3f));
        buffer[2] = '\0';
    }
    return buffer;
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
