/* Safetensors files. The first byte of an input says what the rest is: a file; a header, whose length is put right and
 * which gets DATA bytes of data; an index over four shards that are there; or where random numbers begin that make a
 * header out of its parts, right or with one fault. What is right must be read as it was meant and what has a fault be
 * refused, and every file that is taken must tile. */
#include "base/error.h"
#include "base/memory.h"
#include "fuzz/fuzz.h"
#include "bridge/safetensors_writer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

enum kind { KIND_FILE, KIND_HEADER, KIND_INDEX, KIND_PARTS, KINDS };

enum { DATA = 24, CAPACITY = 1 << 16 };

const char *const fuzz_target_words[] = {"\"",
                                         "{",
                                         "}",
                                         "[",
                                         "]",
                                         ",",
                                         ":",
                                         "\"w\":",
                                         "BF16",
                                         "F32",
                                         "F64",
                                         "U8",
                                         "BOOL",
                                         "F8_E4M3",
                                         "dtype",
                                         "shape",
                                         "[0,24]",
                                         "[0,0]",
                                         "[4,8]",
                                         "\\u0000",
                                         "\\ud800",
                                         "\xc3\xa4",
                                         "null",
                                         "1.0",
                                         "[[[[[[[[",
                                         "__metadata__",
                                         "data_offsets",
                                         "weight_map",
                                         "\x80",
                                         " ",
                                         "../",
                                         "\x00\x00\x00\x00\x00\x00\x00",
                                         NULL};

static const char two[] = "{\"__metadata__\":{\"format\":\"pt\"},"
                          "\"w\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]},"
                          "\"v\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[16,24]}}      ";
static const char five[] = "{\"a\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[0,8]},"
                           "\"b\":{\"dtype\":\"U8\",\"shape\":[1,2,3],\"data_offsets\":[8,14]},"
                           "\"c\":{\"dtype\":\"I16\",\"shape\":[0,7],\"data_offsets\":[14,14]},"
                           "\"d\":{\"dtype\":\"F16\",\"shape\":[5],\"data_offsets\":[14,24]},"
                           "\"e\":{\"dtype\":\"BOOL\",\"shape\":[0],\"data_offsets\":[24,24]}}";
/* the tensors of write_shards() */
static const char good_index[] = "{\"metadata\":{\"total_size\":48},\"weight_map\":{\"w\":\"1\",\"v\":\"1\","
                                 "\"a\":\"2\",\"b\":\"2\",\"c\":\"2\",\"d\":\"2\",\"e\":\"2\"}}";

/* A file with `data` bytes 1, 2, ... behind the header; `length` stands in its length field. Returns its bytes. */
static size_t make_file(uint8_t *out, uint64_t length, const void *header, size_t header_bytes, size_t data)
{
    memcpy(out, &length, 8);
    memcpy(out + 8, header, header_bytes);
    for (size_t i = 0; i < data; i++)
        out[8 + header_bytes + i] = (uint8_t)(i % 31 + 1);
    return 8 + header_bytes + data;
}

void fuzz_target_seeds(void (*add)(const void *data, size_t size))
{
    static const char *const texts[] = {two,
                                        five,
                                        "{}",
                                        good_index,
                                        "{\"weight_map\":{\"w\":\"1\",\"v\":\"1\"}}",
                                        "{\"weight_map\":{\"w\":\"1\",\"v\":\"4\"}}",
                                        "{\"weight_map\":{\"w\":\"3\",\"x\":\"3\"}}"};
    uint8_t out[1024] = {KIND_FILE};
    for (int i = 0; i < 3; i++) {
        add(out, 1 + make_file(out + 1, strlen(texts[i]), texts[i], strlen(texts[i]), i < 2 ? DATA : 0));
        out[0] = KIND_HEADER;
        memcpy(out + 1, texts[i], strlen(texts[i]));
        add(out, 1 + strlen(texts[i]));
        out[0] = KIND_FILE;
    }
    out[0] = KIND_INDEX;
    for (int i = 3; i < 7; i++) {
        memcpy(out + 1, texts[i], strlen(texts[i]));
        add(out, 1 + strlen(texts[i]));
    }
    out[0] = KIND_PARTS;
    for (uint8_t i = 0; i < 8; i++) {
        memset(out + 1, i, 16);
        add(out, 17);
    }
}

