/* Files that the Python package safetensors wrote are read correctly (bridge/safetensors.h). Each kind of damage is
 * reported with file and tensor. */
#include "core/dtype.h"
#include "safetensors_files.h"
#include "stores.h"

#include <math.h>
#include <stdbool.h>
#include <sys/stat.h>

/* Opening ends with ERROR_USER, and the message holds both texts. */
static void refused(int line, const char *where, const char *first, const char *second)
{
    struct safetensors *st;
    error_clear();
    int code = safetensors_open(&st, where);
    bool good = code == ERROR_USER && st == NULL && strstr(error_message(), first) != NULL &&
                strstr(error_message(), second) != NULL && strstr(error_message(), where) == error_message() &&
                strchr(error_message(), '\n') == NULL;
    if (!check_report(__FILE__, line, good, "a user error"))
        fprintf(stderr, "    code %d, message \"%s\", wanted \"%s\" and \"%s\"\n", code, error_message(), first,
                second);
    safetensors_close(st);
    error_clear();
}

#define REFUSED(where, first, second) refused(__LINE__, where, first, second)

/* -- Damage ------------------------------------------------------------------------------------------------------ */

#define U8(name, n, begin, end) "\"" name "\":{\"dtype\":\"U8\",\"shape\":[" n "],\"data_offsets\":[" begin "," end "]}"

