#include "prepare/census.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/thousands.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Above these shares, the characters indicate another kind of sequence. In proteins, about 25 % of the residues are A C
 * G T N, and 35 % have a letter that is not a nucleotide's. */
static const double nucleotides_from = 0.95, others_from = 0.05;
/* Above this share of unknown characters, a record is strange. */
static const double strange_from = 0.1;

static const char dna[] = "ACGTNRYSWKMBDHV"; /* bases and ambiguity codes */

char census_read(const struct text_census *census, char character)
{
    const char letter = (char)(census->capitals ? toupper((uint8_t)character) : character);
    if (!census->tokenizer->bases)
        return letter;
    return letter == 'U' ? 'T' : letter == 'u' ? 't' : letter;
}

int census_start(struct text_census *census, const struct tokenizer *tokenizer, const char *letter_case)
{
    *census = (struct text_census){.tokenizer = tokenizer, .capitals = tokenizer->bases};
    if (tokenizer_is_text(tokenizer))
        return letter_case == NULL
                   ? ERROR_NONE
                   : error_user("--case %s: applies to character tokenizers only (%s); text stays as it is",
                                letter_case, tokenizer_names());
    if (letter_case != NULL && strcmp(letter_case, "upper") != 0 && strcmp(letter_case, "keep") != 0)
        return error_user("--case %s: must be upper (lower-case letters are read as capitals) or keep", letter_case);
    if (letter_case != NULL)
        census->capitals = strcmp(letter_case, "upper") == 0;
    for (int c = 0; c < CENSUS_CHARACTERS; c++) {
        const char read = census_read(census, (char)c);
        tokenizer->encode_characters(&read, 1, &census->id_of[c]);
        census->unknown[c] =
            census->id_of[c] == tokenizer->unk || (tokenizer->bases && (c == 0 || strchr(dna, toupper(read)) == NULL));
    }
    return ERROR_NONE;
}

void census_encode(struct text_census *census, const char *text, int64_t count, uint8_t *ids)
{
    for (int64_t i = 0; i < count; i++) {
        const uint8_t character = (uint8_t)text[i];
        census->count[character]++;
        census->record_unknown += census->unknown[character];
        ids[i] = census->id_of[character];
    }
    census->record += count;
}

void census_end_record(struct text_census *census, const char *name)
{
    const double share = (double)census->record_unknown / (double)census->record;
    if (census->record > 0 && share > strange_from && census->strange++ == 0) {
        snprintf(census->strange_name, sizeof census->strange_name, "%s", name);
        census->strange_share = share;
    }
    census->record = census->record_unknown = 0;
}

int64_t census_lowered(const struct text_census *census)
{
    int64_t lower = 0;
    for (int c = 'a'; c <= 'z'; c++)
        lower += census->count[c];
    return census->capitals ? lower : 0;
}

int64_t census_uracils(const struct text_census *census)
{
    return census->tokenizer->bases ? census->count['U'] + census->count['u'] : 0;
}

/* Counts characters of a set, in either case. */
static int64_t count_letters(const struct text_census *census, const char *letters)
{
    int64_t count = 0;
    for (; *letters != '\0'; letters++)
        count += census->count[(uint8_t)*letters] + census->count[tolower((uint8_t)*letters)];
    return count;
}

static int64_t count_all(const struct text_census *census)
{
    int64_t all = 0;
    for (int c = 0; c < CENSUS_CHARACTERS; c++)
        all += census->count[c];
    return all;
}

/* Appends text such as ", 12 'R'" to a list, which is freed with free(). */
static void list_character(char **list, int64_t count, int character)
{
    char *longer = memory_format("%s, %lld '%c'", *list, (long long)count, character);
    free(*list);
    *list = longer;
}

/* Returns a note if the records seem to contain special tokens, which other programs read. */
static const char *special_tokens(const struct text_census *census)
{
    return census->count['<'] > 0 && census->count['>'] > 0
               ? "; special tokens such as <mask> are not read in sequences, but character by character"
               : "";
}

static void warn_of_unknown(const struct text_census *census)
{
    const struct tokenizer *tokenizer = census->tokenizer;
    int64_t unknown = 0, lower = 0;
    char *list = memory_string("");
    for (int c = 0; c < CENSUS_CHARACTERS; c++) {
        if (census->count[c] == 0 || census->id_of[c] != tokenizer->unk)
            continue;
        unknown += census->count[c];
        if (c >= 'a' && c <= 'z' && !census->capitals)
            lower += census->count[c];
        else
            list_character(&list, census->count[c], c);
    }
    if (lower > 0) {
        char *longer =
            memory_format("%s, %lld lower-case letters (--case upper reads them as capitals)", list, (long long)lower);
        free(list);
        list = longer;
    }
    if (unknown > 0)
        log_warn("%lld of %lld characters are not tokens of %s and became <unk>: %s%s", (long long)unknown,
                 (long long)count_all(census), tokenizer->name, list + strlen(", "), special_tokens(census));
    free(list);
}

/* Warns of characters other than A C G T N. Every character of a nucleotide sequence has a token, so none becomes
 * <unk>. */
