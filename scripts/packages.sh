# shellcheck shell=bash
# Sourced by quickstart and runtests (bash): packages and the build.
#
#   configure_options          set before: what the user gave for configure
#   packages_need KIND...      sees to the packages of these kinds (build, plot, test): installs what is missing where it
#                              may, else names what is missing; exits with 2 when a required one is absent
#   transformers_begin         in the background, a Python with torch, transformers and pyarrow under $build/python for the tests
#                              that compare with them, where that is allowed and there is room; these wait for it, and
#                              where it fails they say so and leave their comparison out
#   build_cistron              bootstrap, configure, make; leaves the folder of the build in $build
#
# It may install as root or with a sudo that asks for no password, on a system with apt-get, and unless
# CISTRON_NO_INSTALL is set. Whatever is there already stays as it is.

say()
{
    printf '== %s\n' "$*"
}

fail()
{
    printf '%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 2
}

# KIND|PACKAGES, any of which will do|how to tell that it is there when dpkg does not say so|what else helps
# A tool is looked for in PATH, a header is compiled. Kind "build" is required, the others are not.
packages_table='
build|gcc|tool ${CC:-cc}|or CC=COMPILER
build|libc6-dev|header stdio.h|or CC=COMPILER
build|make|tool make|or make in PATH
build|autoconf|tool autoreconf|or autoconf in PATH, or a release, which brings its configure
build|automake|tool automake|or automake in PATH, or a release, which brings its configure
build|pkg-config|optional|or the options of configure
build|libopenmpi-dev|tool mpicc|or --with-mpi=DIR or CC=MPICC
build|openmpi-bin|tool mpirun|or --with-mpi=DIR or CC=MPICC
build|libhdf5-dev|header hdf5.h|or --with-hdf5=DIR
build|libconfig-dev|header libconfig.h|or --with-libconfig=DIR
build|zlib1g-dev|header zlib.h|or --with-zlib=DIR
build|libzstd-dev|header zstd.h|or --with-zstd=DIR
build|libsnappy-dev|header snappy-c.h|or --with-snappy=DIR
build|liblz4-dev|header lz4.h|or --with-lz4=DIR
build|libxxhash-dev|header xxhash.h|or --with-xxhash=DIR
build|libjansson-dev|header jansson.h|or --with-jansson=DIR
build|libpcre2-dev|header pcre2posix.h|or --with-pcre2=DIR
build|libutf8proc-dev|header utf8proc.h|or --with-utf8proc=DIR
build|libdnnl-dev libopenblas-dev|header oneapi/dnnl/dnnl.h or cblas.h|or --with-gemm=cblas with any CBLAS, where it lies: CPPFLAGS=-IDIR LDFLAGS=-LDIR
plot|gnuplot-nox|tool gnuplot|without it no picture is drawn
test|clang-format-14|tool clang-format-14|without it a test is skipped
test|shellcheck|tool shellcheck|without it a test is skipped
test|python3-h5py|python h5py|without it tests are skipped
test|python3-venv|python ensurepip|without it transformers is not installed for tests
test|slurm-wlm|tool sbatch|without it a test is skipped
test|munge|tool munged|without it a test is skipped
test|procps|tool pkill|without it tests are skipped
test|python3-sphinx|tool sphinx-build|without it a test is skipped
test|python3-myst-parser|python myst_parser|without it a test is skipped
test|furo|python furo|without it a test is skipped
test|zsh|tool zsh|without it completions are tried in bash alone
'

packages_may_install()
{
    [ -z "${CISTRON_NO_INSTALL:-}" ] && command -v apt-get >/dev/null || return 1
    packages_sudo=
    [ "$(id -u)" -eq 0 ] && return 0
    packages_sudo=sudo
    sudo -n true 2>/dev/null
}

# packages_installed PACKAGE...: whether any of them is.
packages_installed()
{
    grep -qx installed <<<"$(dpkg-query -W -f '${db:Status-Status}\n' "$@" 2>/dev/null)"
}

# packages_unneeded PACKAGE: a tree with a configure, as a release is, needs nothing to make it.
packages_unneeded()
{
    [ -x configure ] && [[ $1 = auto* ]]
}

packages_apt()
{
    $packages_sudo env DEBIAN_FRONTEND=noninteractive apt-get -q "$@" >/dev/null
}

# package_there HOW: without dpkg's word, by looking.
package_there()
{
    local kind=${1%% *} what=${1#* } header folder
    case $kind in
    tool) eval "command -v $what" >/dev/null ;;
    python) python3 -c "import $what" 2>/dev/null ;;
    optional) true ;;
    header)
        for header in ${what// or / }; do
            for folder in "" -I/usr/include/hdf5/serial \
                $(pkg-config --cflags hdf5 2>/dev/null) $(pkg-config --cflags openblas 2>/dev/null); do
                echo "#include <$header>" | ${CC:-cc} ${CPPFLAGS:-} $folder -E - >/dev/null 2>&1 && return 0
            done
        done
        return 1
        ;;
    esac
}

# packages_option HELP: whether one of configure's options that HELP names was given; configure will judge it.
packages_option()
{
    local word option
    for word in $1; do
        [[ $word = *=* ]] || continue
        for option in "${configure_options[@]}"; do
            [ "${option%%=*}" = "${word%%=*}" ] && return 0
        done
    done
    return 1
}

# packages_choice PACKAGE...: the first that can be installed here, else the last
packages_choice()
{
    local choice
    for choice in "$@"; do
        apt-cache show "$choice" >/dev/null 2>&1 && break
    done
    echo "$choice"
}

