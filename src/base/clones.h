#ifndef BASE_CLONES_H
#define BASE_CLONES_H

#include <stdlib.h> /* __GLIBC__ */

/* Function multiversioning: a kernel with CPU_CLONES is compiled for several instruction sets, and the dynamic linker
 * picks one, so one binary is fast on different CPUs. The compiler does not clone OpenMP parallel regions: put them in
 * an ordinary function that calls a cloned kernel on a range. Functions that a kernel calls in its loops must be
 * CPU_INLINE, or they are compiled for the baseline. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__) && !defined(CISTRON_NO_CLONES)
#if __GNUC__ >= 12
#define CPU_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define CPU_CLONES __attribute__((target_clones("default", "avx2", "avx512f")))
#endif
#else
#define CPU_CLONES
#endif

#if defined(__GNUC__)
#define CPU_INLINE static inline __attribute__((always_inline))
#else
#define CPU_INLINE static inline
#endif

#endif
