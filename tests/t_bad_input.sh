#!/bin/bash
# More than 160 mistakes of users each end within seconds with the right exit code on every rank, with one message, and
# leave no unfinished file: decks, stores, checkpoints, records, sealed and vanished folders.
. "$abs_top_srcdir/tests/lib.sh"
small_deck || exit 1
RANKS_SECONDS=60
edit="$abs_top_builddir/tests/hdf5_edit"

# -- What the cases read

cd "$work" || exit 1
: >empty
printf '\1\2ACGT\n\377' >binary
mkdir folder taken.h5
gzip -c g.fa >whole.gz
head -c 5000 whole.gz >cut.gz
zstd -q -c g.fa >cut.zst && cp cut.zst damaged.zst && truncate -s 4000 cut.zst
cp whole.gz damaged.gz
for file in damaged.gz damaged.zst; do
    printf 'XXXXXXXX' | dd of=$file bs=1 seek=3000 conv=notrunc 2>/dev/null
done
printf 'ACGT\n' >headless.fa
printf '>a\n>b\n\n>c\n' >hollow.fa
printf '>a\nAC\377GT\n' >latin.fa
printf '>a one\rACGT\rACGT\r>b\rAC\r' >mac.fa
printf '\357\273\277{"text": "ACGT"}\n' >mark.jsonl
printf '{"text": "ACGT"}\n' | iconv -t UTF-16 >wide.jsonl
printf '@read\nACGT\n+\nIII\n' >reads.fastq
printf 'LOCUS       X 4 bp DNA\nORIGIN\n        1 acgt\n//\n' >genes.gb
printf '[{"text": "ACGT", "id": 0}, {"text": "ACGT", "id": 1.5}]\n' >ids.json
printf '[{"text": "ACGT"}, {"text": "AC' >open.json
printf 'id,sequence\n0,ACGT\n' >table.csv
printf 'id,text\n0,ACGT\n1,A,C\n' >ragged.csv
printf '{"text": "ACGT"}\n{"text": null}\n{}\n' >null.jsonl
printf '{"text": "ACGT", "a": 1e999, "b": NaN, "c": 99999999999999999999}\n' >members.jsonl
printf 'ACGT\n' >plain.txt
{ printf '>' && head -c 2000000 /dev/zero | tr '\0' A; } >long_name.fa
{ printf '>a\n' && head -c 20000000 /dev/zero | tr '\0' A; } >long_line.fa
printf '>a\nACGTACGTACGTACGTACGTACGTACGTAC\n>b\nACGTACGTACGTACGTACGT\n>c\n\n>d\nACGTACGTAC\n' >few.fa

printf '{"text": "ACGT"}\n{"text": "ACGT"\n' >open.jsonl
printf '{"text": "ACGT"}\n["ACGT"]\n' >list.jsonl
printf '{"text": "ACGT"}\n\n{"sequence": "ACGT"}\n' >other_field.jsonl
printf '{"text": 4}\n' >number.jsonl
printf '{"text": "AC\\u0007GT"}\n' >bell.jsonl
printf '{"text": "AC\377GT"}\n' >latin.jsonl
printf '{"text": "", "id": "a"}\n' >hollow.jsonl
printf '>a\nACGT\n' >fasta.jsonl
printf '{"text": "ACGT"}\n>a\nACGT\n' >mixed
printf '{"text": "ACGTACGT"}\n{"text": "AC"}\n' | gzip -c | head -c 40 >cut.jsonl.gz
{ printf '{"text": "' && head -c 20000000 /dev/zero | tr '\0' A && printf '"}\n'; } >long_line.jsonl

printf 'train = { steps = 5;\n model = \n' >syntax.cfg
printf 'train = { steps = 5; };\ntrain = { steps = 6; };\n' >twice.cfg
printf 'train = { resume = "auto };\n' >open.cfg
printf 'output = { folder = "%s"; };\n' "$(head -c 10000 /dev/zero | tr '\0' a)" >long.cfg
printf '@include "nowhere.cfg"\n' >include.cfg
printf '@include "circle.cfg"\n' >circle.cfg
mkfifo pipe
printf '@include "pipe"\n' >piped.cfg
seq 10000 | sed 's/.*/k&=1;/' >keys.cfg
seq 1000 | sed 's/.*/k&=1;/' >lines.cfg
printf '\n\ntrain = { steps = 3000000000; };\n' >wraps.cfg
printf 'train = 3;\n' >section.cfg
printf '\357\273\277train = { steps = 5; };\n' >mark.cfg
printf 'train = { steps = ( 1, 2 ); };\n' >list.cfg
printf 'train = { steps = 5; };\nmodel = { layers = "two"; hidden = 1.5; };\nfoo = 3;\n' >three.cfg

"$CISTRON" deck >reference.cfg # parses; it lacks a store alone
"$CISTRON" prepare --tokenizer nucleotide -o store.h5 few.fa >/dev/null || exit 1
for name in foreign newer unsorted unspanned cut; do
    cp store.h5 $name.h5
done
"$edit" foreign.h5 tokenizer amino_acid && "$edit" newer.h5 cistron_store 9 && "$edit" unsorted.h5 '/offsets[1]' 55 &&
    "$edit" unspanned.h5 '/offsets[3]' 59 || exit 1
truncate -s -100 cut.h5

