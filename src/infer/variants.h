/* Variants of the records of a FASTA file: changes of letters at positions that count from 1. They come from one of
 *
 *    a table   CSV or TSV with a header: column "mutation", or "mutant" as in ProteinGym's files, has a variant such as
 *              A42G or A42G:L50P (letter of the record, position, new letter), or WT for the record itself; column
 *              "name" has the record's name, and may be missing if the FASTA file has one record
 *    a VCF     CHROM (the record's name), POS, REF and ALT; each of several ALT is a row of its own
 *    a scan    every change of one letter of every record: of the 20 standard residues, or of A C G T
 *
 * Tables and VCF may be compressed (records/source.h). */
#ifndef INFER_VARIANTS_H
#define INFER_VARIANTS_H

#include "infer/references.h"

#include <stdio.h>

/* Replaces letters position .. position + removed - 1 (from 0) of the record by ids added .. added + count - 1. */
struct variant_edit {
    int64_t position, removed;
    int64_t added, count; /* offset in variants.ids, and number */
};

struct sequence_variant {
    int64_t record;
    int64_t first, count;     /* its edits, by position: offset in variants.edits, and number; 0: the record itself */
    int64_t text, bytes;      /* its row: offset in variants.text, without the line end; scans: unused */
    int64_t name, name_bytes; /* its name, as variants_name writes it: offset in variants.text; scans: unused */
    double measured;          /* NaN: none */
};

enum variants_kind { VARIANTS_TABLE, VARIANTS_VCF, VARIANTS_SCAN };

struct variant_list {
    enum variants_kind kind;
    const struct reference_list *references; /* borrowed */
    char *path;                              /* for messages; NULL: a scan */
    char *text;                              /* rows as they are written again */
    int64_t text_bytes, text_capacity;
    int64_t header, header_bytes; /* the header: offset in text, and bytes without the line end */
    char delimiter;
    char *measured; /* name of the column of measured values; NULL: none */
    struct sequence_variant *list;
    struct variant_edit *edits;
    uint8_t *ids;
    int64_t count, capacity, edit_count, edit_capacity, id_count, id_capacity;
    int64_t skipped;       /* scans: letters that are not standard, whose changes are left out */
    int64_t first_resized; /* index of the first variant that changes the length; -1: none */
};

/* Reads a table or a VCF; call variants_destroy also after an error. measured: the column of measured values; NULL:
 * DMS_score if there is one. Local. ERROR_USER, with file, line and value: a missing column, an unknown name or letter,
 * a position outside the record, a letter that is not the record's, a position twice, a value that is not a number, a
 * file without variants; errors of source_open. */
int variants_read(struct variant_list *variants, const struct reference_list *references, const char *path,
                  const char *measured);
/* Lists the scan of all records. ERROR_USER: there is no variant. */
int variants_scan(struct variant_list *variants, const struct reference_list *references);
void variants_destroy(struct variant_list *variants);

/* Writes a variant's name: of a table A42G:L50P or WT as the row has it, of a VCF REF, POS and ALT joined, as NCT10N,
 * of a scan A42G. */
void variants_name(const struct variant_list *variants, int64_t variant, FILE *file);
/* Write the header and a row as they were read (of a scan: name and mutation), without the line end. */
void variants_write_header(const struct variant_list *variants, FILE *file);
void variants_write_row(const struct variant_list *variants, int64_t variant, FILE *file);
/* Returns whether the header has a column of this name. */
bool variants_has_column(const struct variant_list *variants, const char *name);

#endif