static const struct {
    const char *header;
    int64_t data;
    const char *first, *second;
} damages[] = {
    {"[]", 0, "no JSON object", ""},
    {" {}", 0, "no JSON object", ""},
    {"\"abc\"", 0, "no JSON object", ""},
    {"{", 0, "JSON is damaged", ""},
    {"{}}", 0, "JSON is damaged", ""},
    {"{\"a\\u0000b\":1}", 0, "JSON is damaged", ""},
    {"{\"\xff\xfe\":1}", 0, "JSON is damaged", "decode"},
    {"{\"a\xc0\x80\":1}", 0, "JSON is damaged", "decode"},
    {"{\"a\":NaN}", 0, "JSON is damaged", "NaN"},
    {"{\"a\":-Infinity}", 0, "JSON is damaged", ""},
    {"{" U8("w", "4", "0", "4") "," U8("w", "4", "0", "4") "}", 4, "duplicate", "w"},
    {"{" U8("w", "4", "0", "4") "," U8("\\u0077", "4", "0", "4") "}", 4, "duplicate", ""},
    {"{\"w\":{\"dtype\":\"U8\",\"dtype\":\"I8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4, "duplicate", "dtype"},
    {"{\"w\":1}", 0, "tensor w:", "an object"},
    {"{\"w\":[]}", 0, "tensor w:", "an object"},
    {"{\"w\":null}", 0, "tensor w:", "an object"},
    {"{\"w\":{}}", 0, "tensor w:", "dtype must be"},
    {"{\"w\":{\"dtype\":1,\"shape\":[4],\"data_offsets\":[0,4]}}", 4, "tensor w:", "dtype must be"},
    {"{\"w\":{\"dtype\":\"F31\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "tensor w:", "\"F31\" is unknown"},
    {"{\"w\":{\"dtype\":\"f32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "tensor w:", "BF16"},
    {"{\"w\":{\"dtype\":\"\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "tensor w:", "is unknown"},
    {"{\"w\":{\"dtype\":\"F\\n\\u001b32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "tensor w:", "\"F??32\""},
    {"{\"w\":{\"dtype\":\"U8\",\"data_offsets\":[0,4]}}", 4, "tensor w:", "shape must be"},
    {"{\"w\":{\"dtype\":\"U8\",\"shape\":4,\"data_offsets\":[0,4]}}", 4, "tensor w:", "shape must be"},
    {"{\"w\":{\"dtype\":\"U8\",\"shape\":{\"0\":4},\"data_offsets\":[0,4]}}", 4, "tensor w:", "shape must be"},
    {"{" U8("w", "4.0", "0", "4") "}", 4, "tensor w:", "shape must be"},
    {"{" U8("w", "\"4\"", "0", "4") "}", 4, "tensor w:", "shape must be"},
    {"{" U8("w", "-2,-2", "0", "4") "}", 4, "tensor w:", "shape must be"},
    {"{" U8("w", "1e400", "0", "4") "}", 4, "JSON is damaged", ""},
    {"{" U8("w", "99999999999999999999", "0", "4") "}", 4, "JSON is damaged", "too big"},
    {"{" U8("w", "1,1,1,1,1,1,1,1,4", "0", "4") "}", 4, "tensor w:", "at most 8"},
    /* 2^32 x 2^32 + 4 elements, and 2^61 + 1 of 8 bytes, are 4 and 8 to who does not look */
    {"{" U8("w", "4294967297,4294967292", "0", "4") "}", 4, "tensor w:", "64 bits"},
    {"{\"w\":{\"dtype\":\"F64\",\"shape\":[2305843009213693953],\"data_offsets\":[0,8]}}", 8, "tensor w:", "64 bits"},
    {"{\"w\":{\"dtype\":\"U8\",\"shape\":[4]}}", 4, "tensor w:", "data_offsets must be"},
    {"{\"w\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":4}}", 4, "tensor w:", "data_offsets must be"},
    {"{\"w\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0]}}", 4, "tensor w:", "data_offsets must be"},
    {"{\"w\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4,4]}}", 4, "tensor w:", "data_offsets must be"},
    {"{" U8("w", "4", "0", "4.0") "}", 4, "tensor w:", "data_offsets must be"},
    {"{" U8("w", "4", "-4", "0") "}", 4, "tensor w:", "data_offsets must be"},
    {"{" U8("w", "4", "4", "0") "}", 4, "tensor w:", "end before they begin"},
    {"{" U8("w", "5", "0", "5") "}", 4, "tensor w:", "beyond the 4 bytes"},
    {"{" U8("w", "9223372036854775807", "0", "9223372036854775807") "}", 4, "tensor w:", "beyond the 4 bytes"},
    {"{" U8("w", "3", "0", "4") "}", 4, "tensor w:", "need 3 bytes, but data_offsets span 4"},
    {"{" U8("w", "5", "0", "4") "}", 4, "tensor w:", "need 5 bytes, but data_offsets span 4"},
    {"{" U8("w", "0", "0", "4") "}", 4, "tensor w:", "need 0 bytes, but data_offsets span 4"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4, "tensor w:", "need 16 bytes"},
    {"{" U8("v", "3", "0", "3") "," U8("w", "2", "2", "4") "}", 4, "tensor w:", "overlap those of tensor v"},
    {"{" U8("v", "4", "0", "4") "," U8("w", "4", "0", "4") "}", 4, "overlap", "tensor v"},
    {"{" U8("v", "4", "0", "4") "," U8("w", "0", "2", "2") "}", 4, "tensor w:", "overlap those of tensor v"},
    {"{" U8("w", "3", "1", "4") "}", 4, "tensor w:", "1 bytes before it belong to no tensor"},
    {"{" U8("v", "1", "0", "1") "," U8("w", "1", "3", "4") "}", 4,
     "tensor w:", "2 bytes before it belong to no tensor"},
    {"{" U8("w", "3", "0", "3") "}", 4, "the last 1 bytes belong to no tensor", ""},
    {"{}", 4, "the last 4 bytes belong to no tensor", ""},
    {"{\"w\\nx\":{}}", 0, "tensor w?x:", "control character"},
    {"{\"__metadata__\":1}", 0, "__metadata__", "strings"},
    {"{\"__metadata__\":{\"a\":1}}", 0, "__metadata__", "strings"},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "duplicate", "__metadata__"},
};

static void test_damage(void)
{
    char long_name[2000], nested[100000];
    const char *path = stores_path("damaged.safetensors");
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        write_model(path, damages[i].header, damages[i].data);
        REFUSED(path, damages[i].first, damages[i].second);
    }
    /* nested deeper than any stack, whole and cut */
    memset(nested, '[', sizeof nested);
    memcpy(nested, "{\"w\":", 5);
    nested[sizeof nested - 1] = '\0';
    write_model(path, nested, 0);
    REFUSED(path, "JSON is damaged", "depth");
    memset(nested + 5 + 2000, ']', 2000);
    memcpy(nested + 5 + 4000, "}", 2);
    write_model(path, nested, 0);
    REFUSED(path, "tensor w:", "an object");
    /* a message stays a line of a sensible length */
    memset(long_name, 'n', sizeof long_name);
    memcpy(long_name, "{\"", 2);
    strcpy(long_name + sizeof long_name - 5, "\":1}");
    write_model(path, long_name, 0);
    REFUSED(path, "tensor nnn", "too long");

    const uint8_t lengths[][8] = {{0},
                                  {5, 0, 0, 0, 0, 0, 0, 0},
                                  {1, 0xe1, 0xf5, 5, 0, 0, 0, 0}, /* 100,000,001 */
                                  {2, 0, 0, 0, 0, 0, 0, 0x80},
                                  {255, 255, 255, 255, 255, 255, 255, 255}};
    const char *const said[] = {"header has 0 bytes", "is truncated: its header has 5 bytes",
                                "100000001 bytes, 1 to 100000000 are allowed", "9223372036854775810 bytes",
                                "18446744073709551615 bytes"};
    for (int i = 0; i < 5; i++) {
        char all[12] = "........{}  ";
        memcpy(all, lengths[i], 8);
        write_file(path, all, sizeof all);
        REFUSED(path, said[i], "");
    }
    write_file(path, "1234567", 7);
    REFUSED(path, "7 bytes", "not a safetensors file");
    write_file(path, "", 0);
    REFUSED(path, "0 bytes", "not a safetensors file");
    write_file(path, "version https://git-lfs.github.com/spec/v1\n", 43);
    REFUSED(path, "git lfs pull", "not a safetensors file");
    REFUSED(stores_path("nowhere.safetensors"), "No such file", "");
    const char *fifo = stores_path("fifo");
    CHECK(mkfifo(fifo, 0666) == 0);
    REFUSED(fifo, "not a regular file", "");
}