cp -r "$abs_top_srcdir"/tests/golden/{llama,esm2}_tiny .
# a run of 4 steps, damaged in several ways
cp g.train.h5 again.h5
ranks 2 train deck.cfg data.train=again.h5 train.steps=4 checkpoint.every=2 validation.every=0
check "a run to start from" codes_are 0 2
mv run made
genome 2 50000 >other.fa
"$CISTRON" prepare --tokenizer nucleotide --force -o again.h5 other.fa >/dev/null || exit 1
step=made/step_00000004.h5
for name in cut flipped next bare sideless; do
    cp $step $name.step.h5
    cp $step.xxh3 $name.step.h5.xxh3
done
truncate -s -1 cut.step.h5
printf 'X' | dd of=flipped.step.h5 bs=1 seek=30000 conv=notrunc 2>/dev/null
"$edit" next.step.h5 cistron_checkpoint 9 || exit 1
rm next.step.h5.xxh3
printf 'cistron-blocks 1 12\n' >bare.step.h5.xxh3
mkdir -p stopped && cp $step $step.xxh3 stopped/
cp again.h5 sideless.step.h5
rm sideless.step.h5.xxh3

# -- The cases: name | command line | exit code | what is said once. `train` runs on 2 ranks, the rest needs none.

prepare="prepare --tokenizer nucleotide -o x.h5"
from_run="train deck.cfg data.train=g.train.h5"
cat >cases <<END
no FASTA file                   | $prepare none.fa                          | 2 | none.fa: cannot open: No such file or directory (seen from $PWD)
an empty FASTA file             | $prepare empty                            | 2 | empty: has no record
empty files alone               | $prepare empty empty                      | 2 | empty: has no record
an empty file among others      | $prepare -o y.h5 few.fa empty             | 0 | warning: 1 of 2 files have no record; the first of these files is empty
a binary file for FASTA         | $prepare binary                           | 2 | this is binary data, not FASTA text
a byte beyond ASCII             | $prepare g.fa latin.fa                    | 2 | latin.fa:2: byte 0xff
truncated gzip                  | $prepare cut.gz                           | 2 | cut.gz: the compressed file is truncated
damaged gzip                    | $prepare damaged.gz                       | 2 | damaged.gz: damaged gzip data
truncated zstd                  | $prepare cut.zst                          | 2 | cut.zst: the compressed file is truncated
damaged zstd                    | $prepare damaged.zst                      | 2 | damaged.zst: damaged zstd data
no header                       | $prepare headless.fa                      | 2 | headless.fa:1: not FASTA
headers alone                   | $prepare hollow.fa                        | 2 | no record has a sequence
a header line without end       | $prepare long_name.fa                     | 2 | no record has a sequence
line ends of old Macs           | $prepare mac.fa                           | 2 | mac.fa:1: a carriage return within the line
a byte order mark               | $prepare -o y.h5 mark.jsonl               | 0 | y.h5: 4 bases
UTF-16                          | $prepare wide.jsonl                       | 2 | wide.jsonl: is UTF-16, but must be UTF-8; convert it: iconv -f UTF-16
FASTQ                           | $prepare reads.fastq                      | 2 | reads.fastq:4: a FASTQ record must have as many quality characters as letters
FASTQ to score                  | eval --checkpoint made --fasta reads.fastq -o y.json | 2 | reads.fastq:4: a FASTQ record must have as many quality characters as letters
FASTQ to embed                  | embed --checkpoint made --fasta reads.fastq -o y.h5 | 2 | reads.fastq:4: a FASTQ record must have as many quality characters as letters
FASTQ for prompts               | generate --checkpoint made --input reads.fastq | 2 | reads.fastq:4: a FASTQ record must have as many quality characters as letters
GenBank                         | $prepare --input-format fasta genes.gb    | 2 | genes.gb: is a GenBank file
an id that is a float           | $prepare ids.json                         | 2 | ids.json:1: member "id" is the record's name: it must be a string or an integer
a JSON array cut short          | $prepare open.json                        | 2 | open.json:1: is not a JSON array of objects: the file ends within this element
CSV without the column          | $prepare table.csv                        | 2 | table.csv: has no column "text"; name the column of the sequence with --field. It has: id, sequence
CSV                             | $prepare -o y.h5 --field sequence table.csv | 0 | y.h5: 4 bases
a row of too many cells         | $prepare ragged.csv                       | 2 | ragged.csv:3: has 3 cells, the header has 2
rows that are left out          | $prepare -o y.h5 --skip-bad ragged.csv    | 0 | 1 record without field "text" skipped (--skip-bad)
a null for a sequence           | $prepare null.jsonl                       | 2 | null.jsonl:2: field "text" is null; --skip-bad skips such records
nulls that are left out         | $prepare -o y.h5 --skip-bad null.jsonl    | 0 | 2 records without field "text" skipped (--skip-bad)
nulls left out of an evaluation | eval --checkpoint made --input null.jsonl --skip-bad -o y.json | 0 | 2 records without field "text" skipped (--skip-bad)
nulls left out of prompts       | generate --checkpoint made --input null.jsonl --skip-bad --tokens 2 | 0 | 2 records without the field skipped (--skip-bad)
nothing but what is left out    | $prepare --skip-bad --field x null.jsonl  | 2 | null.jsonl: no record has a sequence: --skip-bad skipped 3
numbers that nobody asked for   | $prepare -o y.h5 members.jsonl            | 0 | y.h5: 4 bases
a field of plain text           | $prepare --input-format lines --field x plain.txt | 2 | plain.txt: --field x: plain text has no fields
prompts of a field of text      | generate --checkpoint made --field x --input plain.txt | 2 | plain.txt: --field x: plain text has no fields
a folder for FASTA              | $prepare folder                           | 2 | folder: the folder has no files
a pattern for nothing           | $prepare no*such.fa                       | 2 | no*such.fa: no file matches
nothing on standard input       | $prepare -                                | 2 | <stdin>: has no record
a store for FASTA               | $prepare store.h5                         | 2 | store.h5: is an HDF5 file
a line of 20 MB                 | $prepare -o y.h5 long_line.fa             | 0 | 20000000 bases
records without sequence        | $prepare -o y.h5 few.fa                   | 0 | in 3 sequences
a JSON line that does not end   | $prepare open.jsonl                       | 2 | open.jsonl:2: is not JSON
a JSON line that is a list      | $prepare list.jsonl                       | 2 | list.jsonl:2: is not a JSON object
a JSON line without the field   | $prepare other_field.jsonl                | 2 | other_field.jsonl:3: has no field "text"
a number for a sequence         | $prepare number.jsonl                     | 2 | number.jsonl:1: field "text" is not a string
a control character in JSON     | $prepare bell.jsonl                       | 2 | bell.jsonl:1: field "text" contains byte 0x07
JSON that is not UTF-8          | $prepare latin.jsonl                      | 2 | latin.jsonl:1: is not JSON
empty JSON sequences alone      | $prepare hollow.jsonl                     | 2 | no record has a sequence
FASTA that is named JSON lines  | $prepare fasta.jsonl                      | 2 | fasta.jsonl:1: is not JSON
FASTA behind JSON lines         | $prepare mixed                            | 2 | mixed:2: is not JSON
truncated JSON lines            | $prepare cut.jsonl.gz                     | 2 | cut.jsonl.gz: the compressed file is truncated
an empty JSON lines file        | $prepare --field x -                      | 2 | <stdin>: has no
a JSON line of 20 MB            | $prepare -o y.h5 long_line.jsonl          | 0 | 20000000 bases
output is the input             | $prepare -o g.fa g.fa                     | 2 | is an input and the output
output is a folder              | $prepare -o taken.h5 g.fa                 | 2 | taken.h5: exists and is not a regular file
output is a folder to be        | $prepare -o fresh/ g.fa                   | 2 | fresh/: is a folder
output is standard output       | $prepare -o - g.fa                        | 2 | -: this output cannot go to standard output
a file for a folder             | import llama_tiny/config.json -o x.h5     | 2 | config.json: cannot read the folder: Not a directory
another tokenizer than ESM-2's   | import esm2_tiny -o x.h5 --tokenizer amplify | 2 | cistron: --tokenizer amplify: the ids of esm2_tiny are those of esm2
two inputs                      | eval --checkpoint made --fasta g.fa --input few.fa -o y.h5 | 2 | --fasta and --input: give only one of them
import over its source          | import llama_tiny -o llama_tiny/model-00001-of-00003.safetensors | 2 | model-00001-of-00003.safetensors: is an input and the output
report of endless tokens        | report made --tokens inf                  | 2 | --tokens inf: must be a finite number, 0 or above
report over its log             | report made -o made/log.jsonl             | 2 | made/log.jsonl: is an input and the output
output where no folder can be   | $prepare -o g.fa/x.h5 g.fa                | 2 | g.fa/x.h5: its folder cannot be created: Not a directory
no such tokenizer               | prepare --tokenizer none -o x.h5 g.fa     | 2 | none
no tokenizer                    | prepare -o x.h5 g.fa                      | 2 | missing: --tokenizer NAME;
parts that sum to 1.1           | $prepare --split a:0.5,b:0.6 g.fa         | 2 | sum to 1.1
a seed that is no number        | $prepare --seed many g.fa                 | 2 | --seed many
no such option                  | $prepare --frob g.fa                      | 2 | --frob: is not an option
nothing to inspect              | inspect                                   | 2 | missing: FILE;
inspecting text                 | inspect deck.cfg                          | 2 | deck.cfg: is not an HDF5 file
inspecting an empty folder      | inspect folder                            | 2 | has no checkpoint
a store alone for a baseline    | baseline g.train.h5                       | 2 | missing: TRAIN.h5 VALID.h5;
a wrong order behind a good one | baseline --orders 3,13 g.train.h5 g.valid.h5 | 2 | --orders 3,13: an order must be between 0 and 12 for nucleotide tokens
no such option of deck          | deck --frob                               | 2 | --frob: is not an option
no such command                 | frobnicate                                | 2 | unknown command "frobnicate"
a command misspelt              | trian deck.cfg                            | 2 | unknown command "trian"; did you mean train?
a command cut short             | evaluate                                  | 2 | unknown command "evaluate"; did you mean eval?
an option misspelt              | plan --rank 2 deck.cfg                    | 2 | --rank: is not an option of this command; did you mean --ranks?
an option with a value misspelt | plan --ranx=2 deck.cfg                    | 2 | --ranx=2: is not an option of this command; did you mean --ranks?
a deck misspelt                 | plan quickstrat                           | 2 | has no deck of that name; the nearest is quickstart

