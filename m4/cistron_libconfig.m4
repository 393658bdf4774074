# CISTRON_LIBCONFIG
# libconfig's C library, 1.5 or later: the deck's syntax.
AC_DEFUN([CISTRON_LIBCONFIG], [
CISTRON_LIBRARY([libconfig], [libconfig], [libconfig.h], [config],
    [@%:@if LIBCONFIG_VER_MAJOR * 100 + LIBCONFIG_VER_MINOR < 105
@%:@error "libconfig 1.5 or later"
@%:@endif
config_t config; config_init(&config); config_destroy(&config);], [libconfig-dev])
])
