/* Turns characters of sequences into tokens and counts them, to warn of characters that their owner may not expect; of
 * text it counts special tokens that are written in it. */
#ifndef PREPARE_CENSUS_H
#define PREPARE_CENSUS_H

#include "tokenizer/tokenizer.h"

enum { CENSUS_CHARACTERS = 256, CENSUS_NAME = 64, CENSUS_SPECIALS = 8 };

struct text_census {
    const struct tokenizer *tokenizer;
    bool capitals;                    /* a b c mean A B C */
    uint8_t id_of[CENSUS_CHARACTERS]; /* the token of each character */
    bool unknown[CENSUS_CHARACTERS];  /* it means nothing: <unk>, or no base nor ambiguity code of DNA */
    int64_t count[CENSUS_CHARACTERS]; /* of each character as it was given */
    int64_t record, record_unknown;   /* characters of the present record, and unknown ones of them */
    int64_t strange;                  /* records with many unknown characters */
    char strange_name[CENSUS_NAME];   /* of the first of them, */
    double strange_share;             /* and its share of unknown ones */
    struct {
        int32_t id;
        int64_t count;
    } specials[CENSUS_SPECIALS]; /* [special_kinds] of text: those with the lowest ids, in order */
    int special_kinds;
    int64_t special_count; /* of all of them */
};

/* Begins a count; of a tokenizer of text there are no characters to count. letter_case, as option --case gives it:
 * "upper" reads lower-case letters as capitals, "keep" takes them as they are; NULL: upper for nucleotides, whose lower
 * case marks repeats, keep for others. ERROR_USER for any other word, and for text. */
int census_start(struct text_census *census, const struct tokenizer *tokenizer, const char *letter_case);

/* The character that one of a record is read as: a capital, where these are wanted; of nucleotides T for the U of RNA,
 * which models of DNA do not know. */
char census_read(const struct text_census *census, char character);
/* Writes ids[count], the tokens of text[count] in the present record, and counts the characters. */
void census_encode(struct text_census *census, const char *text, int64_t count, uint8_t *ids);
/* The present record is at its end. */
void census_end_record(struct text_census *census, const char *name);

/* Lower-case letters that were read as capitals, and letters U that were read as T. */
int64_t census_lowered(const struct text_census *census);
int64_t census_uracils(const struct text_census *census);
/* Counts the special tokens that were written in the texts of an encoder since it was asked last. */
void census_take_specials(struct text_census *census, struct encoder *encoder);
/* "3 special tokens (2 <|eot_id|>, 1 <pad>)", freed with free(); NULL: there are none. */
char *census_specials(const struct text_census *census);
/* Warns of special tokens that stay text; of characters that the tokenizer does not know, of nucleotides those other
 * than A C G T N, each with its number; of letters that look like another kind of sequence; of records with many
 * unknown characters. */
void census_warn(const struct text_census *census);
/* The same, and lines for letters read as capitals, for U read as T and for the number of stop symbols dropped. */
void census_report(const struct text_census *census, int64_t stops);

#endif
