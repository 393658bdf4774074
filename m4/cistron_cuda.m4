# CISTRON_FIND_CUDA
# The CUDA executor, where the toolkit is: nvcc, cudart, cuBLASLt, and NCCL for several GPUs. Sets NVCC, NVCCFLAGS,
# CISTRON_CUDA_LIBS, the conditionals CUDA and NCCL, and cuda_summary, nccl_summary.
AC_DEFUN([CISTRON_FIND_CUDA], [
AC_ARG_WITH([cuda], [AS_HELP_STRING([--with-cuda@<:@=DIR@:>@],
    [the CUDA toolkit under DIR (else where nvcc is; without it, or with --without-cuda, the program computes on CPUs)])],
    [], [with_cuda=auto])
AC_ARG_WITH([nccl], [AS_HELP_STRING([--with-nccl@<:@=DIR@:>@], [NCCL under DIR (else with CUDA, or the usual paths)])],
    [], [with_nccl=auto])
AC_ARG_VAR([CUDA_ARCH], [GPU architectures to compile for, as "80 90a"; "all": those that nvcc knows of 80 89 90a 100 103; else those of the GPUs that nvidia-smi finds here, or all where it finds none])
AC_ARG_VAR([NVCCFLAGS], [flags of nvcc])
: ${NVCCFLAGS="-O3 -g -lineinfo"}
cuda_summary=no
nccl_summary=no
NVCC=
CISTRON_CUDA_CPPFLAGS=
CISTRON_CUDA_LIBS=
NVCC_ARCH=

AC_MSG_CHECKING([for CUDA])
AS_CASE([$with_cuda],
    [no], [],
    [yes|auto], [
        for cistron_folder in "$CUDA_HOME" "$CUDA_PATH" /usr/local/cuda; do
            AS_IF([test -z "$NVCC" && test -n "$cistron_folder" && test -x "$cistron_folder/bin/nvcc"],
                [NVCC=$cistron_folder/bin/nvcc])
        done
        AS_IF([test -z "$NVCC"], [NVCC=`command -v nvcc`])],
    [AS_IF([test -x "$with_cuda/bin/nvcc"], [NVCC=$with_cuda/bin/nvcc],
        [CISTRON_MISSING([CUDA: --with-cuda=$with_cuda does not hold a bin/nvcc])])])
AS_IF([test -n "$NVCC"], [
    cuda_folder=`AS_DIRNAME(["$NVCC"])`
    cuda_folder=`AS_DIRNAME(["$cuda_folder"])`
    CISTRON_CUDA_CPPFLAGS="-isystem $cuda_folder/include" # its headers are not ours to mend
    for cistron_folder in lib64 lib targets/x86_64-linux/lib; do
        AS_IF([test -z "$CISTRON_CUDA_LIBS" && test -f "$cuda_folder/$cistron_folder/libcudart.so"],
            [CISTRON_CUDA_LIBS="-L$cuda_folder/$cistron_folder -Wl,-rpath,$cuda_folder/$cistron_folder"])
    done
    CISTRON_CUDA_LIBS="$CISTRON_CUDA_LIBS -lcublasLt -lcudart -lstdc++"
    # its own flags: they are not every program's
    cistron_save_libs=$CISTRON_LIBS
    cistron_save_cppflags=$CISTRON_CPPFLAGS
    cistron_found=
    CISTRON_TRY_LINK([$cuda_folder], [$CISTRON_CUDA_CPPFLAGS], [$CISTRON_CUDA_LIBS],
        [@%:@include <cuda_runtime_api.h>
@%:@include <cublasLt.h>], [int n; cublasLtHandle_t h; return cudaGetDeviceCount(&n) + (int)cublasLtCreate(&h);])
    CISTRON_LIBS=$cistron_save_libs
    CISTRON_CPPFLAGS=$cistron_save_cppflags
    AS_IF([test -n "$cistron_found"], [cuda_summary=$cistron_found])])
AC_MSG_RESULT([$cuda_summary])
AS_CASE([$cuda_summary,$with_cuda], [no,no|no,auto], [], [no,*],
    [CISTRON_MISSING([CUDA: nvcc, libcudart and libcublasLt that work together; give --with-cuda=DIR, or --without-cuda])])

AS_IF([test "$cuda_summary" != no], [
    cuda_known=`"$NVCC" --list-gpu-arch | sed 's/compute_//' | tr '\n' ' '`
    cuda_plain=
    cuda_all="80 89 90a 100 103"
    AC_MSG_CHECKING([for what GPUs])
    AS_CASE([$CUDA_ARCH],
        [all], [cuda_archs=$cuda_all cuda_why="all, as CUDA_ARCH says"],
        [?*], [cuda_archs=$CUDA_ARCH cuda_why="as CUDA_ARCH says"],
        [CISTRON_CUDA_HERE
        AS_IF([test -n "$cuda_archs"], [cuda_why="of the GPUs here; CUDA_ARCH=all for all"],
            [cuda_archs=$cuda_all cuda_why="all, since there is no GPU here; CUDA_ARCH names fewer"])])
    AC_MSG_RESULT([$cuda_archs ($cuda_why)])
    cuda_summary="$cuda_summary for $cuda_archs"
    for cistron_arch in $cuda_archs; do
        AS_CASE([" $cuda_known"], [*" "`AS_ECHO(["$cistron_arch"]) | sed 's/a$//'`" "*], [
            NVCC_ARCH="$NVCC_ARCH -gencode arch=compute_$cistron_arch,code=sm_$cistron_arch"
            AS_CASE([$cistron_arch], [*a], [], [cuda_plain=$cistron_arch])],
            [AS_IF([test "$cuda_archs" = "$CUDA_ARCH"],
                [CISTRON_MISSING([CUDA_ARCH: $NVCC knows no $cistron_arch, but $cuda_known])])])
    done
    # newer devices compile this at start
    AS_IF([test -n "$cuda_plain"],
        [NVCC_ARCH="$NVCC_ARCH -gencode arch=compute_$cuda_plain,code=compute_$cuda_plain"])
    AC_DEFINE([CISTRON_CUDA], [1], [with the CUDA executor])

    AC_MSG_CHECKING([for NCCL])
    cistron_found=
    cistron_nccl_libs="$CISTRON_CUDA_LIBS"
    AS_IF([test "$with_nccl" != no], [
        AS_CASE([$with_nccl], [yes|auto], [cistron_under_libs=-lnccl cistron_under_cppflags=],
            [CISTRON_UNDER([$with_nccl], [nccl.h], [nccl], [include])])
        CISTRON_TRY_LINK([yes], [$CISTRON_CUDA_CPPFLAGS $cistron_under_cppflags],
            [$cistron_under_libs $CISTRON_CUDA_LIBS], [@%:@include <nccl.h>],
            [ncclUniqueId id; return ncclGetUniqueId(&id) != ncclSuccess;])
        CISTRON_LIBS=$cistron_save_libs
        CISTRON_CPPFLAGS=$cistron_save_cppflags
        AS_IF([test -n "$cistron_found"], [
            nccl_summary=yes
            CISTRON_CUDA_LIBS="$cistron_under_libs $CISTRON_CUDA_LIBS"
            CISTRON_CUDA_CPPFLAGS="$CISTRON_CUDA_CPPFLAGS $cistron_under_cppflags"
            AC_DEFINE([CISTRON_NCCL], [1], [collectives of GPUs by NCCL])])])
    AC_MSG_RESULT([$nccl_summary])
    AS_CASE([$nccl_summary,$with_nccl], [no,no|no,auto], [], [no,*],
        [CISTRON_MISSING([NCCL: --with-nccl=$with_nccl does not hold an nccl.h and a libnccl that work together])])
])
AM_CONDITIONAL([CUDA], [test "$cuda_summary" != no])
AM_CONDITIONAL([NCCL], [test "$nccl_summary" != no])
AC_SUBST([NVCC])
AC_SUBST([NVCC_ARCH])
AC_SUBST([CISTRON_CUDA_CPPFLAGS])
AC_SUBST([CISTRON_CUDA_LIBS])
])

# CISTRON_CUDA_HERE
# Those of $cuda_all that suit the GPUs here, in cuda_archs: for each GPU the newest that nvcc knows and that is not newer
# than it. An older one of the same generation runs there, and what is newer than all compiles the last one's at start.
AC_DEFUN([CISTRON_CUDA_HERE], [
cuda_archs=
for cistron_gpu in `nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | sed -n 's/^\(@<:@0-9@:>@*\)\.\(@<:@0-9@:>@\)$/\1\2/p' | sort -nu`; do
    cistron_best=
    for cistron_arch in $cuda_all; do
        cistron_plain=`AS_ECHO(["$cistron_arch"]) | sed 's/a$//'`
        AS_CASE([" $cuda_known"], [*" $cistron_plain "*],
            [AS_IF([test "$cistron_plain" -le "$cistron_gpu"], [cistron_best=$cistron_arch])])
    done
    AS_CASE([" $cuda_archs "], [*" $cistron_best "*], [], # one that no kernel suits adds none
        [AS_IF([test -n "$cistron_best"], [cuda_archs="$cuda_archs${cuda_archs:+ }$cistron_best"])])
done])
