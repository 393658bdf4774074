/* Converts characters of sequences to tokens and counts them, to warn of characters that the user may not expect. For
 * text tokenizers it counts special tokens written in the text. */
#ifndef PREPARE_CENSUS_H
#define PREPARE_CENSUS_H

#include "tokenizer/tokenizer.h"

enum { CENSUS_CHARACTERS = 256, CENSUS_NAME = 64, CENSUS_SPECIALS = 8 };

struct text_census {
    const struct tokenizer *tokenizer;
    bool capitals;                    /* a b c are read as A B C */
    uint8_t id_of[CENSUS_CHARACTERS]; /* token of each character */
    bool unknown[CENSUS_CHARACTERS];  /* without meaning: <unk>, or neither a base nor an ambiguity code of DNA */
    int64_t count[CENSUS_CHARACTERS]; /* number of each character, as given */
    int64_t record, record_unknown;   /* characters of the current record, and unknown ones among them */
    int64_t strange;                  /* number of records with many unknown characters */
    char strange_name[CENSUS_NAME];   /* name of the first strange record */
    double strange_share;             /* share of unknown characters in that record */
    struct {
        int32_t id;
        int64_t count;
    } specials[CENSUS_SPECIALS]; /* [special_kinds] for text: special tokens with the lowest ids, in order */
    int special_kinds;
    int64_t special_count; /* number of all special tokens */
};

/* Begins a count; with a text tokenizer no characters are counted. letter_case is the value of option --case: "upper"
 * reads lower-case letters as capitals, "keep" leaves them; NULL: "upper" for nucleotides, where lower case marks
 * repeats, else "keep". ERROR_USER: another value, or any value with a text tokenizer. */
int census_start(struct text_census *census, const struct tokenizer *tokenizer, const char *letter_case);

/* Returns the character that a given one is read as: a capital if requested; with nucleotides T for the U of RNA, which
 * models of DNA do not have. */
char census_read(const struct text_census *census, char character);
/* Writes ids[count], the tokens of text[count] in the current record, and counts the characters. */
void census_encode(struct text_census *census, const char *text, int64_t count, uint8_t *ids);
/* Ends the current record. */
void census_end_record(struct text_census *census, const char *name);

/* Return the number of lower-case letters read as capitals, and of letters U read as T. */
int64_t census_lowered(const struct text_census *census);
int64_t census_uracils(const struct text_census *census);
/* Adds the special tokens that the encoder has seen in texts since the last call. */
void census_take_specials(struct text_census *census, struct encoder *encoder);
/* Returns a text such as "3 special tokens (2 <|eot_id|>, 1 <pad>)", freed with free(); NULL if there are none. */
char *census_specials(const struct text_census *census);
/* Warns of special tokens that stay text; of characters unknown to the tokenizer (for nucleotides: other than A C G T
 * N), with their numbers; of letters typical for another kind of sequence; of records with many unknown characters. */
void census_warn(const struct text_census *census);
/* Logs the numbers of letters read as capitals, of U read as T, and of dropped stop symbols; then calls census_warn. */
void census_report(const struct text_census *census, int64_t stops);

#endif
