#include "base/random.h"
#include "base/clones.h"
#include "base/range.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* The words are separate variables so that compilers keep them in registers. */
void random_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* The seed is Philox's key, so two seeds never share a sequence. Purpose and stream are mixed into the upper counter
 * words by one more Philox call, which leaves the 64-bit index intact. */
struct random_series random_series_of(const struct random_key *key)
{
    uint32_t seed[2] = {(uint32_t)key->seed, (uint32_t)(key->seed >> 32)};
    uint32_t name[4] = {(uint32_t)key->stream, (uint32_t)(key->stream >> 32), key->purpose, 0x63697374u};
    uint32_t mixed[4];
    random_philox(name, seed, mixed);
    return (struct random_series){{mixed[0], mixed[1]}, {mixed[2], mixed[3]}};
}

/* -- One by one -------------------------------------------------------------------------------------------------- */

void random_series_words(const struct random_series *series, uint64_t index, uint32_t out[4])
{
    uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32), series->counter[0], series->counter[1]};
    random_philox(counter, series->key, out);
}

static void draw(const struct random_key *key, uint64_t index, uint32_t out[4])
{
    struct random_series series = random_series_of(key);
    random_series_words(&series, index, out);
}

uint64_t random_bits(const struct random_key *key, uint64_t index)
{
    uint32_t out[4];
    draw(key, index, out);
    return (uint64_t)out[0] << 32 | out[1];
}

/* Returns the upper 53 of 64 bits as an exact double in [0, 1). Uses conversions of signed 32 bits, which vector units
 * have. */
CPU_INLINE double to_uniform(uint32_t high, uint32_t low)
{
    const double upper = (double)(int32_t)(high ^ 0x80000000u) + 0x1p31;
    return upper * 0x1p-32 + (double)(int32_t)(low >> 11) * 0x1p-53;
}

static double radius_of(uint32_t high, uint32_t low)
{
    return sqrt(-2.0 * log(1.0 - to_uniform(high, low))); /* 1 - u is never 0 */
}

static double angle_of(uint32_t high, uint32_t low)
{
    return 6.283185307179586476925 * to_uniform(high, low);
}

double random_uniform(const struct random_key *key, uint64_t index)
{
    uint32_t out[4];
    draw(key, index, out);
    return to_uniform(out[0], out[1]);
}

double random_normal(const struct random_key *key, uint64_t index)
{
    uint32_t out[4];
    draw(key, index >> 1, out);
    double radius = radius_of(out[0], out[1]), angle = angle_of(out[2], out[3]);
    return radius * ((index & 1) ? sin(angle) : cos(angle));
}

/* -- In runs ----------------------------------------------------------------------------------------------------- */

enum { RUN = 256 }; /* draws at a time: all their words fit the L1 cache */

/* random_series_words of `count` indices from `first` on, to out[word * count + i]. Each round is done for all indices,
 * so that the compiler vectorizes it. */
