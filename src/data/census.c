#include "data/census.h"
#include "base/log.h"
#include "base/memory.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Shares from which on a census speaks for another kind of sequence. Of a protein's residues about 25 % are one of
 * A C G T N, and 35 % have a letter that is no nucleotide's. */
static const double nucleotides_from = 0.95, others_from = 0.05;

void census_encode(struct census *census, const struct tokenizer *tokenizer, bool uppercase, const char *text,
                   int64_t count, uint8_t *ids)
{
    memcpy(ids, text, (size_t)count);
    for (int64_t i = 0; uppercase && i < count; i++)
        ids[i] = (uint8_t)toupper(ids[i]);
    for (int64_t i = 0; i < count; i++)
        census->count[ids[i]]++;
    tokenizer->encode((const char *)ids, count, ids);
}

/* Characters of the set, in either case. */
static int64_t count_letters(const struct census *census, const char *letters)
{
    int64_t count = 0;
    for (; *letters != '\0'; letters++)
        count += census->count[(uint8_t)*letters] + census->count[tolower((uint8_t)*letters)];
    return count;
}

static void report_unknown(const struct census *census, const struct tokenizer *tokenizer, int64_t all)
{
    int64_t unknown = 0, lower = 0;
    char *list = memory_string("");
    for (int c = 0; c < 256; c++) {
        char character = (char)c;
        uint8_t id;
        tokenizer->encode(&character, 1, &id);
        if (census->count[c] == 0 || id != tokenizer->unk)
            continue;
        unknown += census->count[c];
        if (c >= 'a' && c <= 'z') {
            lower += census->count[c];
            continue;
        }
        char *longer = memory_format("%s, %lld '%c'", list, (long long)census->count[c], c);
        free(list);
        list = longer;
    }
    if (lower > 0) {
        char *longer = memory_format("%s, %lld lower-case letters (--uppercase maps them)", list, (long long)lower);
        free(list);
        list = longer;
    }
    if (unknown > 0)
        log_warn("%lld of %lld characters are no token of %s and became <unk>: %s", (long long)unknown, (long long)all,
                 tokenizer->name, list + strlen(", "));
    free(list);
}

static void report_kind(const struct census *census, const struct tokenizer *tokenizer, int64_t all)
{
    double bases = (double)count_letters(census, "ACGTUN") / (double)all;
    double others = (double)count_letters(census, "EFIJLOPQXZ") / (double)all; /* no IUPAC code of a nucleotide */
    if (!tokenizer->bases && bases > nucleotides_from)
        log_warn(
            "%.1f %% of the residues are A, C, G, T, U or N: do they mean nucleotides? For these there is tokenizer "
            "nucleotide; %s takes them for amino acids",
            100 * bases, tokenizer->name);
    if (tokenizer->bases && others > others_from)
        log_warn("%.1f %% of the bases have letters that mean no nucleotide, such as E, F, I, L, P: are these "
                 "proteins? For these there are tokenizers esm2 and amplify",
                 100 * others);
}

void census_report(const struct census *census, const struct tokenizer *tokenizer, int64_t stops)
{
    int64_t all = 0;
    for (int c = 0; c < 256; c++)
        all += census->count[c];
    if (stops > 0)
        log_info("%lld stop symbols '*' at ends of records dropped", (long long)stops);
    report_unknown(census, tokenizer, all);
    report_kind(census, tokenizer, all);
}
