# CISTRON_HDF5
# HDF5's C library, serial or parallel: only rank 0 calls it. Debian keeps its serial build in folders of its own, so
# pkg-config comes first; then the paths that HDF5's compiler wrapper prints.
AC_DEFUN([CISTRON_HDF5], [
AC_PATH_PROG([H5CC], [h5cc])
cistron_h5cc_cppflags=
cistron_h5cc_libs=
AS_IF([test -n "$H5CC"], [
    for cistron_word in `"$H5CC" -show 2>/dev/null`; do
        AS_CASE([$cistron_word],
            [-I*], [cistron_h5cc_cppflags="$cistron_h5cc_cppflags $cistron_word"],
            [-L*], [
                cistron_folder=`AS_ECHO(["$cistron_word"]) | sed 's/^-L//'`
                cistron_h5cc_libs="$cistron_h5cc_libs $cistron_word -Wl,-rpath,$cistron_folder"])
    done
    cistron_h5cc_libs="$cistron_h5cc_libs -lhdf5"])
CISTRON_LIBRARY([hdf5], [hdf5], [hdf5.h], [hdf5],
    [@%:@if H5_VERS_MAJOR * 1000 + H5_VERS_MINOR < 1008
@%:@error "HDF5 1.8 or later"
@%:@endif
return H5open() < 0;], [libhdf5-dev], [include include/hdf5/serial], [
        AS_IF([test -n "$H5CC"], [
            CISTRON_TRY_LINK([$H5CC], [$cistron_h5cc_cppflags], [$cistron_h5cc_libs], [@%:@include <hdf5.h>],
                [return H5open() < 0;])])
        CISTRON_TRY_LINK([Debian's serial build], [-I/usr/include/hdf5/serial], [-lhdf5_serial],
            [@%:@include <hdf5.h>], [return H5open() < 0;])])
])
