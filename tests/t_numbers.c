/* All codes of bf16, e4m3 and e5m2 (core/dtype.h) are loaded and stored as the oracle does it; Philox gives its
 * published answers. */
#include "check.h"
#include "ref/reference.h"

#include "base/random.h"

static double load_bits(enum dtype dtype, uint32_t bits)
{
    uint16_t wide = (uint16_t)bits;
    uint8_t narrow = (uint8_t)bits;
    struct tensor x = tensor_vector(dtype == DTYPE_BF16 ? (void *)&wide : &narrow, dtype, 1);
    return reference_load(&x, 0, 0);
}

static uint32_t round_bits(enum dtype dtype, double value)
{
    uint16_t wide = 0;
    uint8_t narrow = 0;
    struct tensor x = tensor_vector(dtype == DTYPE_BF16 ? (void *)&wide : &narrow, dtype, 1);
    reference_store(&x, 0, 0, value);
    return dtype == DTYPE_BF16 ? wide : narrow;
}

/* The same from f32, which is what executors call. */
static uint32_t round_bits_f32(enum dtype dtype, float value)
{
    return dtype == DTYPE_BF16 ? f32_to_bf16(value) : dtype == DTYPE_E4M3 ? f32_to_e4m3(value) : f32_to_e5m2(value);
}

/* A code's value from the format's definition: 1 sign, then exponent, then mantissa bits. */
static double value_of(uint32_t code, int exponent_bits, int mantissa_bits)
{
    int bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = (int)(code >> mantissa_bits & ((1u << exponent_bits) - 1u));
    double mantissa = (double)(code & ((1u << mantissa_bits) - 1u)) / (double)(1 << mantissa_bits);
    double magnitude = exponent == 0 ? ldexp(mantissa, 1 - bias) : ldexp(1.0 + mantissa, exponent - bias);
    return code >> (exponent_bits + mantissa_bits) ? -magnitude : magnitude;
}

/* All finite codes of one sign: value, exact return, and for each neighbouring pair the middle (a tie, to the even
 * code) and a hair to each side of it. `last` is the code of the largest finite value. */
static void test_format(enum dtype dtype, int exponent_bits, int mantissa_bits, uint32_t last)
{
    uint32_t sign = 1u << (exponent_bits + mantissa_bits);
    int wrong = 0;
    for (uint32_t code = 0; code <= last; code++)
        for (uint32_t s = 0; s <= sign; s += sign) {
            double value = load_bits(dtype, code | s);
            wrong += value != value_of(code | s, exponent_bits, mantissa_bits) || (signbit(value) != 0) != (s != 0);
            wrong += round_bits(dtype, value) != (code | s) || round_bits_f32(dtype, (float)value) != (code | s);
            if (code == last)
                continue;
            double next = load_bits(dtype, (code + 1) | s), middle = 0.5 * (value + next); /* exact in f32 too */
            uint32_t even = (code & 1u ? code + 1 : code) | s;
            wrong += round_bits(dtype, middle) != even || round_bits_f32(dtype, (float)middle) != even;
            wrong += round_bits(dtype, nextafter(middle, value)) != (code | s);
            wrong += round_bits(dtype, nextafter(middle, next)) != ((code + 1) | s);
            wrong += round_bits_f32(dtype, nextafterf((float)middle, (float)value)) != (code | s);
            wrong += round_bits_f32(dtype, nextafterf((float)middle, (float)next)) != ((code + 1) | s);
        }
    if (!check_report(__FILE__, __LINE__, wrong == 0, dtype_name(dtype)))
        fprintf(stderr, "    %d of the roundings are wrong\n", wrong);
    CHECK(isnan(load_bits(dtype, round_bits(dtype, NAN))));
}

static void test_formats(void)
{
    test_format(DTYPE_BF16, 8, 7, 0x7f7f);
    test_format(DTYPE_E4M3, 4, 3, 0x7e);
    test_format(DTYPE_E5M2, 5, 2, 0x7b);

    /* the ends: bf16 overflows to infinity from the middle above its largest value on, the 8-bit types saturate */
    double largest = 0x1.fep127, beyond = 0x1.ffp127;
    CHECK(round_bits(DTYPE_BF16, nextafter(beyond, 0.0)) == 0x7f7f && load_bits(DTYPE_BF16, 0x7f7f) == largest);
    CHECK(round_bits(DTYPE_BF16, beyond) == 0x7f80 && round_bits(DTYPE_BF16, -INFINITY) == 0xff80);
    CHECK(round_bits(DTYPE_BF16, 1e300) == 0x7f80);
    CHECK(load_bits(DTYPE_E4M3, 0x7e) == 448.0 && load_bits(DTYPE_E5M2, 0x7b) == 57344.0);
    static const double large[3] = {449.0, 1e30, INFINITY};
    for (int i = 0; i < 3; i++) {
        CHECK(load_bits(DTYPE_E4M3, round_bits(DTYPE_E4M3, large[i])) == 448.0);
        CHECK(load_bits(DTYPE_E4M3, round_bits(DTYPE_E4M3, -large[i])) == -448.0);
        CHECK(load_bits(DTYPE_E5M2, round_bits(DTYPE_E5M2, 1000.0 * large[i])) == 57344.0);
        CHECK(load_bits(DTYPE_E5M2, round_bits(DTYPE_E5M2, -1000.0 * large[i])) == -57344.0);
    }
    CHECK(isinf(load_bits(DTYPE_E5M2, 0x7c)) && isnan(load_bits(DTYPE_E5M2, 0x7d)) &&
          isnan(load_bits(DTYPE_E4M3, 0x7f)));
    CHECK(load_bits(DTYPE_E4M3, 1) == 0x1p-9 && load_bits(DTYPE_E5M2, 1) == 0x1p-16);
    /* one rounding, not two: to f32 first this would become a tie and then 1.0 */
    CHECK(load_bits(DTYPE_BF16, round_bits(DTYPE_BF16, 1.0 + 0x1p-8 + 0x1p-40)) == 1.0 + 0x1p-7);
    CHECK(load_bits(DTYPE_E4M3, round_bits(DTYPE_E4M3, 1.0 + 0x1p-4 + 0x1p-40)) == 1.125);
}