/* What is odd but right. */
static void test_corners(void)
{
    const char *path = stores_path("corner.safetensors");
    write_model(path, "{}   ", 0);
    struct safetensors *st = open_good(path);
    CHECK(st->count == 0 && safetensors_find(st, "w") == NULL);
    safetensors_close(st);

    /* in no order, empty tensors between others and at the end, a shape of no elements whose other sides are large */
    write_model(path,
                "{ \"__metadata__\" : {\"a\":\"b\"},\n" U8("z", "2,1", "2", "4") "," U8("e2", "0", "4", "4") "," U8(
                    "e1", "7,0,9000000000", "2", "2") "," U8("", "", "1", "2") "," U8("a", "1", "0", "1") "}\t ",
                4);
    st = open_good(path);
    CHECK(st->count == 5);
    CHECK_STRING(st->entries[0].name, "");
    CHECK_STRING(st->entries[1].name, "a");
    CHECK_STRING(st->entries[2].name, "e1");
    CHECK(st->entries[0].dims == 0 && st->entries[0].bytes == 1 && st->entries[2].bytes == 0);
    CHECK(st->entries[2].dims == 3 && st->entries[2].shape[2] == 9000000000);
    CHECK_STRING(safetensors_path(st, &st->entries[0]), path);
    /* cut while it is open */
    char byte;
    CHECK(truncate(path, 20) == 0);
    CHECK(safetensors_read(st, &st->entries[1], 0, 1, &byte) == ERROR_USER);
    CHECK(strstr(error_message(), "truncated") != NULL);
    error_clear();
    safetensors_close(st);
}

