"""Makes tests/golden/sequences/: files of sequences in other formats than FASTA, and beside each the FASTA file of what it
holds (NAME.fa; NAME.KEY.fa: its features of this key; reads.20.fa: its reads of quality 20).

    python3 -m pip install biopython==1.88 twobitreader==4.0.2
    python3 tests/golden/make_sequences.py [folder]

entries.gb, entries.embl and reads.fastq are written by Biopython, which also extracts the features. genome.2bit and
swapped.2bit (the other byte order) are written here by UCSC's description of the format, and read with twobitreader.
"""

import pathlib
import random
import struct
import sys

import twobitreader
from Bio import SeqIO
from Bio.Seq import Seq
from Bio.SeqFeature import AfterPosition, BeforePosition, CompoundLocation, SeqFeature, SimpleLocation
from Bio.SeqRecord import SeqRecord


def letters(draw, count, alphabet="ACGT"):
    return "".join(draw.choice(alphabet) for _ in range(count))


def part(first, end, strand=1):
    return SimpleLocation(first, end, strand=strand)


def entries(draw):
    one = SeqRecord(Seq(letters(draw, 1234, "ACGTACGTACGTNRY")), id="AB000001.2", name="AB000001", description="one")
    many = CompoundLocation([part(i, i + 7) for i in range(5, 1200, 40)])
    locations = [
        part(0, 90),
        part(99, 210, -1),
        CompoundLocation([part(300, 333), part(400, 427), part(500, 501)]),
        CompoundLocation([part(700, 760, -1), part(600, 633, -1)]),
        SimpleLocation(BeforePosition(800), AfterPosition(905), strand=-1),
        CompoundLocation([part(1000, 1010), part(950, 960, -1)]),
        many,
    ]
    for i, location in enumerate(locations):
        one.features.append(SeqFeature(location, type="gene", qualifiers={"gene": [f"g{i}"]}))
        note = "a note /of (several) words, " * (i + 1)
        one.features.append(SeqFeature(location, type="CDS", qualifiers={"gene": [f"g{i}"], "note": [note.strip()]}))
    two = SeqRecord(Seq(letters(draw, 61)), id="AB000002.1", name="AB000002", description="two")
    two.features.append(SeqFeature(part(60, 61), type="CDS", qualifiers={}))
    three = SeqRecord(Seq(letters(draw, 60)), id="AB000003.1", name="AB000003", description="three")
    for record in (one, two, three):
        record.annotations["molecule_type"] = "DNA"
        record.annotations["accessions"] = [record.name]
    return [one, two, three]


def write_fasta(path, records):
    with open(path, "w") as file:
        for name, sequence in records:
            file.write(f">{name}\n{sequence}\n")


def reads(draw):
    for i in range(40):
        count = draw.choice([1, 30, 75, 151, 3000 if i == 7 else 20])
        level = draw.randint(5, 38)
        quality = [min(max(level + draw.randint(-6, 6), 0), 93) for _ in range(count)]
        sequence = letters(draw, count, "ACGTN")
        yield SeqRecord(Seq(sequence), id=f"read{i}", description=f"read{i} of no use",
                        letter_annotations={"phred_quality": quality})


def blocks(sequence, wanted):
    found, begin = [], None
    for i, letter in enumerate(sequence + "\0"):
        if wanted(letter) and begin is None:
            begin = i
        elif not wanted(letter) and begin is not None:
            found.append((begin, i - begin))
            begin = None
    return found


def two_bit(sequences, order):
    """The bytes of a 2bit file, version 0."""
    number = lambda *values: struct.pack(f"{order}{len(values)}I", *values)
    body = []
    for _, sequence in sequences:
        unknown = blocks(sequence, lambda letter: letter.upper() == "N")
        masked = blocks(sequence, str.islower)
        codes = ["TCAG".index(letter) if letter in "TCAG" else 0 for letter in sequence.upper()]
        codes += [0] * (-len(codes) % 4)
        packed = bytes(a << 6 | b << 4 | c << 2 | d for a, b, c, d in zip(*[iter(codes)] * 4))
        data = number(len(sequence))
        for found in (unknown, masked):
            data += number(len(found), *[a for a, _ in found], *[n for _, n in found])
        body.append(data + number(0) + packed)
    index = sum(1 + len(name) + 4 for name, _ in sequences)
    out, at = number(0x1A412743, 0, len(sequences), 0), 16 + index
    for (name, _), data in zip(sequences, body):
        out += bytes([len(name)]) + name.encode() + number(at)
        at += len(data)
    return out + b"".join(body)


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "sequences"
    folder.mkdir(exist_ok=True)
    draw = random.Random(12)
    made = entries(draw)
    for kind, ending, name in (("genbank", "gb", lambda r: r.id), ("embl", "embl", lambda r: r.name)):
        SeqIO.write(made, folder / f"entries.{ending}", kind)
        again = list(SeqIO.parse(folder / f"entries.{ending}", kind))
        write_fasta(folder / f"entries.{ending}.fa", [(name(r), r.seq) for r in again])
        write_fasta(folder / f"entries.{ending}.CDS.fa",
                    [(name(r), f.extract(r.seq)) for r in again for f in r.features if f.type == "CDS"])
    made = list(reads(draw))
    SeqIO.write(made, folder / "reads.fastq", "fastq")
    again = list(SeqIO.parse(folder / "reads.fastq", "fastq"))
    write_fasta(folder / "reads.fastq.fa", [(r.id, r.seq) for r in again])
    error = lambda r: sum(10 ** (-q / 10) for q in r.letter_annotations["phred_quality"]) / len(r)
    good = [(r.id, r.seq) for r in again if error(r) <= 0.01]
    assert 5 < len(good) < 35
    write_fasta(folder / "reads.fastq.20.fa", good)
    runs = "".join(draw.choice([str.upper, str.lower])(letters(draw, draw.randint(1, 40), draw.choice(["ACGT", "N"])))
                   for _ in range(60))
    sequences = [("chr1", runs), ("chr2", letters(draw, 9)), ("chrM", "n" * 5), ("chr3_random", letters(draw, 64) + "acg")]
    for path, order in (("genome.2bit", "<"), ("swapped.2bit", ">")):
        (folder / path).write_bytes(two_bit(sequences, order))
    seen = twobitreader.TwoBitFile(str(folder / "genome.2bit"))
    for name, sequence in sequences:
        assert str(seen[name][:]).upper() == sequence.upper(), name
        assert seen[name][:] == sequence, name
    write_fasta(folder / "2bit.fa", sequences)


if __name__ == "__main__":
    main()
