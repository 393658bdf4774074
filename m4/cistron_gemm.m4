# CISTRON_GEMM
# One library for single-precision matrix products: oneDNN (defines CISTRON_GEMM_DNNL) or any CBLAS (CISTRON_GEMM_CBLAS).
# "auto" prefers oneDNN. Sets gemm_summary.
AC_DEFUN([CISTRON_GEMM], [
AC_ARG_WITH([gemm], [AS_HELP_STRING([--with-gemm=auto|dnnl|cblas],
    [matrix products by oneDNN or by a CBLAS (auto); one that is elsewhere: CPPFLAGS=-IDIR LDFLAGS=-LDIR])], [], [with_gemm=auto])
AS_CASE([$with_gemm], [yes], [with_gemm=auto], [auto|dnnl|cblas], [],
    [AC_MSG_ERROR([--with-gemm=$with_gemm: must be auto, dnnl or cblas])])
gemm_summary=

AS_IF([test "$with_gemm" != cblas], [
    AC_MSG_CHECKING([for oneDNN])
    cistron_found=
    CISTRON_TRY_LINK([oneDNN], [], [-ldnnl], [@%:@include <oneapi/dnnl/dnnl.h>],
        [float x = 1; return dnnl_sgemm('N', 'N', 1, 1, 1, 1, &x, 1, &x, 1, 0, &x, 1) != dnnl_success;])
    AC_MSG_RESULT([${cistron_found:-no}])
    AS_IF([test -n "$cistron_found"], [
        AC_DEFINE([CISTRON_GEMM_DNNL], [1], [matrix products by oneDNN])
        gemm_summary=$cistron_found])])

AS_IF([test -z "$gemm_summary" && test "$with_gemm" != dnnl], [
    AC_MSG_CHECKING([for a CBLAS])
    cistron_found=
    m4_define([cistron_cblas], [float x = 1;
cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, 1, 1, 1, 1, &x, 1, &x, 1, 0, &x, 1);])
    # what LIBS names already (the user's choice), then what pkg-config knows, then the usual names
    CISTRON_TRY_LINK([CBLAS of LIBS=$LIBS], [], [], [@%:@include <cblas.h>], [cistron_cblas])
    for cistron_module in openblas blis cblas; do
        CISTRON_MODULE([$cistron_module])
        AS_IF([test -n "$cistron_module_libs"], [
            CISTRON_TRY_LINK([$cistron_module], [$cistron_module_cppflags], [$cistron_module_libs],
                [@%:@include <cblas.h>], [cistron_cblas])])
    done
    for cistron_library in openblas blis cblas blas; do
        CISTRON_TRY_LINK([$cistron_library], [], [-l$cistron_library], [@%:@include <cblas.h>], [cistron_cblas])
    done
    AC_MSG_RESULT([${cistron_found:-no}])
    AS_IF([test -n "$cistron_found"], [
        AC_DEFINE([CISTRON_GEMM_CBLAS], [1], [matrix products by a CBLAS])
        gemm_summary="CBLAS ($cistron_found)"])])

AS_IF([test -z "$gemm_summary"], [
    AS_CASE([$with_gemm],
        [dnnl], [CISTRON_MISSING([oneDNN: install the package libdnnl-dev, or give --with-gemm=cblas])],
        [cblas], [CISTRON_MISSING([a CBLAS: install the package libopenblas-dev, or give --with-gemm=dnnl])],
        [CISTRON_MISSING([a library for matrix products: install the package libdnnl-dev (--with-gemm=dnnl) or libopenblas-dev (--with-gemm=cblas)])])])
])