CPU_INLINE void draw_run(const struct random_series *series, uint64_t first, int count, uint32_t *out)
{
    uint32_t *c0 = out, *c1 = c0 + count, *c2 = c1 + count, *c3 = c2 + count;
    uint32_t k0 = series->key[0], k1 = series->key[1];
    for (int i = 0; i < count; i++) {
        c0[i] = (uint32_t)(first + (uint64_t)i);
        c1[i] = (uint32_t)((first + (uint64_t)i) >> 32);
        c2[i] = series->counter[0];
        c3[i] = series->counter[1];
    }
    for (int round = 0; round < 10; round++) {
#pragma omp simd
        for (int i = 0; i < count; i++) {
            uint64_t p0 = (uint64_t)0xD2511F53u * c0[i], p1 = (uint64_t)0xCD9E8D57u * c2[i];
            c0[i] = (uint32_t)(p1 >> 32) ^ c1[i] ^ k0;
            c1[i] = (uint32_t)p1;
            c2[i] = (uint32_t)(p0 >> 32) ^ c3[i] ^ k1;
            c3[i] = (uint32_t)p0;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

void random_series_uniforms(const struct random_series *series, uint64_t first, double out[RANDOM_LANES])
{
    uint32_t words[4][RANDOM_LANES];
    draw_run(series, first, RANDOM_LANES, words[0]);
    for (int i = 0; i < RANDOM_LANES; i++)
        out[i] = to_uniform(words[0][i], words[1][i]);
}

void random_uniforms(const struct random_key *key, uint64_t first, int64_t count, double *out)
{
    struct random_series series = random_series_of(key);
    uint32_t words[4][RUN];
    for (int64_t done = 0; done < count; done += RUN) {
        int64_t rest = MIN(count - done, RUN);
        draw_run(&series, first + (uint64_t)done, RUN, words[0]);
        for (int64_t i = 0; i < rest; i++)
            out[done + i] = to_uniform(words[0][i], words[1][i]);
    }
}

void random_normals(const struct random_key *key, uint64_t first, int64_t count, double *out)
{
    struct random_series series = random_series_of(key);
    uint32_t words[4][RUN];
    for (int64_t done = 0; done < count;) {
        draw_run(&series, (first + (uint64_t)done) >> 1, RUN, words[0]);
        for (int i = 0; i < RUN && done < count; i++) {
            double radius = radius_of(words[0][i], words[1][i]), angle = angle_of(words[2][i], words[3][i]);
            double pair[2] = {radius * cos(angle), radius * sin(angle)};
            for (uint64_t half = (first + (uint64_t)done) & 1; half < 2 && done < count; half++)
                out[done++] = pair[half];
        }
    }
}

/* -- Normal floats ----------------------------------------------------------------------------------------------- */

/* Most of the time of a normal number is spent in log, sin and cos, accurate to the last bit. A float needs only 24 of
 * the 53 bits: vectorized approximations nearly always determine how it is rounded, and the remaining elements are
 * computed as in random_normal. */
static const double doubt = 0x1p-40; /* relative; the approximations err by less than 2^-44, the C library by 2^-52 */

/* Approximates log(x), 0 < x <= 1. x = 2^exponent * m, where m is between sqrt(1/2) and sqrt(2), by the series of 2
 * atanh. */
CPU_INLINE double near_log(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t above = (uint32_t)(bits >> 32) - 0x3fe6a09eu;
    const double exponent = (double)((int32_t)above >> 20);
    double m;
    bits -= (uint64_t)(above & 0xfff00000u) << 32;
    memcpy(&m, &bits, sizeof m);
    const double s = (m - 1) / (m + 1), z = s * s;
    double sum = 1.0 / 19;
    for (int k = 17; k > 0; k -= 2)
        sum = sum * z + 1.0 / k;
    return exponent * 0.69314718055994530942 + 2 * s * sum;
}

/* Approximates cos and sin of 0 <= angle <= 2 pi. rest: distance from the nearest multiple of pi / 2; below 2^-30 the
 * results are too inaccurate. */
CPU_INLINE void near_turn(double angle, double *cosine, double *sine, double *rest)
{
    const double whole = 0x1.8p52; /* adding it rounds to a whole number */
    const double quarter = (angle * 0.63661977236758134308 + whole) - whole;
    const double r = (angle - quarter * 0x1.921fb544p+0) - quarter * 0x1.0b4611a626331p-34; /* pi / 2 in two parts */
    const double z = r * r;
    double c = 0, s = 0;
    for (int k = 16; k > 0; k -= 2) {
        c = (1 - c) * z * (1.0 / (k * (k - 1)));
        s = (1 - s) * z * (1.0 / (k * (k + 1)));
    }
    c = 1 - c;
    s = r - r * s;
    const bool odd = quarter == 1 || quarter == 3;
    const double x = odd ? s : c, y = odd ? c : s;
    *cosine = quarter == 1 || quarter == 2 ? -x : x;
    *sine = quarter == 2 || quarter == 3 ? -y : y;
    *rest = fabs(r);
}

/* Rounds x, and sets *unsure if (1 - doubt) x and (1 + doubt) x are rounded differently. */
CPU_INLINE float rounded(double x, int32_t *unsure)
{
    const float low = (float)(x * (1 - doubt)), high = (float)(x * (1 + doubt));
    *unsure |= low != high;
    return low;
}

/* Writes elements 2 i and 2 i + 1 of each draw, and whether either is unsure. */
CPU_CLONES static void normal_run(const struct random_series *series, uint64_t first, double factor,
                                  float even[restrict RUN], float odd[restrict RUN], int32_t unsure[restrict RUN])
{
    uint32_t words[4][RUN];
    draw_run(series, first, RUN, words[0]);
#pragma omp simd
    for (int i = 0; i < RUN; i++) {
        const double radius = sqrt(-2 * near_log(1 - to_uniform(words[0][i], words[1][i])));
        double cosine, sine, rest;
        near_turn(6.283185307179586476925 * to_uniform(words[2][i], words[3][i]), &cosine, &sine, &rest);
        int32_t not_known = rest < 0x1p-30;
        even[i] = rounded(radius * cosine * factor, &not_known);
        odd[i] = rounded(radius * sine * factor, &not_known);
        unsure[i] = not_known;
    }
}

void random_normal_floats(const struct random_key *key, uint64_t first, int64_t count, double factor, float *out)
{
    const struct random_series series = random_series_of(key);
    float values[2][RUN];
    int32_t unsure[RUN];
    for (int64_t done = 0; done < count;) {
        const uint64_t begin = first + (uint64_t)done;
        normal_run(&series, begin >> 1, factor, values[0], values[1], unsure);
        for (uint64_t at = begin & 1; at < 2 * RUN && done < count; at++, done++)
            out[done] = unsure[at >> 1] ? (float)(factor * random_normal(key, first + (uint64_t)done))
                                        : values[at & 1][at >> 1];
    }
}

uint64_t random_hash_name(const char *name)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3u;
    return hash;
}
