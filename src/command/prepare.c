/* cistron prepare */
#include "command/command.h"
#include "prepare/prepare.h"

static struct prepare_settings given = {.seed = 42};
static int64_t seed = 42;

static int run(const struct command_environment *environment, char **arguments, int count)
{
    (void)environment;
    given.seed = (uint64_t)seed;
    given.inputs = (const char *const *)arguments;
    given.input_count = count;
    return prepare_run(&given);
}

static const struct command_option options[] = {
    {"tokenizer", 0, "NAME", COMMAND_TEXT, true, &given.tokenizer,
     "nucleotide, nucleotide_mask, esm2, amplify, or the file or folder of a text tokenizer"},
    {"format", 0, "NAME", COMMAND_TEXT, false, &given.format,
     "format of the output: store, or megatron (a data set of Megatron-LM, OUT.bin and OUT.idx)"},
    {"append-eod", 0, NULL, COMMAND_FLAG, false, &given.append_eod, "Megatron: append the end token to each record"},
    {"split", 0, "PARTS", COMMAND_TEXT, false, &given.split, "one store per part, such as train:0.95,valid:0.05"},
    {"split-column", 0, "NAME", COMMAND_TEXT, false, &given.split_column,
     "CSV, TSV, Parquet, FASTA (NAME=...): field that says train, valid (validation) or test of each record"},
    {"clusters", 0, "FILE", COMMAND_PATH, false, &given.clusters,
     "clusters of records that --split keeps together: MMseqs2's cluster.tsv, or a .clstr of CD-HIT"},
    {"drop-duplicates", 0, NULL, COMMAND_FLAG, false, &given.drop_duplicates,
     "drop records whose sequence an earlier one has"},
    {"seed", 0, "N", COMMAND_INTEGER, false, &seed, "seed of the split (42)"},
    {"input-format", 0, "NAME", COMMAND_TEXT, false, &given.input_format,
     "fasta, fastq, genbank, embl, 2bit, jsonl, json (an array of objects), csv, tsv, parquet, text (a file is a "
     "record) "
     "or lines (a line is a record) (detected from name and content)"},
    {"min-quality", 0, "Q", COMMAND_REAL, false, &given.min_quality,
     "FASTQ: drop reads whose mean error probability is above that of this Phred quality"},
    {"regions", 0, "FILE", COMMAND_PATH, false, &given.regions,
     "nucleotides: take the regions of this BED file as records, on their strands"},
    {"feature", 0, "KEY", COMMAND_TEXT, false, &given.feature,
     "GenBank, EMBL: take each feature with this key (CDS, gene, ...) as a record, on its strand"},
    {"field", 0, "NAME", COMMAND_TEXT, false, &given.field,
     "JSON, CSV, TSV, Parquet: field with a record's sequence (text)"},
    {"labels", 0, "NAMES", COMMAND_TEXT, false, &given.labels,
     "labels for fine-tuning, stored with the sequences: columns of CSV, TSV or Parquet, members of JSON, or "
     "NAME=value in FASTA headers"},
    {"label-kind", 0, "KIND", COMMAND_TEXT, false, &given.label_kind,
     "class (of each record), number (one or more a record, --labels A,B), or token (a character for each token) "
     "(class)"},
    {"classes", 0, "NAMES", COMMAND_TEXT, false, &given.classes,
     "the classes in order, such as no,yes (those of the records; whole numbers stand for themselves)"},
    COMMAND_SKIP_BAD(&given.skip_bad),
    COMMAND_CASE(&given.letter_case),
    {"threads", 0, "N", COMMAND_INTEGER, false, &given.threads, "threads that encode text (0: one per CPU)"},
    {"output", 'o', "OUT.h5", COMMAND_PATH, true, &given.output,
     "output file, with --split OUT.<part>.h5 for each part; Megatron: prefix OUT"},
    COMMAND_FORCE(&given.replace),
    {0}};

const struct command command_prepare = {
    .name = "prepare",
    .arguments = "FILES...",
    .summary = "turn FASTA, FASTQ, GenBank, JSON, CSV, Parquet or text into a token store",
    .help = "Reads FASTA, FASTQ, GenBank, EMBL, JSON lines, JSON arrays, CSV, TSV and text (plain, .gz or .zst; - is\n"
            "standard input), 2bit and Parquet files, and writes a token store. A folder stands for its files, a "
            "quoted pattern ('*.parquet')\n"
            "for the files that match; a file without a record causes a warning. A record is named by its member or\n"
            "column record, else id (a string or an integer), else by the number of its line, element or row, from 1.\n"
            "--split writes OUT.train.h5, OUT.valid.h5, ... divided by position. Lower-case (soft-masked) letters of\n"
            "nucleotides are read as capitals and counted. Proteins (esm2, amplify): one stop symbol * at the end of\n"
            "a record is dropped; lower-case letters and other characters that are not tokens become <unk> and are\n"
            "counted. The folder of OUT.h5 is created if it does not exist.\n\n"
            "Text: --tokenizer names a tokenizer.json of Hugging Face, a tokenizer.model of SentencePiece (Llama 2,\n"
            "Mistral 7B) or of tiktoken (Llama 3), or a folder with one of them, with vocab.json and merges.txt, or\n"
            "with vocab.txt: BPE, Unigram, WordPiece, tables of words and k-mers. Each record is encoded as a whole,\n"
            "and the store keeps the tokenizer's files.",
    .options = options,
    .least = 1,
    .most = -1,
    .run = run,
};