/* Known answers of Random123's kat_vectors, philox4x32 with 10 rounds. */
static void test_philox(void)
{
    static const uint32_t vectors[3][10] = {
        {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
        {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x408f276d, 0x41c83b0e, 0xa20bc7c6,
         0x6d5451fd},
        {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09, 0x94fdcceb, 0x5001e420,
         0x24126ea1},
    };
    for (int i = 0; i < 3; i++) {
        uint32_t out[4];
        random_philox(vectors[i], vectors[i] + 4, out);
        CHECK(memcmp(out, vectors[i] + 6, sizeof out) == 0);
    }
}

/* Numbers of a series are those of its key, one by one or many at a time, beyond 32 bits of the index too. */
static void test_series(void)
{
    static const uint64_t firsts[] = {0, 1, 0xfffffff8u, 0x123456789abcdefu};
    const struct random_key key = {0x0123456789abcdefu, RANDOM_TEST, 0xfedcba9876543210u};
    const struct random_series series = random_series_of(&key);
    for (size_t k = 0; k < sizeof firsts / sizeof *firsts; k++) {
        double uniforms[RANDOM_LANES];
        random_series_uniforms(&series, firsts[k], uniforms);
        for (uint64_t i = 0; i < RANDOM_LANES; i++) {
            uint32_t words[4];
            random_series_words(&series, firsts[k] + i, words);
            CHECK(random_bits(&key, firsts[k] + i) == ((uint64_t)words[0] << 32 | words[1]));
            CHECK(random_uniform(&key, firsts[k] + i) == uniforms[i]);
        }
    }
}

/* Runs of random numbers are those that come one by one: from even and odd elements, over the ends of what is drawn at
 * once, and where the index outgrows 32 bits. */
static void test_runs(void)
{
    static const uint64_t firsts[] = {0, 1, 510, 511, 0xfffffffeu, 0x1fffffff1u, 0xfffffffffff0u};
    static const int64_t counts[] = {0, 1, 2, 3, 255, 256, 257, 511, 512, 513, 5000};
    const struct random_key key = {0x123456789abcdefu, RANDOM_TEST, random_hash_name("runs")};
    for (size_t f = 0; f < sizeof firsts / sizeof *firsts; f++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            double uniforms[5001], normals[5001];
            int64_t count = counts[c], wrong = 0;
            uniforms[count] = normals[count] = -99;
            random_uniforms(&key, firsts[f], count, uniforms);
            random_normals(&key, firsts[f], count, normals);
            for (int64_t i = 0; i < count; i++)
                wrong += uniforms[i] != random_uniform(&key, firsts[f] + (uint64_t)i) ||
                         normals[i] != random_normal(&key, firsts[f] + (uint64_t)i);
            CHECK(wrong == 0 && uniforms[count] == -99 && normals[count] == -99);
        }
}

/* Floats are the rounded doubles, to the bit: of many numbers, so that some are near the middle between two floats, and
 * of the factors that make some too small for a normal float, or zero. */
static void test_normal_floats(void)
{
    enum { COUNT = 60001 };
    static const double factors[] = {1, 0.02, 0.02 / 17, -3e5, 1e-38, 4e-46, 0};
    static double normals[COUNT];
    static float floats[COUNT + 1];
    for (uint64_t f = 0; f < sizeof factors / sizeof *factors; f++)
        for (uint64_t part = 0; part < 8; part++) {
            const struct random_key key = {part, RANDOM_TEST, f};
            const uint64_t first = part * 0x20000001u + f;
            int64_t wrong = 0;
            floats[COUNT] = -99;
            random_normals(&key, first, COUNT, normals);
            random_normal_floats(&key, first, COUNT, factors[f], floats);
            for (int64_t i = 0; i < COUNT; i++) {
                const float expected = (float)(factors[f] * normals[i]);
                wrong += memcmp(&expected, &floats[i], sizeof expected) != 0;
            }
            CHECK(wrong == 0 && floats[COUNT] == -99);
        }
}

int main(void)
{
    test_formats();
    test_philox();
    test_series();
    test_runs();
    test_normal_floats();
    return check_end();
}
