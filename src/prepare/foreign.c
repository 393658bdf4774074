#include "prepare/foreign.h"
#include "base/error.h"

#include <stddef.h>
#include <string.h>

static const struct {
    int64_t offset, length;
    const char *bytes, *what, *hint;
} kinds[] = {
    {0, 8, "\x89HDF\r\n\x1a\n", "an HDF5 file", "a token store goes into a deck as it is (data.train)"},
    {0, 8, "ARROW1\0\0", "an Arrow IPC (Feather) file", "write it as Parquet"},
    {0, 4, "\xff\xff\xff\xff", "an Arrow IPC stream", "write it as Parquet"},
    {0, 4, "Obj\x01", "an Avro file", "write it as Parquet"},
    {0, 5, "%PDF-", "a PDF document", "take its text out first"},
    {257, 5, "ustar", "a tar archive", "unpack it and name its files, or give: tar -xO | cistron prepare ... -"},
    {0, 4, "PK\3\4", "a zip archive (or an office document)", "unpack it first"},
    {0, 6,
     "\xfd"
     "7zXZ\0",
     "an xz file", "give: xz -dc FILE | cistron prepare ... -"},
    {4, 6, "1AY&SY", "a bzip2 file", "give: bzip2 -dc FILE | cistron prepare ... -"},
    {0, 4, "\x04\x22\x4d\x18", "an lz4 file", "give: lz4 -dc FILE | cistron prepare ... -"},
    {0, 2, "\x1f\x8b", "compressed twice", "decompress it once"},
    {0, 4, "\x28\xb5\x2f\xfd", "compressed twice", "decompress it once"},
    {0, 4, "BAM\1", "a BAM file", "give: samtools fasta FILE | cistron prepare ... -"},
    {0, 5, "CRAM\3", "a CRAM file", "give: samtools fasta FILE | cistron prepare ... -"},
    {0, 4, "\x43\x27\x41\x1a", "a 2bit file", "give: twoBitToFa FILE stdout | cistron prepare ... -"},
    {0, 16, "##fileformat=VCF", "a VCF file", "it holds variants, no sequences"},
    {0, 13, "##gff-version", "a GFF file", "it holds annotation; give its FASTA file"},
    {0, 6, "\x93NUMPY", "a NumPy array", "write its texts as JSON lines or Parquet"},
    {0, 15, "SQLite format 3", "an SQLite database", "write its texts as JSON lines or Parquet"},
    {0, 4,
     "\x7f"
     "ELF",
     "a program", "name files of records"},
};

int foreign_refuse(const char *path, const uint8_t *head, int64_t bytes)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (bytes >= kinds[i].offset + kinds[i].length &&
            memcmp(head + kinds[i].offset, kinds[i].bytes, (size_t)kinds[i].length) == 0)
            return error_user("%s: is %s, which prepare does not read; %s", path, kinds[i].what, kinds[i].hint);
    return ERROR_NONE;
}
