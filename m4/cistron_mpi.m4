# CISTRON_MPI_COMPILER
# Before AC_PROG_CC: --with-mpi=DIR takes DIR/bin/mpicc. Else the search of AC_PROG_CC begins with mpicc.
AC_DEFUN([CISTRON_MPI_COMPILER], [
AC_ARG_WITH([mpi], [AS_HELP_STRING([--with-mpi@<:@=DIR@:>@], [MPI whose compiler wrapper is DIR/bin/mpicc (else CC, else the mpicc in PATH)])],
    [], [with_mpi=yes])
AS_CASE([$with_mpi],
    [no], [AC_MSG_ERROR([MPI cannot be left out: drop --without-mpi])],
    [yes], [],
    [
        AS_IF([test -n "$CC"], [AC_MSG_ERROR([give --with-mpi=DIR or CC, not both])])
        AS_IF([test -x "$with_mpi/bin/mpicc"], [CC=$with_mpi/bin/mpicc],
            [AC_MSG_ERROR([--with-mpi=$with_mpi: there is no $with_mpi/bin/mpicc])])])
])

# CISTRON_MPI
# The compiler found must know MPI. Sets MPIRUN and mpi_summary.
AC_DEFUN([CISTRON_MPI], [
AC_MSG_CHECKING([whether $CC compiles and links MPI programs])
cistron_found=
CISTRON_TRY_LINK([$CC], [], [], [@%:@include <mpi.h>], [MPI_Init_thread(0, 0, MPI_THREAD_FUNNELED, &(int){0});])
AC_MSG_RESULT([${cistron_found:-no}])
AS_IF([test -z "$cistron_found"],
    [CISTRON_MISSING([MPI: install the packages libopenmpi-dev and openmpi-bin, or give --with-mpi=DIR or CC=MPICC])])
# the starter that belongs to the compiler, which need not be in PATH
AC_ARG_VAR([MPIRUN], [starts MPI programs (mpirun beside CC, else in PATH)])
cistron_folder=`set dummy $CC; AS_DIRNAME(["$[]2"])`
AC_PATH_PROG([MPIRUN], [mpirun], [mpirun], [$cistron_folder$PATH_SEPARATOR$PATH])
mpi_summary="$cistron_found, $MPIRUN"
])