packages_need()
{
    local kind package how help required=() optional=() lines='' list missing=''
    list=$(for kind in "$@"; do grep "^$kind|" <<<"$packages_table"; done)
    if packages_may_install; then
        while IFS='|' read -r kind package how help; do
            packages_unneeded "$package" && continue
            packages_installed $package && continue
            if [ "$kind" = build ]; then required+=("$package"); else optional+=("$package"); fi
        done <<<"$list"
        if [ ${#required[@]} -eq 0 ] && [ ${#optional[@]} -eq 0 ]; then
            say "packages: all installed"
            return
        fi
        say "packages: installing, which prints nothing for some minutes: ${required[*]%% *} ${optional[*]%% *}"
        # a stale or unreachable list of one source is no reason to stop
        packages_apt update || echo "apt-get update failed; going on with the lists that are there" >&2
        list=
        for package in "${required[@]}"; do
            list+=" $(packages_choice $package)"
        done
        packages_apt install -y --no-install-recommends $list || fail "apt-get could not install:$list"
        for package in "${optional[@]}"; do
            packages_apt install -y --no-install-recommends "$package" ||
                echo "apt-get could not install $package; going on without it" >&2
        done
        return
    fi
    while IFS='|' read -r kind package how help; do
        if [ "$kind" = build ]; then
            # a tree that was configured had what it needs, and a release brings its configure
            [ -f build/config.status ] || [ -f config.status ] && continue
            packages_unneeded "$package" && continue
            packages_option "$help" && continue
        fi
        if ! packages_installed $package && ! package_there "$how"; then
            lines+="  ${package// / or } ($help)"$'\n'
            missing+=" $(packages_choice $package)"
            [ "$kind" = build ] && required+=("$package")
        fi
    done <<<"$list"
    if [ -z "$lines" ]; then
        say "packages: nothing is missing (and nothing is installed without root)"
        return
    fi
    printf '%s' "$lines" | sed '1i Not found here, and not installed without root or a sudo that asks for no password:'
    printf 'On Debian or Ubuntu, all of them, as root:\n  apt-get install -y --no-install-recommends%s\n' "$missing"
    if [ ${#required[@]} -gt 0 ]; then
        fail "required packages are missing; have them installed, or give options as above: $0 OPTION..."
    fi
}

gpus_are_here()
{
    nvidia-smi -L 2>/dev/null | grep -q '^GPU'
}

# How long a first make takes with CUDA: up to two minutes of a core for each architecture of GPUs, one for the rest.
build_time()
{
    local architectures
    architectures=$(sed -n 's/^NVCC_ARCH = //p' "$build/Makefile" | grep -o 'code=sm_[0-9a-z]*' | cut -c 9- | paste -sd ' ')
    [ -n "$architectures" ] && [ ! -f "$build/libcistron_cuda.a" ] || return 0
    set -- $architectures
    echo " (with CUDA kernels for $*: some $((1 + (1 + $# * 2) / $(nproc))) minutes)"
}

build_cistron()
{
    local said source=$PWD
    [[ $source != *[[:space:]\\\"\'\#\$\&\`]* ]] ||
        fail "$source: autotools cannot build below a folder with blanks, quotes or one of \\ # \$ & in its name: rename it"
    # a tree that was configured in place is used as it is
    build=build
    [ -f config.status ] && build=.
    if [ ! -x configure ]; then
        say "bootstrap: autoconf and automake make configure (half a minute, without output)"
        said=$(./bootstrap 2>&1) || fail "./bootstrap failed:"$'\n'"$said"
    fi
    mkdir -p "$build"
    if [ ! -f "$build/Makefile" ] || [ ${#configure_options[@]} -gt 0 ]; then
        say "configure, in $build/ ${configure_options[*]} (looks for libraries; half a minute, without output)"
        (cd "$build" && "$source/configure" -q "${configure_options[@]}") || fail "configure failed; $build/config.log has the details"
    fi
    say "make, in $build/: some 400 files$(build_time)"
    make -s -C "$build" -j "$(nproc)" || fail "make failed"
}

transformers_begin()
{
    local folder=$build/python
    if python3 -c 'import torch, transformers, safetensors, numpy, h5py' 2>/dev/null || [ -e "$folder/ready" ]; then
        return
    elif [ -n "${CISTRON_NO_INSTALL:-}" ] || [ -n "${CISTRON_PYTHON:-}" ]; then
        return
    elif [ "$(df -Pk "$build" | awk 'NR == 2 { print int($4 / 1048576) }')" -lt 16 ]; then
        say "transformers: not installed for tests, which takes 6 GB of disk and more on the way"
        return
    fi
    say "transformers: installing for tests, in the background (log: $folder.log)"
    rm -rf "$folder"
    { # tests/lib.sh waits for the lock; versions with which the tests pass, so that a release of another project breaks none
        flock -o "$folder.lock" timeout 600 sh -c 'python3 -m venv "$1" && "$1/bin/pip" install -q --no-cache-dir \
            torch==2.15.0 transformers==5.24.0 h5py==3.16.0 numpy==2.4.6 tiktoken==0.14.0 pyarrow==26.0.1 &&
            "$1/bin/python" -c "import torch, transformers, h5py" && touch "$1/ready"' sh "$folder" ||
            echo "it did not succeed within 10 minutes"
    } >"$folder.log" 2>&1 </dev/null &
}
