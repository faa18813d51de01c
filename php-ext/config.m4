dnl Lets phpize, configure and make build the extension: what make does is one call of cargo.

PHP_ARG_ENABLE([ratelimit],
  [whether to enable rate limiting],
  [AS_HELP_STRING([--enable-ratelimit], [Enable rate limiting])],
  [yes])

PHP_ARG_WITH([cargo],
  [for the cargo to build with],
  [AS_HELP_STRING([--with-cargo=PATH], [The cargo to build with; otherwise the one in the search path])],
  [no], [no])

if test "$PHP_RATELIMIT" != "no"; then
  if test "$PHP_CARGO" != "no" && test "$PHP_CARGO" != "yes"; then
    RATELIMIT_CARGO=$PHP_CARGO
  else
    AC_PATH_PROG([RATELIMIT_CARGO], [cargo], [no])
  fi
  if test "$RATELIMIT_CARGO" = "no"; then
    AC_MSG_ERROR([cargo is not installed; see https://rustup.rs])
  fi
  PHP_SUBST([RATELIMIT_CARGO])
  RATELIMIT_PHP=$PHP_EXECUTABLE
  dnl Configure may know it by name only; the build script of ext-php-rs wants its path.
  AC_PATH_PROG([RATELIMIT_PHP_CONFIG], [$PHP_CONFIG])
  PHP_SUBST([RATELIMIT_PHP])
  PHP_SUBST([RATELIMIT_PHP_CONFIG])

  PHP_MODULES="$PHP_MODULES \$(phplibdir)/ratelimit.so"
  PHP_SUBST([PHP_MODULES])
  PHP_ADD_BUILD_DIR([$abs_builddir])
  PHP_ADD_MAKEFILE_FRAGMENT([$abs_srcdir/Makefile.frag], [$abs_srcdir], [$abs_builddir])
fi
