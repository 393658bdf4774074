/* Reads files of records as `cistron prepare` does, or prepares them. */
#ifndef TESTS_RECORDS_H
#define TESTS_RECORDS_H

#include "base/error.h"
#include "prepare/prepare.h"
#include "records/record_reader.h"
#include "records/source.h"

#include <stdio.h>

/* Reads a file, and writes all names (each after '>') and texts into one string, as far as they fit. */
static inline int records_read(const struct record_settings *settings, const char *path, char *text, size_t capacity)
{
    struct record_source *source;
    struct record_reader *reader = NULL;
    struct record_piece piece = {.kind = RECORD_NAME};
    size_t used = 0;
    int code = source_open(&source, path);
    if (code == ERROR_NONE)
        code = record_reader_create(&reader, source, settings);
    while (code == ERROR_NONE && piece.kind != RECORD_END) {
        code = record_reader_next(reader, &piece);
        if (code == ERROR_NONE && piece.kind != RECORD_END && used + (size_t)piece.length + 3 < capacity)
            used += (size_t)snprintf(text + used, capacity - used, piece.kind == RECORD_NAME ? ">%.*s " : "%.*s",
                                     (int)piece.length, piece.text);
    }
    text[used] = '\0';
    record_reader_destroy(reader);
    source_close(source);
    return code;
}

/* Prepares a file of nucleotides without changing case; format and split may be NULL. */
static inline int records_prepare(const char *format, bool append_eod, const char *output, const char *split,
                                  const char *input)
{
    const struct prepare_settings settings = {.tokenizer = "nucleotide",
                                              .format = format,
                                              .append_eod = append_eod,
                                              .output = output,
                                              .split = split,
                                              .seed = 42,
                                              .field = "text",
                                              .letter_case = "keep",
                                              .inputs = &input,
                                              .input_count = 1,
                                              .replace = true};
    return prepare_run(&settings);
}

#endif
