#include "records/foreign.h"
#include "base/error.h"
#include "records/fastq.h"
#include "records/flat.h"
#include "records/line_reader.h"
#include "records/twobit.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static const char to_fasta[] = "run: samtools fasta FILE | cistron prepare ... -",
                  to_parquet[] = "convert it to Parquet", to_records[] = "convert its texts to JSON lines or Parquet",
                  from_flat[] = "convert it to FASTA, with seqret or Biopython",
                  from_structure[] = "use the FASTA file of its chains";

static const struct {
    int64_t offset, length;
    const char *bytes, *what, *hint;
} kinds[] = {
    {0, 8, "\x89HDF\r\n\x1a\n", "an HDF5 file", "if it is a token store, name it in data.train"},
    {0, 8, "ARROW1\0\0", "an Arrow IPC (Feather) file", to_parquet},
    {0, 4, "\xff\xff\xff\xff", "an Arrow IPC stream", to_parquet},
    {0, 4, "Obj\x01", "an Avro file", to_parquet},
    {0, 5, "%PDF-", "a PDF document", "extract its text first"},
    {257, 5, "ustar", "a tar archive", "unpack it and name its files, or run: tar -xOf FILE | cistron prepare ... -"},
    {0, 4, "PK\3\4", "a zip archive (or an office document)", "unpack it first"},
    {0, 8, "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old office document", "convert it to CSV or text"},
    {0, 6,
     "\xfd"
     "7zXZ\0",
     "an xz file", "run: xz -dc FILE | cistron prepare ... -"},
    {4, 6, "1AY&SY", "a bzip2 file", "run: bzip2 -dc FILE | cistron prepare ... -"},
    {0, 4, "\x04\x22\x4d\x18", "an lz4 file", "run: lz4 -dc FILE | cistron prepare ... -"},
    {0, 2, "\x1f\x8b", "compressed twice", "decompress it once"},
    {0, 4, "\x28\xb5\x2f\xfd", "compressed twice", "decompress it once"},
    {0, 4, "BAM\1", "a BAM file", to_fasta},
    {0, 5, "CRAM\3", "a CRAM file", to_fasta},
    {0, 8, "NCBI.sra", "an SRA archive", "run: fasterq-dump --fasta --stdout FILE | cistron prepare ... -"},
    {0, 16, "##fileformat=VCF", "a VCF file", "it contains variants, not sequences"},
    {0, 13, "##gff-version", "a GFF file", "it contains annotation; use its FASTA file"},
    {0, 4, "@HD\t", "a SAM file", to_fasta},
    {0, 4, "@SQ\t", "a SAM file", to_fasta},
    {0, 4, "@RG\t", "a SAM file", to_fasta},
    {0, 4, "@PG\t", "a SAM file", to_fasta},
    {0, 10, "HEADER    ", "a PDB file", from_structure},
    {0, 10, "REMARK    ", "a PDB file", from_structure},
    {0, 7, "CRYST1 ", "a PDB file", from_structure},
    {0, 10, "MODEL     ", "a PDB file", from_structure},
    {0, 8, "ATOM    ", "a PDB file", from_structure},
    {0, 13, "# STOCKHOLM 1", "a Stockholm alignment", from_flat},
    {0, 7, "CLUSTAL", "a Clustal alignment", from_flat},
    {0, 6, "#NEXUS", "a NEXUS file", from_flat},
    {0, 6, "\x93NUMPY", "a NumPy array", to_records},
    {0, 15, "SQLite format 3", "an SQLite database", to_records},
    {0, 4,
     "\x7f"
     "ELF",
     "a program", "name a file of records"},
};

static bool begins(const uint8_t *head, int64_t bytes, const char *text)
{
    return bytes >= (int64_t)strlen(text) && memcmp(head, text, strlen(text)) == 0;
}

/* mmCIF: data_NAME, and then a line that begins with a category. */
static bool is_mmcif(const uint8_t *head, int64_t bytes)
{
    int64_t at = 0;
    if (!begins(head, bytes, "data_") || line_length_at(head, bytes, 0, &at) <= (int64_t)strlen("data_"))
        return false;
    for (; at > 0 && at < bytes; line_length_at(head, bytes, at, &at))
        if (head[at] == '_' || begins(head + at, bytes - at, "loop_"))
            return true;
        else if (head[at] != '#' && head[at] != '\n' && head[at] != '\r')
            return false;
    return false;
}

static int refuse(const char *path, const char *what, const char *hint)
{
    return error_user("%s: is %s, which is not supported (FASTA, FASTQ, GenBank, EMBL, 2bit, JSON lines, JSON, CSV, "
                      "TSV, Parquet and text "
                      "are); %s",
                      path, what, hint);
}

int foreign_refuse(const char *path, const uint8_t *head, int64_t bytes)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (bytes >= kinds[i].offset + kinds[i].length &&
            memcmp(head + kinds[i].offset, kinds[i].bytes, (size_t)kinds[i].length) == 0)
            return refuse(path, kinds[i].what, kinds[i].hint);
    const char *sequences = fastq_begins(head, bytes)     ? "a FASTQ file"
                            : genbank_begins(head, bytes) ? "a GenBank file"
                            : embl_begins(head, bytes)    ? "an EMBL or UniProt flat file"
                            : twobit_begins(head, bytes)  ? "a 2bit file"
                                                          : NULL;
    if (sequences != NULL)
        return error_user("%s: is %s, which only models of bases and residues read, and under no other --input-format",
                          path, sequences);
    if (is_mmcif(head, bytes))
        return refuse(path, "an mmCIF file", from_structure);
    return ERROR_NONE;
}
