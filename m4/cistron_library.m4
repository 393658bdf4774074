# What every required library shares: where it is looked for, how it is tested, and what is said when it is absent.
# Nothing ends configure on the spot: absences are gathered, so that a user learns of all of them at once.

# CISTRON_MISSING(TEXT)
# Notes one absence; CISTRON_REPORT_MISSING ends configure with all of them.
AC_DEFUN([CISTRON_MISSING], [AS_VAR_APPEND([cistron_missing], ["
  $1"])])

AC_DEFUN([CISTRON_REPORT_MISSING], [
AS_IF([test -n "$cistron_missing"], [AC_MSG_ERROR([required and not found (config.log has the details):$cistron_missing])])
])

# CISTRON_TRY_LINK(HOW, CPPFLAGS, LIBS, PROLOGUE, BODY)
# When cistron_found is empty and the program links with these flags: adds them to CISTRON_CPPFLAGS and CISTRON_LIBS
# and sets cistron_found to HOW. The flags are shell words, expanded here.
AC_DEFUN([CISTRON_TRY_LINK], [
AS_IF([test -z "$cistron_found"], [
    cistron_save_CPPFLAGS=$CPPFLAGS
    cistron_save_LIBS=$LIBS
    CPPFLAGS="$2 $CPPFLAGS"
    LIBS="$3 $LIBS"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([$4], [$5])], [
        cistron_found="$1"
        CISTRON_CPPFLAGS="$CISTRON_CPPFLAGS $2"
        CISTRON_LIBS="$3 $CISTRON_LIBS"])
    CPPFLAGS=$cistron_save_CPPFLAGS
    LIBS=$cistron_save_LIBS])
])

# CISTRON_UNDER(DIR, HEADER, LIBRARY, INCLUDE-FOLDERS)
# Flags for a library under DIR: cistron_under_cppflags and cistron_under_libs, or empty cistron_under_libs when DIR
# does not hold both the header and the library. A run-time path goes with it, so that the binary finds it too.
AC_DEFUN([CISTRON_UNDER], [
cistron_under_cppflags=
cistron_under_libs=
for cistron_folder in $4; do
    AS_IF([test -z "$cistron_under_cppflags" && test -f "$1/$cistron_folder/$2"],
        [cistron_under_cppflags="-I$1/$cistron_folder"])
done
AS_IF([test -n "$cistron_under_cppflags"], [
    for cistron_file in "$1"/lib/lib$3.* "$1"/lib64/lib$3.* "$1"/lib/*/lib$3.* \
        "$1"/lib/*/$3/serial/lib$3.*; do
        AS_IF([test -z "$cistron_under_libs" && test -f "$cistron_file"], [
            cistron_folder=`AS_DIRNAME(["$cistron_file"])`
            cistron_under_libs="-L$cistron_folder -Wl,-rpath,$cistron_folder -l$3"])
    done])
])

# CISTRON_MODULE(MODULE)
# pkg-config's flags for a module: cistron_module_cppflags and cistron_module_libs, both empty when it knows none.
AC_DEFUN([CISTRON_MODULE], [
AC_REQUIRE([CISTRON_PKG_CONFIG])
cistron_module_cppflags=
cistron_module_libs=
AS_IF([test -n "$PKG_CONFIG" && "$PKG_CONFIG" --exists $1 2>/dev/null], [
    cistron_module_cppflags=`"$PKG_CONFIG" --cflags $1`
    cistron_module_libs=`"$PKG_CONFIG" --libs $1`])
])

AC_DEFUN([CISTRON_PKG_CONFIG], [
AC_ARG_VAR([PKG_CONFIG], [path of pkg-config, a help in finding libraries that can be absent])
AC_PATH_PROG([PKG_CONFIG], [pkg-config])
])

# CISTRON_LIBRARY(OPTION, MODULE, HEADER, LIBRARY, BODY, PACKAGE, [INCLUDE-FOLDERS = include], [FALLBACK])
# A required library: under --with-OPTION=DIR, else as pkg-config says, else by FALLBACK (calls of CISTRON_TRY_LINK),
# else on the compiler's own paths. Sets OPTION_summary.
AC_DEFUN([CISTRON_LIBRARY], [
AC_ARG_WITH([$1], [AS_HELP_STRING([--with-$1@<:@=DIR@:>@], [$1 under DIR (else pkg-config, else the usual paths)])],
    [], [with_$1=yes])
AC_MSG_CHECKING([for $1])
cistron_found=
AS_CASE([$with_$1],
    [no], [],
    [yes], [
        CISTRON_MODULE([$2])
        AS_IF([test -n "$cistron_module_libs"], [
            CISTRON_TRY_LINK([pkg-config], [$cistron_module_cppflags], [$cistron_module_libs], [@%:@include <$3>], [$5])])
        $8
        CISTRON_TRY_LINK([the compiler's paths], [], [-l$4], [@%:@include <$3>], [$5])],
    [
        CISTRON_UNDER([$with_$1], [$3], [$4], m4_default([$7], [include]))
        AS_IF([test -n "$cistron_under_libs"], [
            CISTRON_TRY_LINK([$with_$1], [$cistron_under_cppflags], [$cistron_under_libs], [@%:@include <$3>], [$5])])])
AC_MSG_RESULT([${cistron_found:-no}])
AS_CASE([$cistron_found,$with_$1],
    [,no], [CISTRON_MISSING([$1 cannot be left out: drop --without-$1])],
    [,yes], [CISTRON_MISSING([$1: install the package $6, or give --with-$1=DIR])],
    [,*], [CISTRON_MISSING([$1: --with-$1=$with_$1 does not hold a $3 and a lib$4 that work together])])
$1_summary=$cistron_found
])