static void warn_of_other_bases(const struct text_census *census)
{
    int64_t others = 0, count[CENSUS_CHARACTERS] = {0}; /* indexed by id, which is the character as read */
    char *list = memory_string("");
    for (int c = 0; c < CENSUS_CHARACTERS; c++)
        count[census->id_of[c]] += census->count[c];
    for (int c = 0; c < CENSUS_CHARACTERS; c++) {
        if (count[c] == 0 || strchr("ACGTN", toupper(c)) != NULL)
            continue;
        others += count[c];
        list_character(&list, count[c], c);
    }
    if (others > 0)
        log_warn("%lld of %lld bases are not A, C, G, T or N: %s; each keeps its own token, which is a label only with "
                 "data.mask_degenerate = false%s",
                 (long long)others, (long long)count_all(census), list + strlen(", "), special_tokens(census));
    free(list);
}

/* Returns whether it has warned. */
static bool warn_of_kind(const struct text_census *census)
{
    const struct tokenizer *tokenizer = census->tokenizer;
    const double all = (double)count_all(census);
    double bases = (double)count_letters(census, "ACGTUN") / all;
    double others = (double)count_letters(census, "EFIJLOPQXZ") / all; /* not IUPAC codes of nucleotides */
    if (!tokenizer->bases && bases > nucleotides_from)
        log_warn("%.1f %% of the residues are A, C, G, T, U or N: are these nucleotides? Then use --tokenizer "
                 "nucleotide; %s reads them as amino acids",
                 100 * bases, tokenizer->name);
    else if (tokenizer->bases && others > others_from)
        log_warn("%.1f %% of the bases have letters of no nucleotide, such as E, F, I, L, P: are these proteins? Then "
                 "use --tokenizer esm2 or amplify",
                 100 * others);
    else
        return false;
    return true;
}

static void warn_of_records(const struct text_census *census)
{
    if (census->strange == 0)
        return;
    char *others = census->strange == 1 ? memory_string("")
                                        : memory_format(", and more than %.0f %% of %lld other records",
                                                        100 * strange_from, (long long)census->strange - 1);
    log_warn("unknown characters (%s) are %.0f %% of %s%s; a model's results for such records mean little",
             census->tokenizer->bases ? "other letters than A C G T N and the ambiguity codes of DNA"
                                      : "no token of the model",
             100 * census->strange_share, census->strange_name, others);
    free(others);
}

/* The list keeps the lowest ids, so that it does not depend on the order of threads. */
static void add_special(void *self, int32_t id, int64_t count)
{
    struct text_census *census = self;
    int at = 0;
    census->special_count += count;
    while (at < census->special_kinds && census->specials[at].id < id)
        at++;
    if (at < census->special_kinds && census->specials[at].id == id) {
        census->specials[at].count += count;
        return;
    }
    if (at == CENSUS_SPECIALS)
        return;
    if (census->special_kinds < CENSUS_SPECIALS)
        census->special_kinds++;
    memmove(&census->specials[at + 1], &census->specials[at],
            (size_t)(census->special_kinds - 1 - at) * sizeof *census->specials);
    census->specials[at].id = id;
    census->specials[at].count = count;
}

void census_take_specials(struct text_census *census, struct encoder *encoder)
{
    encoder_take_specials(encoder, add_special, census);
}

char *census_specials(const struct text_census *census)
{
    if (census->special_count == 0)
        return NULL;
    int64_t others = census->special_count;
    char *list = memory_string("");
    for (int i = 0; i < census->special_kinds; i++) {
        int64_t bytes;
        const char *text = tokenizer_special(census->tokenizer, census->specials[i].id, &bytes);
        char *longer = memory_format("%s, %lld %.*s", list, (long long)census->specials[i].count, (int)bytes, text);
        free(list);
        list = longer;
        others -= census->specials[i].count;
    }
    char *rest = others > 0 ? memory_format(", %lld others", (long long)others) : memory_string("");
    char *all = memory_format("%lld special token%s (%s%s)", (long long)census->special_count,
                              plural(census->special_count), list + strlen(", "), rest);
    free(rest);
    free(list);
    return all;
}

static void warn_of_specials(const struct text_census *census)
{
    char *specials = census_specials(census);
    if (specials != NULL)
        log_warn("the text contains %s; special tokens in a text are encoded as text, not as their ids", specials);
    free(specials);
}

void census_warn(const struct text_census *census)
{
    if (tokenizer_is_text(census->tokenizer)) {
        warn_of_specials(census);
        return;
    }
    if (census->tokenizer->bases)
        warn_of_other_bases(census);
    else
        warn_of_unknown(census);
    if (!warn_of_kind(census))
        warn_of_records(census);
}

void census_report(const struct text_census *census, int64_t stops)
{
    const int64_t lowered = census_lowered(census), all = count_all(census);
    if (lowered > 0)
        log_info("%lld of %lld letters (%.1f %%) are lower case and read as capitals (--case keep keeps them)",
                 (long long)lowered, (long long)all, 100 * (double)lowered / (double)all);
    if (census_uracils(census) > 0)
        log_info("%lld of %lld bases are U, as in RNA, and read as T", (long long)census_uracils(census),
                 (long long)all);
    if (stops > 0)
        log_info("%lld stop symbol%s '*' at ends of records dropped", (long long)stops, plural(stops));
    census_warn(census);
}