/* -- Shards ------------------------------------------------------------------------------------------------------ */

static void test_shards(void)
{
    const char *folder = stores_path("shards");
    static const struct {
        const char *index, *file, *first, *second;
    } bad[] = {
        {"", "model.safetensors.index.json", "no JSON object", ""},
        {"{}", "model.safetensors.index.json", "weight_map", ""},
        {"{\"weight_map\":[]}", "model.safetensors.index.json", "weight_map", ""},
        {"{\"weight_map\":{}}", "model.safetensors.index.json", "weight_map", ""},
        {"{\"weight_map\":{\"v\":\"1\",\"v\":\"1\"}}", "model.safetensors.index.json", "duplicate", "v"},
        {"{\"weight_map\":{\"v\":1}}", "model.safetensors.index.json", "tensor v:", "name of a file"},
        {"{\"weight_map\":{\"v\":\"\"}}", "model.safetensors.index.json", "tensor v:", "name of a file"},
        {"{\"weight_map\":{\"v\":\"..\"}}", "model.safetensors.index.json", "tensor v:", "\"..\""},
        {"{\"weight_map\":{\"v\":\"../1\"}}", "model.safetensors.index.json", "tensor v:", "name of a file"},
        {"{\"weight_map\":{\"v\":\"/etc/passwd\"}}", "model.safetensors.index.json", "tensor v:", "\"/etc/passwd\""},
        {"{\"weight_map\":{\"v\":\"1\\n\"}}", "model.safetensors.index.json", "tensor v:", "name of a file"},
        {"{\"weight_map\":{\"v\":\"9\"}}", "9", "No such file", ""},
        {"{\"weight_map\":{\"v\":\".\"}}", ".", "Is a directory", ""},
        {"{\"weight_map\":{\"v\":\"1\",\"x\":\"2\",\"y\":\"1\",\"u\":\"2\"}}", "1", "tensor w:", "is not listed in"},
        {"{\"weight_map\":{\"v\":\"1\",\"w\":\"2\",\"x\":\"2\"}}", "1", "tensor w:", "is in this file, but"},
        {"{\"weight_map\":{\"v\":\"1\",\"w\":\"1\",\"x\":\"2\",\"y\":\"2\"}}", "2", "tensor y:", "is missing"},
        {"{\"weight_map\":{\"v\":\"1\",\"w\":\"1\",\"x\":\"3\"}}", "", "tensor w:", "is also in"},
        {"{\"weight_map\":{\"v\":\"1\",\"w\":\"4\"}}", "4", "tensor w:", "beyond"},
    };
    CHECK(mkdir(folder, 0777) == 0);
    REFUSED(folder, "neither model.safetensors nor model.safetensors.index.json", "");
    write_model(in_folder(folder, "1"), "{" U8("v", "1", "0", "1") "," U8("w", "1", "1", "2") "}", 2);
    write_model(in_folder(folder, "2"), "{\"__metadata__\":{\"k\":\"2\"}," U8("x", "3", "0", "3") "}", 3);
    write_model(in_folder(folder, "3"), "{" U8("x", "1", "0", "1") "," U8("w", "1", "1", "2") "}", 2);
    write_model(in_folder(folder, "4"), "{" U8("w", "2", "0", "2") "}", 1);
    const char *index = stores_path("shards/model.safetensors.index.json");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char words[100];
        write_file(index, bad[i].index, (int64_t)strlen(bad[i].index));
        snprintf(words, sizeof words, "shards/%s", bad[i].file);
        REFUSED(folder, words, bad[i].first);
        REFUSED(folder, words, bad[i].second);
    }
    const char *good = "{\"weight_map\":{\"v\":\"1\",\"x\":\"2\",\"w\":\"1\"}}";
    write_file(index, good, (int64_t)strlen(good));
    struct safetensors *st = open_good(folder);
    CHECK(st->count == 3 && st->file_count == 2);
    CHECK_STRING(st->entries[2].name, "x");
    CHECK_STRING(safetensors_path(st, &st->entries[2]), in_folder(folder, "2"));
    safetensors_close(st);
    /* a single file goes before an index */
    write_model(in_folder(folder, SAFETENSORS_SINGLE), "{" U8("w", "2", "0", "2") "}", 2);
    st = open_good(folder);
    CHECK(st->count == 1 && st->entries[0].bytes == 2);
    safetensors_close(st);
}

