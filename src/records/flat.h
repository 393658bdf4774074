/* Readers of flat files with features: GenBank and EMBL (with UniProt), plain, gzip or zstd (records/source.h).
 * Formats: the release notes of GenBank, and the user manuals of EMBL and UniProt.
 *
 *    GenBank  LOCUS ... ORIGIN, numbered lines of letters, //. The name is the first word of VERSION, else of
 * ACCESSION, else of LOCUS EMBL     ID ... SQ, lines of letters that end with a number, //. The name is the first
 * accession of AC, else the first word of ID
 *
 * Letters become capitals: in these files their case means nothing. A record is an entry's sequence; an entry without
 * one (CONTIG) is a record without letters. With settings->feature a record is a feature with this key (CDS, gene,
 * ...), named ENTRY:LOCATION, and its letters are those of the location in the feature table of INSDC: ranges, join,
 * order and complement, which is the reverse complement. Locations of other forms (in other entries, between bases) are
 * dropped, with a warning that names one. Memory grows with the longest entry.
 *
 * User errors name file and line: an entry that does not begin with LOCUS or ID or does not end with //, a location
 * beyond the sequence; and the errors of record_clean and source_read. */
#ifndef RECORDS_FLAT_H
#define RECORDS_FLAT_H

#include "records/record_class.h"

extern const struct record_class genbank_class, embl_class;

/* Return whether a file that begins with head[bytes] has the format. */
bool genbank_begins(const uint8_t *head, int64_t bytes);
bool embl_begins(const uint8_t *head, int64_t bytes);

#endif
