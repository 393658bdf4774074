/* Files of sequences in other formats than FASTA: FASTQ, GenBank and EMBL with their features, 2bit in both byte
 * orders. They hold what the FASTA files beside them do, which other programs made (tests/golden/make_sequences.py),
 * plain, compressed and cut at any size of a read. Reads of low quality are dropped. Damaged files are refused with
 * their line, at whatever byte they are cut. */
#include "check.h"

#include "base/memory.h"
#include "data_files.h"
#include "records.h"

#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

enum { MOST = 1 << 16 };

static char wanted[MOST], got[MOST];

static const char *golden(const char *name)
{
    static char path[4096];
    const char *top = getenv("abs_top_srcdir");
    snprintf(path, sizeof path, "%s/tests/golden/sequences/%s", top != NULL ? top : ".", name);
    return path;
}

/* Removes from each name what follows its colon: the location of a feature. */
static void drop_locations(char *text)
{
    char *to = text;
    bool in_name = false, dropped = false;
    for (const char *from = text; *from != '\0'; from++) {
        in_name = *from == '>' ? true : *from == ' ' ? false : in_name;
        dropped = in_name && (dropped || *from == ':');
        /* a location may have '>' */
        if (!dropped)
            *to++ = *from;
    }
    *to = '\0';
}

/* `read` holds what `fasta` does. */
static void check_file(const char *read, const char *fasta, const struct record_settings *settings)
{
    static const struct record_settings plain = {.format = "fasta"};
    CHECK(records_read(&plain, golden(fasta), wanted, MOST) == ERROR_NONE && wanted[0] == '>');
    CHECK(records_read(settings, golden(read), got, MOST) == ERROR_NONE);
    if (settings->feature != NULL)
        drop_locations(got);
    CHECK(strlen(got) > 60);
    CHECK_STRING(got, wanted);
}

static char *read_bytes(const char *path, int64_t *count)
{
    FILE *file = fopen(path, "rb");
    CHECK(file != NULL);
    char *bytes = memory_grow(NULL, MOST);
    *count = (int64_t)fread(bytes, 1, MOST, file);
    fclose(file);
    return bytes;
}

static void check_compressed(const char *name, const char *fasta)
{
    int64_t count;
    char *bytes = read_bytes(golden(name), &count), *path = memory_string(stores_path("compressed.gz"));
    gzFile file = gzopen(path, "wb");
    CHECK(gzwrite(file, bytes, (unsigned)count) == (int)count && gzclose(file) == Z_OK);
    static const struct record_settings plain = {.format = "fasta"}, any = {0};
    CHECK(records_read(&plain, golden(fasta), wanted, MOST) == ERROR_NONE);
    CHECK(records_read(&any, path, got, MOST) == ERROR_NONE);
    CHECK_STRING(got, wanted);
    unlink(path);
    free(path);
    free(bytes);
}

/* A file that ends early is refused, or holds fewer records; nothing else happens. */
static void check_cut(const char *name)
{
    static const struct record_settings any = {.may_be_empty = true};
    int64_t count, refused = 0;
    char *bytes = read_bytes(golden(name), &count), *path = memory_string(stores_path(name));
    for (int64_t cut = 1; cut < count; cut += cut < 200 ? 1 : 37) {
        write_file(path, "wb", bytes, (size_t)cut);
        const int code = records_read(&any, path, got, MOST);
        CHECK(code == ERROR_NONE || code == ERROR_USER);
        refused += code == ERROR_USER;
        error_clear();
    }
    printf("%s: %lld cuts refused\n", name, (long long)refused);
    CHECK(refused > 20);
    unlink(path);
    free(path);
    free(bytes);
}

static void refuse(const char *name, const char *text, const char *words)
{
    static const struct record_settings genes = {.feature = "CDS"};
    write_file(stores_path(name), "wb", text, strlen(text));
    CHECK_USER(records_read(&genes, stores_path(name), got, MOST), words);
    unlink(stores_path(name));
}

static void check_mistakes(void)
{
    refuse("a.fq", "@a\nACGT\n+\nIIII\n@b\nAC\n+\nI\n", "a.fq:8: a FASTQ record must have as many quality characters");
    refuse("a.fq", "@a\nACGT\n+\nIIII\nACGT\n", "a.fq:5: a FASTQ record must begin with a line '@name'");
    refuse("a.fq", "@a\nACGT\n+\nIIII\n@b\nAC\nAC\n+\nIIII\n", "a.fq:7: the third line of a FASTQ record must begin");
    refuse("a.fq", "@a\nACGT\n+\nII\tI\n", "a.fq:4: a character that is not a quality");
    refuse("a.fq", "@a\nACGT\n+\nIIII\n@b\nAC\n+\n", "a.fq:7: the file ends within a FASTQ record");
    refuse("a.gb", "LOCUS       A\nORIGIN\n        1 acgt\n", "a.gb:3: the file ends within an entry");
    refuse("a.gb", "LOCUS       A\nORIGIN\n        1 acgt\n//\nACGT\n",
           "a.gb:5: a GenBank entry must begin with a line LOCUS");
    refuse("a.gb",
           "LOCUS       A\nFEATURES\n     CDS             2..5\n                     /x=\"y\"\nORIGIN\n        1 "
           "acgt\n//\n",
           "a.gb: entry A: the location 2..5 of a feature is beyond its 4 letters");
    refuse("a.embl", "ID   A; SV 1;\nSQ   x\n     ac\1gt         5\n//\n", "a.embl:3: a byte that is not a letter");
    static const char *const others[] = {"J00194.1:1..2", "1^2", "one-of(1,2)", "complement(1..2", "1..2)", "join()"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char *text = memory_format("LOCUS       A\nFEATURES\n     CDS             %s\n     CDS             "
                                   "complement(2..3)\nORIGIN\n        1 aacg\n//\n",
                                   others[i]);
        static const struct record_settings genes = {.feature = "CDS"};
        write_file(stores_path("a.gb"), "wb", text, strlen(text));
        CHECK(records_read(&genes, stores_path("a.gb"), got, MOST) == ERROR_NONE);
        CHECK_STRING(got, ">A:complement(2..3) GT");
        free(text);
    }
    unlink(stores_path("a.gb"));
}

int main(void)
{
    int64_t low = 0;
    const struct record_settings any = {0}, genes = {.feature = "CDS"}, good = {.min_quality = 20, .low_quality = &low},
                                 named = {.format = "genbank"};
    stores_begin();
    check_file("reads.fastq", "reads.fastq.fa", &any);
    check_file("reads.fastq", "reads.fastq.20.fa", &good);
    CHECK(low > 5 && low < 35);
    check_file("entries.gb", "entries.gb.fa", &any);
    check_file("entries.gb", "entries.gb.fa", &named);
    check_file("entries.embl", "entries.embl.fa", &any);
    check_file("entries.gb", "entries.gb.CDS.fa", &genes);
    check_file("entries.embl", "entries.embl.CDS.fa", &genes);
    check_file("genome.2bit", "2bit.fa", &any);
    check_file("swapped.2bit", "2bit.fa", &any);
    check_compressed("reads.fastq", "reads.fastq.fa");
    check_compressed("entries.gb", "entries.gb.fa");
    static const char *const names[] = {"reads.fastq", "entries.gb", "entries.embl", "genome.2bit", "swapped.2bit"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        check_cut(names[i]);
    check_mistakes();
    stores_end();
    return check_end();
}