/* -- What was opened --------------------------------------------------------------------------------------------- */

/* The entries are sorted, and each file is its header and their bytes. */
static void check_opened(const struct safetensors *st)
{
    uint8_t piece[64];
    for (int64_t i = 0; i < st->count; i++) {
        const struct safetensors_entry *entry = &st->entries[i];
        FUZZ_CHECK(i == 0 || strcmp(entry[-1].name, entry->name) < 0);
        FUZZ_CHECK(safetensors_find(st, entry->name) == entry);
        FUZZ_CHECK(entry->dims >= 0 && entry->dims <= SAFETENSORS_MAX_DIMS && entry->dtype < SAFETENSORS_DTYPES);
        FUZZ_CHECK(entry->bytes == safetensors_dtype_bytes(entry->dtype, entry->dims, entry->shape));
        FUZZ_CHECK(entry->file >= 0 && entry->file < st->file_count && entry->position >= 10);
        int64_t taken = 0;
        for (int64_t j = 0; j < st->count; j++)
            if (st->entries[j].file == entry->file) {
                const struct safetensors_entry *other = &st->entries[j];
                taken += other->bytes;
                FUZZ_CHECK(i == j || entry->bytes == 0 || other->bytes == 0 ||
                           entry->position >= other->position + other->bytes ||
                           other->position >= entry->position + entry->bytes);
            }
        struct stat status;
        FUZZ_CHECK(stat(safetensors_path(st, entry), &status) == 0);
        FUZZ_CHECK(entry->position + entry->bytes <= status.st_size && taken <= status.st_size - 10);
        for (int64_t at = 0; at < entry->bytes; at += (int64_t)sizeof piece) {
            int64_t rest = entry->bytes - at, bytes = rest < (int64_t)sizeof piece ? rest : (int64_t)sizeof piece;
            FUZZ_CHECK(safetensors_read(st, entry, at, bytes, piece) == ERROR_NONE);
        }
    }
}

/* Opens what is there; true: it is taken. */
static bool open_checked(struct safetensors **st, const char *where)
{
    error_clear();
    int code = safetensors_open(st, where);
    if (code == ERROR_NONE)
        check_opened(*st);
    FUZZ_CHECK(code == ERROR_NONE || (code == ERROR_USER && *st == NULL && strstr(error_message(), where) != NULL));
    FUZZ_CHECK(strpbrk(error_message(), "\n\r\x1b") == NULL);
    fuzz_accepted += code == ERROR_NONE;
    return code == ERROR_NONE;
}

static void try_file(const void *data, size_t size)
{
    const char *path = fuzz_path("input.safetensors");
    struct safetensors *st;
    fuzz_write(path, data, size);
    open_checked(&st, path);
    safetensors_close(st);
}

/* Shards 1 and 2 for good_index; 3 has a tensor that 1 has too; 4 is damaged. */
static const char *write_shards(void)
{
    static uint8_t out[1024];
    static const char other[] = "{\"w\":{\"dtype\":\"I8\",\"shape\":[24],\"data_offsets\":[0,24]}}";
    static const char *const texts[4] = {two, five, other, "{]"};
    const char *folder = fuzz_path("shards");
    if (mkdir(folder, 0777) == 0)
        for (int i = 0; i < 4; i++) {
            char name[32];
            snprintf(name, sizeof name, "shards/%d", i + 1);
            fuzz_write(fuzz_path(name), out, make_file(out, strlen(texts[i]), texts[i], strlen(texts[i]), DATA));
        }
    return folder;
}

/* -- A header made of its parts ---------------------------------------------------------------------------------- */

static uint64_t random_state;