/* -- What the Python package wrote (tests/golden/make_safetensors.py) -------------------------------------------- */

static double element(enum safetensors_dtype dtype, const void *data, int64_t i)
{
    float value;
#define ELEMENT(name, type)                                                                                            \
    case SAFETENSORS_##name:                                                                                           \
        return (double)((const type *)data)[i]
    switch (dtype) {
        ELEMENT(BOOL, uint8_t);
        ELEMENT(U8, uint8_t);
        ELEMENT(I8, int8_t);
        ELEMENT(F8_E4M3, uint8_t);
        ELEMENT(F8_E5M2, uint8_t);
        ELEMENT(I16, int16_t);
        ELEMENT(U16, uint16_t);
        ELEMENT(I32, int32_t);
        ELEMENT(U32, uint32_t);
        ELEMENT(F64, double);
        ELEMENT(I64, int64_t);
        ELEMENT(U64, uint64_t);
    default:
        CHECK(safetensors_to_float(dtype, (const char *)data + i * safetensors_dtype_size(dtype), 1, &value));
        return value;
    }
}

/* The tensor is there with this type and shape, and counts as make_safetensors.py says. */
static void check_counting(const struct safetensors *st, const char *name, enum safetensors_dtype dtype, int dims,
                           const int64_t *shape)
{
    const struct safetensors_entry *entry = safetensors_find(st, name);
    if (entry == NULL)
        error_fatal("%s is missing", name);
    int64_t count = 1, wrong = 0;
    for (int d = 0; d < dims; d++)
        count *= shape[d];
    CHECK(entry->dtype == dtype && entry->dims == dims);
    CHECK(memcmp(entry->shape, shape, (size_t)dims * sizeof *shape) == 0);
    CHECK(entry->bytes == count * safetensors_dtype_size(dtype));
    void *data = read_whole(st, entry);
    bool raw = dtype == SAFETENSORS_F8_E4M3 || dtype == SAFETENSORS_F8_E5M2;
    for (int64_t i = 0; i < count; i++)
        wrong += element(dtype, data, i) != (raw ? i : (7 * i + dims) % (dtype == SAFETENSORS_BOOL ? 2 : 100));
    if (!check_report(__FILE__, __LINE__, wrong == 0, name))
        fprintf(stderr, "    %lld of %lld elements are wrong\n", (long long)wrong, (long long)count);
    free(data);
}

static const char *golden_path(const char *name)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/tests/golden/%s", getenv("abs_top_srcdir"), name);
    return path;
}

/* Widening `narrow` gives `wide`, bit by bit; a NaN gives a NaN. */
static void check_widening(const struct safetensors *st, const char *narrow, const char *wide)
{
    const struct safetensors_entry *from = safetensors_find(st, narrow), *to = safetensors_find(st, wide);
    float *in = read_whole(st, from), *right = read_whole(st, to);
    int64_t count = to->shape[0], wrong = 0, numbers = 0;
    float *out = memory_grow(NULL, to->bytes);
    CHECK(from->shape[0] == count && count > 500);
    CHECK(safetensors_to_float(from->dtype, in, count, out));
    for (int64_t i = 0; i < count; i++) {
        wrong += isnan(right[i]) ? !isnan(out[i]) : memcmp(&out[i], &right[i], sizeof out[i]) != 0;
        numbers += !isnan(right[i]);
    }
    CHECK(wrong == 0 && numbers > 400 && numbers < count);
    free(in);
    free(right);
    free(out);
}

