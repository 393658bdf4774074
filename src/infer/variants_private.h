/* Declarations shared by the files that read variants. */
#ifndef INFER_VARIANTS_PRIVATE_H
#define INFER_VARIANTS_PRIVATE_H

#include "infer/variants.h"

/* Adds text to the list's, and returns its offset. */
int64_t variants_add_text(struct variant_list *v, const char *text, int64_t bytes);
/* Adds a variant of a record, without edits and name. */
struct sequence_variant *variants_add(struct variant_list *v, int64_t record);
/* Names the last variant. */
void variants_add_name(struct variant_list *v, const char *name);
/* Adds an edit to the last variant. */
void variants_add_edit(struct variant_list *v, int64_t position, int64_t removed, const char *letters, int64_t count);

/* The place of a variant in its file, for messages. */
struct variant_place {
    const struct variant_list *variants;
    int64_t line;
    const char *what; /* "mutation A42G" */
};

/* Return ERROR_USER with a message; variant_refuse_text frees `why`. */
int variant_refuse(const struct variant_place *at, const char *why);
int variant_refuse_text(const struct variant_place *at, char *why);

/* Checks that the tokenizer has these letters. */
int variant_check_letters(const struct variant_place *at, const char *letters, int64_t count);
/* Checks that the record has these letters from `position` (from 0) on. */
int variant_check_wild_type(const struct variant_place *at, int64_t record, int64_t position, const char *letters,
                            int64_t count);

/* Read the content of a file (variants_read). */
int variants_read_table(struct variant_list *v, const char *content, int64_t bytes, const char *measured);
int variants_read_vcf(struct variant_list *v, const char *content, int64_t bytes);

#endif
