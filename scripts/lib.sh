# Shell functions that the scripts of this folder share; sourced, never run.
# shellcheck shell=bash

# The repository's root folder, wherever the caller stands.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# say TEXT: one step, announced before it starts.
say() {
    printf '==> %s\n' "$*"
}

# fail TEXT: a sentence that says what is wrong and what to do, then the end.
fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# need_apt PACKAGE…: installs the Debian packages that are missing, and does nothing where none is.
need_apt() {
    local package missing=()
    for package in "$@"; do
        dpkg-query --show --showformat='${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
            missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0

    local install="apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
    command -v apt-get >/dev/null ||
        fail "these Debian packages are missing: ${missing[*]}. There is no apt-get here; install what your system calls them."
    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null ||
            fail "these Debian packages are missing: ${missing[*]}. Run this as root, then try again: $install"
        as_root=(sudo)
    fi

    say "installing Debian packages: ${missing[*]}"
    # A package list that cannot be fetched is no reason to stop: the packages may be in one that can.
    "${as_root[@]}" apt-get update -qq || say "apt-get update failed; going on with the package lists that are here"
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "${missing[@]}" ||
        fail "apt-get could not install ${missing[*]}; the lines above say why. To try by hand, as root: $install"
}

# need_php PACKAGE…: PHP 8.2 or newer with what building an extension takes, the distribution's where there is none
# yet; together with further packages, so that all that is missing is named at once.
need_php() {
    if command -v php >/dev/null && command -v php-config >/dev/null; then
        need_apt "$@"
    else
        need_apt php-cli php-dev "$@"
    fi
    php -r 'exit(PHP_VERSION_ID >= 80200 ? 0 : 1);' ||
        fail "PHP 8.2 or newer is needed, and $(command -v php) is $(php -r 'echo PHP_VERSION;'). Put a newer php and php-config first in PATH."
}

# need_cargo: cargo in PATH, also where rustup has put it without the shell knowing yet.
need_cargo() {
    command -v cargo >/dev/null && return 0
    local bin=${CARGO_HOME:-$HOME/.cargo}/bin
    [ -x "$bin/cargo" ] ||
        fail "cargo was found neither in PATH nor in $bin. Install Rust with rustup (https://rustup.rs), then try again."
    PATH=$bin:$PATH
}

# target_dir: the folder that cargo, run in the root folder, builds into.
target_dir() {
    local folder=${CARGO_TARGET_DIR:-target}
    case $folder in
    /*) printf '%s\n' "$folder" ;;
    *) printf '%s\n' "$root/$folder" ;;
    esac
}

# build_php_extension: builds ratelimit for the php in PATH and leaves its path in $extension.
build_php_extension() {
    need_cargo
    # gcc compiles and links; libclang reads PHP's headers.
    need_php gcc libc6-dev libclang-dev
    say "building the PHP extension (the first time takes a few minutes)"
    (cd "$root" && cargo build --release --package ratelimit-php) ||
        fail "the extension could not be built; the lines above say why."
    extension=$(target_dir)/release/libratelimit_php.so
    [ -f "$extension" ] || fail "cargo succeeded, yet there is no $extension."
}