static void check_rounding(const struct safetensors *st)
{
    const struct safetensors_entry *from = safetensors_find(st, "random.f32"),
                                   *to = safetensors_find(st, "rounded.bf16");
    float *in = read_whole(st, from);
    uint16_t *right = read_whole(st, to), *out = memory_grow(NULL, to->bytes);
    int64_t wrong = 0;
    CHECK(safetensors_from_float(SAFETENSORS_BF16, in, from->shape[0], out));
    for (int64_t i = 0; i < from->shape[0]; i++)
        wrong += isnan(in[i]) ? !isnan(bf16_to_f32(out[i])) : out[i] != right[i];
    CHECK(wrong == 0 && from->shape[0] > 300);
    CHECK(safetensors_from_float(SAFETENSORS_F32, in, from->shape[0], in));
    CHECK(!safetensors_from_float(SAFETENSORS_F16, in, 1, out));
    CHECK(!safetensors_to_float(SAFETENSORS_F64, in, 1, in) && !safetensors_to_float(SAFETENSORS_I32, in, 1, in));
    free(in);
    free(right);
    free(out);
}

static void test_golden(void)
{
    static const struct {
        const char *name;
        enum safetensors_dtype dtype;
        int dims;
        int64_t shape[SAFETENSORS_MAX_DIMS];
    } tensors[] = {{"bool", SAFETENSORS_BOOL, 2, {3, 5}},
                   {"u8", SAFETENSORS_U8, 1, {7}},
                   {"i8", SAFETENSORS_I8, 2, {2, 3}},
                   {"f8_e4m3", SAFETENSORS_F8_E4M3, 1, {9}},
                   {"f8_e5m2", SAFETENSORS_F8_E5M2, 1, {9}},
                   {"i16", SAFETENSORS_I16, 3, {2, 2, 2}},
                   {"u16", SAFETENSORS_U16, 1, {5}},
                   {"f16", SAFETENSORS_F16, 2, {3, 3}},
                   {"bf16", SAFETENSORS_BF16, 2, {3, 5}},
                   {"i32", SAFETENSORS_I32, 1, {4}},
                   {"u32", SAFETENSORS_U32, 1, {4}},
                   {"f32", SAFETENSORS_F32, 2, {4, 3}},
                   {"f64", SAFETENSORS_F64, 1, {3}},
                   {"i64", SAFETENSORS_I64, 3, {2, 1, 3}},
                   {"u64", SAFETENSORS_U64, 1, {3}},
                   {"scalar", SAFETENSORS_F32, 0, {0}},
                   {"scalar.i64", SAFETENSORS_I64, 0, {0}},
                   {"empty", SAFETENSORS_F32, 3, {3, 0, 2}},
                   {"empty.bf16", SAFETENSORS_BF16, 1, {0}},
                   {"eight", SAFETENSORS_U8, 8, {1, 2, 1, 3, 1, 2, 1, 2}},
                   {"n\xc3\xa4me \" with \\ signs", SAFETENSORS_F32, 1, {2}}};
    struct safetensors *st = open_good(golden_path("safetensors.safetensors"));
    CHECK(st->count == 27);
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++)
        check_counting(st, tensors[i].name, tensors[i].dtype, tensors[i].dims, tensors[i].shape);
    check_widening(st, "narrow.f16", "wide.f16");
    check_widening(st, "narrow.bf16", "wide.bf16");
    check_rounding(st);
    safetensors_close(st);

    st = open_good(golden_path("safetensors_shards"));
    CHECK(st->count == 3 && st->file_count == 2);
    check_counting(st, "a", SAFETENSORS_BF16, 1, (const int64_t[]){5});
    check_counting(st, "m", SAFETENSORS_F16, 1, (const int64_t[]){4});
    check_counting(st, "z", SAFETENSORS_F32, 2, (const int64_t[]){2, 3});
    safetensors_close(st);
}

int main(void)
{
    stores_begin();
    test_damage();
    test_corners();
    test_shards();
    test_golden();
    stores_end();
    return check_end();
}
