/* Checks for test programs: counts checks, prints failures, and exits with 1 if any check failed.
 *
 *   int main(void) { CHECK(1 + 1 == 2); ...; return check_end(); }
 *
 * Under MPI each rank counts its own checks; a failing rank's exit status fails the whole run. */
#ifndef TESTS_CHECK_H
#define TESTS_CHECK_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int check_failures, check_count;

#define CHECK(condition) check_report(__FILE__, __LINE__, (condition) ? 1 : 0, #condition)

/* |a - b| <= relative * |b| + absolute */
#define CHECK_NEAR(a, b, relative, absolute) check_near(__FILE__, __LINE__, (a), (b), (relative), (absolute), #a)

#define CHECK_STRING(a, b)                                                                                             \
    do {                                                                                                               \
        const char *check_a = (a), *check_b = (b);                                                                     \
        if (!check_report(__FILE__, __LINE__, strcmp(check_a, check_b) == 0, #a " equals " #b))                        \
            fprintf(stderr, "    got \"%s\"\n    not \"%s\"\n", check_a, check_b);                                     \
    } while (0)

static inline int check_report(const char *file, int line, int ok, const char *what)
{
    check_count++;
    if (!ok) {
        check_failures++;
        fprintf(stderr, "%s:%d: failed: %s\n", file, line, what);
    }
    return ok;
}

static inline int check_near(const char *file, int line, double a, double b, double relative, double absolute,
                             const char *what)
{
    int ok = fabs(a - b) <= relative * fabs(b) + absolute; /* false for NaN */
    if (!check_report(file, line, ok, what))
        fprintf(stderr, "    got %.17g, wanted %.17g, bound %.3g\n", a, b, relative * fabs(b) + absolute);
    return ok;
}

/* Returns the largest |a / b - 1| of `count` numbers; NaN if one is NaN. */
static inline double check_apart(const double *a, const double *b, int count)
{
    double largest = 0;
    for (int i = 0; i < count; i++)
        if (!(fabs(a[i] / b[i] - 1) <= largest))
            largest = fabs(a[i] / b[i] - 1);
    return largest;
}

static inline int check_end(void)
{
    printf("%d checks, %d failed\n", check_count, check_failures);
    return check_failures != 0;
}

/* Ends a test program that got an unknown argument. */
_Noreturn static inline void check_unknown_argument(const char *argument, const char *known)
{
    fprintf(stderr, "unknown argument \"%s\": it may be %s\n", argument, known);
    exit(2);
}

/* exit status of a test that cannot run here (automake's SKIP) */
enum { CHECK_SKIP = 77 };

#endif