no deck                         | train                                     | 2 | missing: DECK
FASTA for a deck                | train g.fa                                | 2 | g.fa: it looks like FASTA
JSON lines for a deck           | train number.jsonl                        | 2 | number.jsonl: it looks like JSON
a pipe for a deck               | train pipe                                | 2 | pipe: it is not a regular file
a pipe taken in                 | train piped.cfg                           | 2 | piped.cfg:1: @include pipe: it is not a regular file
no shipped deck either          | train lingua                              | 2 | lingua: No such file or directory (seen from $PWD);
no such key at all              | train deck.cfg foo.bar=1                  | 2 | key foo.bar: unknown key; cistron deck
no folder                       | train deck.cfg output.folder=             | 2 | output.folder = : must be a string of 1 to 4095
ten thousand keys               | train keys.cfg                            | 2 | too many keys for a deck
ten thousand mistakes           | train lines.cfg                           | 2 | and more of this kind
a deck that is not there        | train none.cfg                            | 2 | none.cfg: No such file
a folder for a deck             | train folder                              | 2 | folder: it is a folder, not a deck
a store for a deck              | train store.h5                            | 2 | store.h5: it is a binary file, not a deck
a syntax error                  | train syntax.cfg                          | 2 | syntax.cfg:3: syntax error
a string without end            | train open.cfg                            | 2 | open.cfg:1: syntax error: this string does not end
a string too long               | train long.cfg                            | 2 | must be a string of 1 to
a section given twice           | train twice.cfg                           | 2 | twice.cfg:2: key train: is set twice
a missing include               | train include.cfg                         | 2 | include.cfg:1: @include nowhere.cfg: No such file
an include of itself            | train circle.cfg                          | 2 | circular @include: circle.cfg, circle.cfg
an integer past 32 bits         | train wraps.cfg                           | 2 | wraps.cfg:3: key train.steps = 3000000000
a byte order mark               | train mark.cfg                            | 2 | mark.cfg: it begins with a byte order mark
a section that is a value       | train section.cfg                         | 2 | section.cfg:1: key train: is a section
a list for a number             | train list.cfg                            | 2 | list.cfg:1: key train.steps
the first of three mistakes     | train three.cfg                           | 2 | three.cfg:2: key model.layers
the last of three mistakes      | train three.cfg                           | 2 | three.cfg:3: key foo: unknown key
an empty deck                   | train empty                               | 2 | key data.train: not set
the reference deck              | train reference.cfg                       | 2 | key data.train: not set
a key of other programs         | train deck.cfg train.learning_rate=3      | 2 | train.learning_rate: unknown; its name here is optimizer.lr
epochs                          | train deck.cfg epochs=3                   | 2 | epochs: unknown; its name here is train.epochs (cistron plan prints
blanks around =                 | train deck.cfg train.steps = 3            | 2 | train.steps = 3: an override is one argument; write train.steps=3
a blank behind =                | train deck.cfg train.steps= 3             | 2 | train.steps= 3: an override is one argument; write train.steps=3
yes, not true                   | train deck.cfg checkpoint.at_end=yes      | 2 | key checkpoint.at_end = yes: must be true or false
resume is no switch             | train deck.cfg train.resume=yes           | 2 | key train.resume = "yes": must be "auto"
unknown key                     | train deck.cfg model.hiden=3              | 2 | model.hiden: unknown; the nearest known key is model.hidden
an override without a value     | train deck.cfg train.steps                | 2 | train.steps: is not an override; write key=value
an empty number                 | train deck.cfg train.steps=               | 2 | train.steps = : must be an integer
a number with a tail            | train deck.cfg train.steps=5x             | 2 | train.steps = 5x: must be an integer
a number past 64 bits           | train deck.cfg train.steps=99999999999999999999 | 2 | must be an integer
more layers than fit            | train deck.cfg model.layers=1099511627776 | 2 | model.layers = 1099511627776: must be
more parameters than fit        | train deck.cfg model.hidden=1048576 model.heads=4096 model.kv_heads=1 model.layers=9999 | 2 | parameters
not a number                    | train deck.cfg optimizer.lr=nan           | 2 | optimizer.lr = nan: must be a number
out of range                    | train deck.cfg optimizer.beta2=1.5        | 2 | optimizer.beta2 = 1.5: must be
wrong choice                    | train deck.cfg data.format=bshd           | 2 | data.format = bshd: must be one of
no such preset                  | train deck.cfg model.preset=llama9        | 2 | model.preset = "llama9"
heads that do not divide        | train deck.cfg model.kv_heads=3           | 2 | model.kv_heads = 3
a width that heads do not divide | train deck.cfg model.hidden=33           | 2 | model.hidden = 33 is not a multiple of
a window of masked models        | train deck.cfg data.source=random model.objective=masked model.sliding_window=8 | 2 | model.sliding_window = 8: needs a causal model
a window and a ring              | train deck.cfg model.sliding_window=8 parallel.context=2 parallel.context_method=ring | 2 | parallel.context_method = "ring": not with model.sliding_window = 8
a window below 0                 | train deck.cfg model.sliding_window=-2     | 2 | model.sliding_window = -2: must be
z-loss of a fine-tuning head      | train deck.cfg data.source=random model.family=esm2 model.head=token model.num_labels=2 train.z_loss=1e-4 | 2 | key train.z_loss = 0.0001: not with a fine-tuning head
no head to train                 | train deck.cfg data.source=random model.family=esm2 model.head=none | 2 | key model.head = "none": there is nothing to train
experts beyond the family        | train deck.cfg model.num_local_experts=8 | 2 | model.num_local_experts = 8: models of family llama have no experts
experts of tensor ranks          | plan deck.cfg model.family=mixtral model.num_local_experts=7 parallel.tensor=2 --ranks 2 | 2 | key parallel.tensor = 2: must divide model.num_local_experts, 7
experts in slices of the MLP     | train deck.cfg model.family=mixtral memory.mlp_tokens=64 | 2 | key memory.mlp_tokens = 64: not with experts
biases beyond the family's       | train deck.cfg model.family=qwen2 model.mlp_bias=true | 2 | model.mlp_bias = true: not with model.family = "qwen2"
a vocabulary too small          | train deck.cfg model.vocabulary=100       | 2 | model.vocabulary = 100
row not a multiple of 16        | train deck.cfg data.row_tokens=65         | 2 | data.row_tokens = 65
window beyond the row           | train deck.cfg data.window=128            | 2 | data.window = 128
overlap beyond the window       | train deck.cfg data.overlap=64            | 2 | data.overlap = 64
batch past 31 bits              | train deck.cfg train.micro_batch=2147483647 | 2 | train.micro_batch = 2147483647
more ranks than rows            | train deck.cfg train.global_batch=1 train.steps=1 output.folder=one | 0 | # 2 ranks
parts of a token store          | train deck.cfg data.split_ratios=9,1 train.steps=1 output.folder=whole | 0 | warning: key data.split_ratios = "9,1": applies to Megatron data sets only
longer than the preset's        | train deck.cfg model.preset=og2_7b data.row_tokens=8208 | 2 | data.row_tokens = 8208: sequences are longer than the 8192 tokens of model.preset = "og2_7b"
longer than the model's         | train deck.cfg model.positions=32 data.window=33 | 2 | data.window = 33: sequences are longer than the 32 tokens of model.positions
ranks that do not share rows    | train deck.cfg parallel.context=3         | 2 | parallel.context = 3: must divide the number of ranks, 2
rows without two slices a rank  | train deck.cfg parallel.context=2 data.row_tokens=48 | 2 | data.row_tokens = 48: must be a multiple of 64
heads that ranks cannot divide  | train deck.cfg parallel.context=2 parallel.context_method=heads model.heads=1 model.kv_heads=1 | 2 | parallel.context = 2: must divide model.heads, 1, with parallel.context_method = "heads"
ranks that do not share layers  | train deck.cfg parallel.tensor=3          | 2 | parallel.tensor = 3: must divide the number of ranks, 2
kv heads that they cannot divide | plan --ranks 4 deck.cfg parallel.tensor=4 model.heads=12 model.kv_heads=3 model.head_dim=8 | 2 | parallel.tensor = 4: must divide model.kv_heads, 3
tokens that they cannot divide  | plan --ranks 6 deck.cfg parallel.tensor=6 train.micro_batch=1 data.row_tokens=16 | 2 | parallel.tensor = 6: must divide the 16 tokens
tokens that are too few         | plan --ranks 8 deck.cfg parallel.tensor=8 data.train=random model.vocabulary=5 model.heads=8 model.hidden=64 model.kv_heads=8 model.ffn=64 | 2 | parallel.tensor = 8: must be at most model.vocabulary, 5
layers and rows of too many     | plan --ranks 4 deck.cfg parallel.tensor=4 parallel.context=2 | 2 | parallel.context = 2: must divide 1, which is the number of ranks, 4, over parallel.tensor = 4
ranks that are no stages        | train deck.cfg parallel.pipeline=3        | 2 | parallel.pipeline = 3: must divide the number of ranks, 2
more parts than layers          | train deck.cfg parallel.pipeline=2 parallel.virtual_stages=2 train.global_batch=8 | 2 | with parallel.virtual_stages = 2 the model is divided into 4 chunks, but its 2 layers make 3 at most
parts of no stage               | train deck.cfg parallel.virtual_stages=2         | 2 | parallel.virtual_stages = 2: needs parallel.pipeline above 1
micro-batches that do not divide | plan --ranks 4 deck.cfg model.layers=8 parallel.pipeline=4 parallel.virtual_stages=2 train.micro_batch=1 train.global_batch=6 | 2 | train.global_batch = 6: a rank has 6 micro-batches of it; parallel.virtual_stages = 2 needs a multiple of parallel.pipeline = 4, such as with train.global_batch = 8
parts, of what ranks of a row have left | plan --ranks 8 deck.cfg model.layers=4 parallel.pipeline=2 parallel.virtual_stages=2 train.micro_batch=1 train.global_batch=5 parallel.context=0 device.memory=0.0001 | 2 | key device.memory: a rank needs
ranks of a row, state to be chosen | plan --ranks 2 deck.cfg parallel.shard=auto parallel.context=4 | 2 | parallel.context = 4: must divide the number of ranks, 2
sizes that cannot be halved     | measure -o rates.cfg --largest 1000       | 2 | --largest 1000: must be a power of two
neither a profile nor a check   | measure                                   | 2 | measure: missing: -o, --output OUT.cfg (or --check)
a profile and a check           | measure -o rates.cfg --check              | 2 | --output is for machine profiles, not for --check
a share that all are below      | measure --check --slow 1                  | 2 | --slow 1: must be from 0 to below 1
a folder for rates              | measure -o folder --quick                 | 2 | folder: exists and is not a regular file
ranks that do not share state   | train deck.cfg parallel.shard=full parallel.shard_size=3 | 2 | parallel.shard_size = 3: must divide
ranks of no sharding group      | train deck.cfg parallel.shard_size=2      | 2 | parallel.shard_size = 2: needs a sharding level
whole gradients, summed early   | train deck.cfg parallel.shard=optimizer parallel.reduce=micro_batch | 2 | parallel.reduce = "micro_batch"
reproducible, but not by kernels | train deck.cfg train.reproducible=true    | 2 | needs device.deterministic = true
reproducible, bf16 sums         | train deck.cfg train.reproducible=true device.deterministic=true parallel.shard=full parallel.reduce_as=bf16 | 2 | train.reproducible = true: needs parallel.reduce_as = "fp32"
bf16 sums of replicas           | train deck.cfg parallel.reduce_as=bf16    | 2 | parallel.reduce_as = "bf16"
no masters beside fp32          | train deck.cfg precision.masters=false    | 2 | precision.masters = false
Muon without matrices           | train deck.cfg optimizer.kind=muon train.freeze=trunk | 2 | optimizer.kind = "muon": not with train.freeze = "trunk"
Muon with adapters              | train deck.cfg optimizer.kind=muon lora.rank=4 | 2 | optimizer.kind = "muon": not with lora.rank
an optimizer that is unknown    | train deck.cfg optimizer.kind=lion        | 2 | optimizer.kind = lion: must be one of "adamw", "muon"
bf16 gradients beside fp32      | train deck.cfg precision.gradients=bf16   | 2 | precision.gradients = "bf16": needs precision.compute = "bf16"
reproducible, chosen chunks     | train deck.cfg train.reproducible=true device.deterministic=true memory.head_tokens=0 | 2 | train.reproducible = true: needs a number in memory.head_tokens
an empty output                 | sweep deck.cfg --output=                    | 2 | --output: the value is empty
reproducible, bf16 gradients    | train deck.cfg train.reproducible=true device.deterministic=true precision.compute=bf16 precision.gradients=bf16 | 2 | train.reproducible = true: needs precision.gradients = "fp32"
policies of too many layers     | train deck.cfg memory.recompute_layers=full:1-3 | 2 | layers are 1 to 2, by model.layers
a policy without layers         | train deck.cfg memory.recompute_layers=full | 2 | memory.recompute_layers = "full": must be policies
more layers to offload than are | train deck.cfg memory.offload_layers=2,4  | 2 | memory.offload_layers = "2,4": layers are 1 to 2
no such device                  | train deck.cfg device.kind=cuda           | 2 | device.kind
no such time                    | train deck.cfg train.walltime=soon        | 2 | train.walltime

no store of a pattern           | train deck.cfg data.train=none*.h5       | 2 | no file matches none*.h5 (seen from $PWD)
no tokenizer                    | prepare --tokenizer none -o x.h5 g.fa     | 2 | tokenizer none: unknown, and not a file or folder (seen from $PWD)
a missing checkpoint            | inspect none.h5                           | 2 | none.h5: cannot open it: No such file or directory (seen from $PWD)
a missing report                | report none                               | 2 | none: has no log.jsonl (seen from $PWD)
a missing absolute path         | inspect /none.h5                          | 2 | /none.h5: cannot open it: No such file or directory
an unset variable               | train deck.cfg output.folder=\${T_NOT_SET}/run | 2 | command line: key output.folder = \${T_NOT_SET}/run: the environment has no variable T_NOT_SET
no store                        | train deck.cfg data.train=none.h5         | 2 | none.h5: cannot open the token store: No such file or directory (seen from $PWD); cistron prepare makes one for data.train
FASTA for a store               | train deck.cfg data.train=g.fa            | 2 | g.fa: is not a token store
a folder for a store            | train deck.cfg data.train=folder          | 2 | folder: cannot open the token store: Is a directory
an empty store                  | train deck.cfg data.train=empty           | 2 | empty: is not a valid token store: it is empty
a checkpoint for a store        | train deck.cfg data.train=$step           | 2 | $step: is not a token store
another tokenizer's store       | train deck.cfg data.train=foreign.h5      | 2 | foreign.h5: was made with tokenizer "amino_acid"
a store of the future           | train deck.cfg data.train=newer.h5        | 2 | newer.h5: is a token store of version 9
a truncated store               | train deck.cfg data.train=cut.h5          | 2 | cut.h5: HDF5 cannot open it
a store with unsorted offsets   | train deck.cfg data.train=unsorted.h5     | 2 | unsorted.h5: is damaged: offset 2 is not between
a store that is not spanned     | train deck.cfg data.train=unspanned.h5    | 2 | unspanned.h5: is damaged: its offsets do not span
more weights than stores        | train deck.cfg data.weights=1,2            | 2 | 2 weights for the 1 stores
a second store without a name   | train deck.cfg data.train=store.h5,        | 2 | store 2 of the list has an empty name
a second store of another kind  | train deck.cfg data.train=store.h5,foreign.h5 | 2 | foreign.h5: was made with tokenizer
a wrong store to validate on    | train deck.cfg data.valid=g.fa            | 2 | g.fa: is not a token store

output below a file             | train deck.cfg output.folder=g.fa/run     | 2 | output.folder = "g.fa/run": cannot be created: Not a directory (folder g.fa)
a run that may not be           | train deck.cfg output.folder=made train.resume=never | 2 | has a run already
a store under an old name       | train deck.cfg data.train=again.h5 output.folder=stopped train.steps=9 | 2 | differs from the store of that name
another model at resume         | $from_run output.folder=made model.layers=3 | 2 | model.layers: 2 in the checkpoint, 3 now
other rows at resume            | $from_run output.folder=made data.row_tokens=32 | 2 | data.row_tokens: 64 in the checkpoint
a deck where a run writes its   | train deck.cfg output.folder=.            | 2 | ./deck.cfg exists and was not written by a run
no such checkpoint              | train deck.cfg train.resume=none.h5       | 2 | key train.resume = "none.h5": cannot find a checkpoint or run folder
a store for a checkpoint        | train deck.cfg train.resume=g.train.h5    | 2 | g.train.h5: is not a checkpoint
a final model to go on from     | $from_run train.resume=made/final_model.h5 | 2 | without optimizer state
a truncated checkpoint          | train deck.cfg train.resume=cut.step.h5   | 2 | cut.step.h5: is damaged
a changed checkpoint            | train deck.cfg train.resume=flipped.step.h5 | 2 | flipped.step.h5: is damaged
a damaged side file             | train deck.cfg train.resume=bare.step.h5  | 2 | bare.step.h5.xxh3: is damaged
a store named as a checkpoint   | train deck.cfg train.resume=sideless.step.h5 | 2 | sideless.step.h5: is not a checkpoint
a checkpoint of the future      | train deck.cfg train.resume=next.step.h5  | 2 | next.step.h5: is a checkpoint of format 9
from nothing                    | train --from                              | 2 | --from: needs a value
from what is not there          | train --from none                         | 2 | none: cannot find a checkpoint or run folder there: No such file or directory (seen from $PWD)
from an empty folder            | train --from folder                       | 2 | --from folder: has no checkpoint
from a store                    | train --from g.train.h5                   | 2 | g.train.h5: is not a checkpoint
END

# run_cases FILE: the cases in it, `train` on 2 ranks, or on one by itself where `alone` is set; adds to count.
run_cases()
{
    while IFS='|' read -r name command code words; do
        name=$(echo $name) words=$(echo $words) code=$(echo $code)
        [ -n "$name" ] || continue
        count=$((count + 1))
        start=$SECONDS
        case ${alone:-$command} in
        *' train '*)
            # shellcheck disable=SC2086
            ranks 2 $command </dev/null
            check "$name: exit code $code on both ranks" codes_are "$code" 2
            ;;
        *)
            # shellcheck disable=SC2086
            timeout 60 "$CISTRON" $command >out 2>&1 </dev/null
            check "$name: exit code $code" test $? -eq "$code"
            ;;
        esac
        check "$name: within seconds" test $((SECONDS - start)) -le 40
        check "$name: is said" says "$words"
        check "$name: once" test "$(grep -cF -- "$words" out)" -eq 1
        check "$name: nothing half-made is left" test -z "$(find . -name '*.tmp*' -o -name x.h5 -o -path './run/*.h5')"
        rm -rf y.h5 y.json run exported
    done <"$1"
}

