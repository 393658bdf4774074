/* Prints the records of files, for tests that compare them with what others read:
 *   records characters|bytes|skip FORMAT|- {FILE FIELD}...
 * skip: bytes, and records without the field are left out.
 * For each record a line "NAME BYTES" and its bytes with a newline behind them; behind each file a line "end FILE", or
 * "error CODE MESSAGE". */
#include "base/error.h"
#include "base/memory.h"
#include "records/record_reader.h"
#include "records/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    char *name, *text; /* freed with free() */
    int64_t length, capacity;
} record;

static void end_record(void)
{
    if (record.name == NULL)
        return;
    printf("%s %lld\n", record.name, (long long)record.length);
    if (record.length > 0)
        fwrite(record.text, 1, (size_t)record.length, stdout);
    putchar('\n');
    free(record.name);
    record.name = NULL;
}

static void take(const struct record_piece *piece)
{
    if (piece->kind != RECORD_SEQUENCE) {
        end_record();
        record.length = 0;
        if (piece->kind == RECORD_NAME)
            record.name = memory_format("%.*s", (int)piece->length, piece->text);
        return;
    }
    if (record.length + piece->length > record.capacity) {
        record.capacity = 2 * (record.length + piece->length);
        record.text = memory_grow(record.text, record.capacity);
    }
    memcpy(record.text + record.length, piece->text, (size_t)piece->length);
    record.length += piece->length;
}

static int print_file(const char *path, const struct record_settings *settings)
{
    struct record_source *source;
    struct record_reader *reader;
    struct record_piece piece = {.kind = RECORD_NAME};
    int code = source_open(&source, path);
    if (code != ERROR_NONE)
        return code;
    code = record_reader_create(&reader, source, settings);
    while (code == ERROR_NONE && piece.kind != RECORD_END) {
        code = record_reader_next(reader, &piece);
        if (code == ERROR_NONE)
            take(&piece);
    }
    record_reader_destroy(reader);
    source_close(source);
    return code;
}

int main(int argc, char **argv)
{
    struct record_settings settings = {0};
    if (argc < 3)
        return ERROR_USER;
    int64_t skipped;
    settings.content = strcmp(argv[1], "characters") != 0 ? RECORD_BYTES : RECORD_CHARACTERS;
    settings.may_be_empty = strcmp(argv[1], "skip") == 0;
    settings.skipped = settings.may_be_empty ? &skipped : NULL;
    settings.format = strcmp(argv[2], "-") == 0 ? NULL : argv[2];
    for (int i = 3; i + 1 < argc; i += 2) {
        settings.field = argv[i + 1];
        int code = print_file(argv[i], &settings);
        free(record.name);
        record.name = NULL;
        if (code == ERROR_NONE)
            printf("end %s\n", argv[i]);
        else
            printf("error %d %s\n", code, error_message());
        error_clear();
    }
    free(record.text);
    return 0;
}