/* SplitMix64 (Steele, Lea & Flood, 2014) */
static uint64_t draw(uint64_t below)
{
    uint64_t x = random_state += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (x ^ x >> 31) % below;
}

static char text[CAPACITY];
static size_t used;

static void put(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void put(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    used += (size_t)vsnprintf(text + used, CAPACITY - used, format, arguments);
    va_end(arguments);
    FUZZ_CHECK(used < CAPACITY);
}

/* White space, as JSON has it. */
static void put_space(void)
{
    static const char *const spaces[] = {"", "", "", " ", "\n", "\t", "\r\n  "};
    put("%s", spaces[draw(7)]);
}

enum { MOST_TENSORS = 12 };

enum fault {
    FAULT_NONE,
    FAULT_BEGIN, /* an offset is another number */
    FAULT_END,
    FAULT_SHIFT,   /* the range lies elsewhere */
    FAULT_DTYPE,   /* unknown, or of another size */
    FAULT_SIDE,    /* of the shape */
    FAULT_DIMS,    /* too many */
    FAULT_REPEAT,  /* the tensor twice */
    FAULT_MISSING, /* a member */
    FAULT_TYPE,    /* a value of another type */
    FAULT_SURPLUS, /* data behind the last tensor */
    FAULT_CUT,     /* data missing */
    FAULT_LENGTH,  /* the length of the header */
    FAULTS
};

static const char *const odd_numbers[] = {
    "-1",    "0.5", "1e2",   "9223372036854775807", "9223372036854775808", "18446744073709551616", "4294967296", "null",
    "\"0\"", "[]",  "1e999", "-9223372036854775808"};
static const char *const odd_values[] = {"null", "true", "0", "\"\"", "{}", "[null]", "\"U8\"", "-1e-9", "[[]]"};
static const char *const odd_dtypes[] = {"", "f32", "F31", "BF16 ", "U88", "C64", "F4", "F8_E8M0", "U\\u00388", "I"};

/* Where the fault sits in the tensor that has it. */
struct choice {
    enum fault fault;
    uint64_t member, which;
    int64_t delta; /* not 0 */
};

static void put_offset(int64_t value, bool odd, const struct choice *choice)
{
    if (odd && choice->which % 2 == 0)
        put("%s", odd_numbers[choice->which / 2 % 12]);
    else
        put("%lld", (long long)(odd ? value + choice->delta : value));
}

static void put_shape(const struct safetensors_entry *entry, const struct choice *choice)
{
    int dims = entry->dims;
    put("[");
    for (int d = 0; d < dims; d++) {
        put("%s", d > 0 ? "," : "");
        put_offset(entry->shape[d], choice->fault == FAULT_SIDE && (int)(choice->member % (uint64_t)dims) == d, choice);
    }
    for (; choice->fault == FAULT_DIMS && dims <= SAFETENSORS_MAX_DIMS; dims++)
        put("%s1", dims > 0 ? "," : "");
    put("]");
}

static void put_dtype(const struct safetensors_entry *entry, const struct choice *choice)
{
    int dtype = entry->dtype;
    if (choice->fault == FAULT_DTYPE && choice->which % 2 == 0) {
        put("\"%s\"", odd_dtypes[choice->which / 2 % 10]);
        return;
    }
    if (choice->fault == FAULT_DTYPE)
        while (safetensors_dtype_size(dtype) == safetensors_dtype_size(entry->dtype))
            dtype = (dtype + 1) % SAFETENSORS_DTYPES;
    put("\"%s\"", safetensors_dtype_name(dtype));
}

static void put_tensor(const struct safetensors_entry *entry, const struct choice *choice)
{
    static const char *const members[3] = {"dtype", "shape", "data_offsets"};
    uint64_t first = draw(3);
    bool begun = false;
    put("\"%s\":", entry->name);
    put_space();
    put("{");
    for (uint64_t i = 0; i < 3; i++) {
        uint64_t member = (first + i) % 3;
        if (choice->fault == FAULT_MISSING && choice->member % 3 == member)
            continue;
        put("%s", begun ? "," : "");
        begun = true;
        put_space();
        put("\"%s\":", members[member]);
        put_space();
        if (choice->fault == FAULT_TYPE && choice->member % 3 == member)
            /* "U8" would be a dtype, [] is a shape */
            put("%s", odd_values[choice->which % (member == 0 ? 6 : 9)]);
        else if (member == 0)
            put_dtype(entry, choice);
        else if (member == 1)
            put_shape(entry, choice);
        else {
            int64_t shift = choice->fault == FAULT_SHIFT ? choice->delta : 0;
            put("[");
            put_offset(entry->position + shift, choice->fault == FAULT_BEGIN, choice);
            put(",");
            put_offset(entry->position + entry->bytes + shift, choice->fault == FAULT_END, choice);
            put("]");
        }
    }
    put_space();
    put("}");
}

/* Types and shapes for `count` tensors, their bytes one behind the other; returns how many. */
static int64_t draw_tensors(struct safetensors_entry *entries, char names[][32], int count)
{
    static const char *const stems[] = {"w", "layer.weight", "\xc3\xa4", "\\u00e9\\\"", "\\ud83d\\ude00", ""};
    int64_t end = 0;
    for (int i = 0; i < count; i++) {
        struct safetensors_entry *entry = &entries[i];
        snprintf(names[i], 32, "%s%d", stems[draw(6)], i);
        *entry =
            (struct safetensors_entry){.name = names[i], .dtype = (enum safetensors_dtype)draw(SAFETENSORS_DTYPES)};
        entry->dims = (int)draw(draw(4) == 0 ? SAFETENSORS_MAX_DIMS + 1 : 4);
        for (int d = 0; d < entry->dims; d++)
            entry->shape[d] = draw(12) == 0 ? 0 : 1 + (int64_t)draw(d < 3 ? 4 : 2);
        entry->bytes = safetensors_dtype_bytes(entry->dtype, entry->dims, entry->shape);
        entry->position = end;
        end += entry->bytes;
    }
    return end;
}

/* A fault that this tensor can have: the header is wrong with it for sure. */
static struct choice draw_fault(const struct safetensors_entry *entry, int64_t data_bytes)
{
    struct choice choice = {
        .fault = draw(4) == 0 ? FAULT_NONE : (enum fault)draw(FAULTS), .member = draw(1000), .which = draw(1000)};
    choice.delta = (1 + (int64_t)draw(draw(2) == 0 ? 3 : 1 << 20)) * (draw(2) == 0 ? -1 : 1);
    bool needs_bytes = choice.fault == FAULT_SHIFT || choice.fault == FAULT_DTYPE || choice.fault == FAULT_SIDE;
    if ((needs_bytes && entry->bytes == 0) || (choice.fault == FAULT_SIDE && entry->dims == 0) ||
        (choice.fault == FAULT_CUT && data_bytes == 0))
        choice.fault = FAULT_NONE;
    return choice;
}

/* What was taken is written again, in files of some size, and read: the same tensors with the same bytes. */
static void check_written(const struct safetensors *st)
{
    const char *folder = fuzz_path("written");
    struct safetensors_writer *writer;
    struct safetensors *again;
    uint8_t data[2][4096];
    mkdir(folder, 0777);
    error_clear();
    FUZZ_CHECK(safetensors_writer_create(&writer, folder, st->entries, st->count, (int64_t)draw(400), 0) == ERROR_NONE);
    for (int64_t i = st->count - 1; i >= 0; i--)
        for (int64_t at = 0, bytes; at < st->entries[i].bytes; at += bytes) {
            int64_t rest = st->entries[i].bytes - at;
            bytes = 1 + (int64_t)draw(rest < 4096 ? (uint64_t)rest : 4096);
            FUZZ_CHECK(safetensors_read(st, &st->entries[i], at, bytes, data[0]) == ERROR_NONE);
            FUZZ_CHECK(safetensors_writer_write(writer, i, at, bytes, data[0]) == ERROR_NONE);
        }
    FUZZ_CHECK(safetensors_writer_commit(writer) == ERROR_NONE);
    safetensors_writer_destroy(writer);
    FUZZ_CHECK(open_checked(&again, folder) && again->count == st->count);
    for (int64_t i = 0; i < st->count; i++) {
        const struct safetensors_entry *a = &st->entries[i], *b = &again->entries[i];
        FUZZ_CHECK(strcmp(a->name, b->name) == 0 && a->dtype == b->dtype && a->dims == b->dims);
        FUZZ_CHECK(memcmp(a->shape, b->shape, sizeof a->shape) == 0);
        for (int64_t at = 0, bytes; at < a->bytes; at += bytes) {
            bytes = a->bytes - at < 4096 ? a->bytes - at : 4096;
            FUZZ_CHECK(safetensors_read(st, a, at, bytes, data[0]) == ERROR_NONE);
            FUZZ_CHECK(safetensors_read(again, b, at, bytes, data[1]) == ERROR_NONE);
            FUZZ_CHECK(memcmp(data[0], data[1], (size_t)bytes) == 0);
        }
    }
    safetensors_close(again);
}

static void try_parts(uint64_t seed)
{
    static uint8_t out[2 * CAPACITY];
    static const struct choice none;
    struct safetensors_entry entries[MOST_TENSORS];
    char names[MOST_TENSORS][32];
    random_state = seed;
    const int count = 1 + (int)draw(MOST_TENSORS), first = (int)draw((uint64_t)count);
    int64_t data = draw_tensors(entries, names, count);
    const int guilty = (int)draw((uint64_t)count);
    const struct choice choice = draw_fault(&entries[guilty], data);
    used = 0;
    put("{");
    if (draw(2) == 0)
        put("\"__metadata__\":{\"format\":\"pt\"},");
    for (int i = 0; i < count; i++) {
        const int tensor = (first + 13 * i) % count; /* each once: 13 is prime and more than MOST_TENSORS */
        put("%s", i > 0 ? "," : "");
        put_space();
        put_tensor(&entries[tensor], tensor == guilty ? &choice : &none);
        if (tensor == guilty && choice.fault == FAULT_REPEAT) {
            put(",");
            put_tensor(&entries[tensor], &none);
        }
    }
    put_space();
    put("}");
    while (draw(4) > 0)
        put(" ");
    if (choice.fault == FAULT_SURPLUS)
        data += 1 + (int64_t)draw(40);
    if (choice.fault == FAULT_CUT)
        data -= 1 + (int64_t)draw((uint64_t)data);
    uint64_t length = used + (choice.fault == FAULT_LENGTH ? (uint64_t)choice.delta : 0);
    FUZZ_CHECK(data < CAPACITY);
    size_t size = make_file(out, length, text, used, (size_t)data);
    const char *path = fuzz_path("input.safetensors");
    struct safetensors *st;
    fuzz_write(path, out, size);
    FUZZ_CHECK(open_checked(&st, path) == (choice.fault == FAULT_NONE));
    if (st != NULL) {
        FUZZ_CHECK(st->count == count);
        if (draw(4) == 0)
            check_written(st);
    }
    safetensors_close(st);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t out[1 << 19];
    struct safetensors *st;
    if (size == 0)
        return 0;
    const enum kind kind = (enum kind)(data[0] % KINDS);
    data++;
    size--;
    if (kind == KIND_FILE)
        try_file(data, size);
    else if (kind == KIND_HEADER)
        try_file(out, make_file(out, size, data, size, DATA));
    else if (kind == KIND_INDEX) {
        const char *folder = write_shards();
        fuzz_write(fuzz_path("shards/model.safetensors.index.json"), data, size);
        open_checked(&st, folder);
        safetensors_close(st);
    } else
        try_parts(XXH3_64bits(data, size));
    return 0;
}