cp deck.cfg own.cfg
count=0
run_cases cases
check "at least 40 cases" test $count -ge 40
HOME=$work/made "$CISTRON" prepare --tokenizer nucleotide '--output=~/homely.h5' g.fa >out 2>&1
check "~ in an option is the home folder" test -f made/homely.h5
check "what is not prepared makes no folder" test ! -e fresh
check "the user's deck is as it was" cmp deck.cfg own.cfg
stopped_at_work "$work/rates.cfg" measure device.kind=cpu
check "no input was touched" cmp g.fa <(gzip -dc whole.gz)

# -- Hostile files: what stands in them, and under their names, is of somebody who means harm

weight=model/model.norm.weight
other=model/model.layers.0.input_layernorm.weight
for edit_of in external.h5:$weight@external:/etc/passwd virtual.h5:$weight@virtual:$other circle.h5:$weight@virtual:$weight \
    soft.h5:$weight@soft:/$other link.h5:$weight@link:$step moments.h5:optim@link:$step many.h5:model@many:20000 \
    updates.h5:meta/updates:9223372036854775807 tokens.h5:meta/tokens:9223372036854775807 negative.h5:meta/step:-1 \
    epoch.h5:data/epoch:9223372036854775807 epochs.h5:data/epoch:1125899906842623 \
    offset.h5:data/offset:4611686018427387904 offset_in.h5:data/offset:100000; do
    file=${edit_of%%:*} edit_of=${edit_of#*:}
    cp $step $file && "$edit" $file "${edit_of%%:*}" "${edit_of#*:}" || exit 1
done
cp store.h5 round.h5 && "$edit" round.h5 tokens@virtual tokens || exit 1
cp store.h5 told.h5 && "$edit" told.h5 sources@external /etc/passwd || exit 1
cp $step sparse.h5 && truncate -s 100G sparse.h5.xxh3
cp $step piped.h5 && mkfifo piped.h5.xxh3 pipe.h5
mkdir pipes piped_config locked && mkfifo pipes/log.jsonl pipes/step_00000004.h5 piped_config/config.json
ln llama_tiny/model* piped_config
echo precious >precious
ln -s ../precious locked/lock
elsewhere="is a link, or has its data in another file or in a form that HDF5 without plugins cannot read"
wrong="an attribute of /meta or /data is missing or wrong"
cat >hostile <<END
weights from another file       | export --checkpoint external.h5 -o exported | 2 | /$weight: $elsewhere
weights from another tensor     | export --checkpoint virtual.h5 -o exported  | 2 | /$weight: $elsewhere
weights made of themselves      | export --checkpoint circle.h5 -o exported   | 2 | /$weight: $elsewhere
weights of themselves, a run    | $from_run train.resume=circle.h5            | 2 | /$weight: $elsewhere
a soft link for weights         | export --checkpoint soft.h5 -o exported     | 2 | /$weight: $elsewhere
a link to another file          | export --checkpoint link.h5 -o exported     | 2 | /$weight: $elsewhere
a link is named                 | inspect link.h5                             | 0 | $elsewhere ${weight#*/}
moments in another file         | $from_run train.resume=moments.h5           | 2 | has no group /optim/m
20,000 tensors                  | export --checkpoint many.h5 -o exported     | 2 | /model/inner: is not in the model
20,000 tensors to list          | inspect many.h5                             | 0 | more19999
more updates than there are     | inspect updates.h5                          | 2 | $wrong
more tokens than there are      | $from_run train.resume=tokens.h5            | 2 | $wrong
a step before the first         | inspect negative.h5                         | 2 | $wrong
more epochs than a number holds | inspect epoch.h5                            | 2 | $wrong
more epochs than there are      | $from_run train.resume=epochs.h5            | 2 | its position in the data is beyond
a place beyond any window       | inspect offset.h5                           | 2 | $wrong
a place beyond the window       | $from_run train.resume=offset_in.h5         | 2 | its position in the data is beyond
tokens made of themselves       | inspect round.h5                            | 2 | a dataset has another type or layout
sources in another file         | inspect told.h5                             | 0 | token store
a side file of 100 GB           | inspect sparse.h5                           | 2 | sparse.h5.xxh3: is not a side file (hashes of a checkpoint): it has 107374182400 bytes
a pipe for a side file          | inspect piped.h5                            | 1 | piped.h5.xxh3: cannot open it: it is not a regular file
a pipe for a checkpoint         | inspect pipe.h5                             | 2 | pipe.h5: cannot open it: it is not a regular file
a pipe to go on from            | train deck.cfg train.resume=pipe.h5         | 2 | pipe.h5: cannot open it: it is not a regular file
a pipe for a run's checkpoint   | train --from pipes                          | 2 | step_00000004.h5: cannot open it: it is not a regular file
a pipe for a log                | report pipes                                | 1 | pipes/log.jsonl: cannot open it: it is not a regular file
a pipe for a config             | import piped_config -o x.h5                 | 2 | config.json: cannot open it: it is not a regular file
a lock that is a link           | train deck.cfg output.folder=locked         | 2 | locked/lock: it is a link
more tokens than memory counts  | generate --checkpoint made --tokens 9223372036854775807 | 2 | with this prompt, at most 1073741823
END
alone=1
run_cases hostile
check "nothing of another file is told" test "$("$CISTRON" inspect told.h5 | grep -c root:)" -eq 0

# names that a run gives, where links of somebody else's stand
mkdir linked
for name in step_00000002.h5.tmp step_00000002.h5.xxh3.tmp final_model.h5.tmp; do
    ln -s ../precious linked/$name
done
timeout 60 "$CISTRON" train deck.cfg output.folder=linked train.steps=4 checkpoint.every=2 validation.every=0 >out 2>&1
check "a run whose names are taken: exit code 0" test $? -eq 0
check "what the links lead to stands" test "$(cat precious)" = precious
check "its checkpoint is a file" test -f linked/step_00000002.h5 -a ! -L linked/step_00000002.h5

# -- Folders that one may not write: as another user, where this one may write anywhere

mkdir -m 555 sealed
chmod 777 "$work"
launcher=$MPIRUN
[ "$(id -u)" -ne 0 ] || MPIRUN="setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=/tmp $MPIRUN"
if $MPIRUN -n 1 test -x "$CISTRON" 2>/dev/null; then
    ranks 2 train deck.cfg output.folder=sealed/run
    check "a folder that cannot be created: exit code 2" codes_are 2 2
    check "it is named" says 'output.folder = "sealed/run": cannot be created: Permission denied'
    ranks 2 train deck.cfg output.folder=sealed
    check "a folder that cannot be written: exit code 2" codes_are 2 2
    check "it is named, once" test "$(grep -c "sealed.*Permission denied" out)" -eq 1
    check "nothing is in it" test -z "$(ls sealed)"
fi
MPIRUN=$launcher

# -- A folder that goes away under a run

RANKS_SECONDS=120
ranks 2 train deck.cfg output.folder=gone train.steps=100000 checkpoint.every=10 log.every=100 validation.every=0 &
job=$!
for _ in $(seq 600); do
    [ -e gone/step_00000010.h5 ] && break
    sleep 0.1
done
mv gone away # at once, whatever is being written
start=$SECONDS
wait $job
check "a folder that goes away: exit code 1" codes_are 1 2
check "a folder that goes away: at the next save" test $((SECONDS - start)) -le 60
check "it is named, once" test "$(grep -c '^cistron: .*gone' out)" -eq 1
finish
