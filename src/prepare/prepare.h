/* cistron prepare: files of records (records/record_reader.h) into one token store or Megatron data set, or into one
 * for each part of a split. Streaming: memory does not grow with the input. Needs no MPI. */
#ifndef PREPARE_PREPARE_H
#define PREPARE_PREPARE_H

#include <stdbool.h>
#include <stdint.h>

struct prepare_settings {
    const char *tokenizer;     /* name, file or folder (tokenizer/tokenizer.h) */
    const char *format;        /* NULL: a token store; "megatron": a Megatron data set */
    bool append_eod;           /* Megatron: the end token behind each record */
    const char *output;        /* OUT.h5; with a split OUT.<part>.h5 for each part; Megatron: without .h5, a prefix */
    bool replace;              /* outputs that are there */
    const char *split;         /* "train:0.95,valid:0.05" or NULL */
    uint64_t seed;             /* of the split; 42 unless the user says otherwise */
    const char *input_format;  /* of all inputs; NULL: told file by file */
    const char *field;         /* as struct record_settings has it (records/record_class.h) */
    bool skip_bad;             /* leave out records whose field is missing or null, and count them */
    const char *letter_case;   /* of prepare/census.h; NULL */
    int64_t threads;           /* that encode text; 0: one for each CPU of this process */
    const char *const *inputs; /* [input_count] files, folders, patterns (prepare/inputs.h); "-" is standard input */
    int64_t input_count;
};

/* Runs it: progress on standard error when that is a terminal, counts and checksums on standard output at the end.
 * A record's name is what its format gives; a piece cut from it is named
 * name:first-last (tokens from 1). With a tokenizer of proteins one '*' at a record's end is dropped. Characters that
 * are no token become unk; they, lower-case letters and dropped stop symbols are reported (prepare/census.h). Outputs
 * appear when all of them are complete, replacing older ones atomically; a failed or interrupted run leaves nothing but
 * the folder of the output, which is made if it is not there. Texts are encoded record by record, each as a whole; a
 * store is the same with any number of threads. Files without a record are warned of, unless all are. User errors: all
 * of inputs.h, record_reader.h, source.h, split.h, tokenizer.h and encoding.h, an output that is also an input, no
 * sequence at all. */
int prepare_run(const struct prepare_settings *given);

#endif
