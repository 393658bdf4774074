#!/bin/bash
# The true check of ./quickstart and ./runtests: on a system that holds nothing but Debian's minimal base. By hand, as
# root, with debootstrap installed; not part of make check (it fetches some 300 MB of packages).
#
#   tests/bare_root.sh [COMMAND]        COMMAND, run in a fresh clone in the new root: "./runtests" (default),
#                                       "./quickstart", or any other line of shell
# Environment:
#   SUITE=bookworm   the release          MIRROR=URL   where from (else the first Debian mirror of this machine's apt)
#   KEYRING=FILE     of the mirror, where debootstrap has none: for Ubuntu the one in its package ubuntu-keyring
#                    (SUITE=noble MIRROR=http://archive.ubuntu.com/ubuntu)
#   ROOT=DIR         where (else a folder under /tmp, removed at the end unless KEEP=1); one that exists is used again
#   WORKTREE=1       the working tree as it is, uncommitted files too, in place of a clone of HEAD (a release is copied)
set -eu -o pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
command=${1:-./runtests}
suite=${SUITE:-bookworm}
mirror=${MIRROR:-$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null |
    grep -v '^#' | grep -oE 'https?://[^ ]*/debian/?( |$)' | head -n 1 || true)}
mirror=${mirror:-http://deb.debian.org/debian}
mirror=${mirror% }
made=
if [ -z "${ROOT:-}" ]; then
    ROOT=$(mktemp -d /tmp/cistron-root.XXXXXX)
    made=$ROOT
fi

mounted=()
leave()
{
    local i
    for ((i = ${#mounted[@]} - 1; i >= 0; i--)); do
        umount "${mounted[i]}"
    done
    # never while something of this machine is still mounted below it
    if [ -n "$made" ] && [ -z "${KEEP:-}" ] && ! grep -q " $made/" /proc/mounts; then
        rm -rf "$made"
    fi
}
trap leave EXIT

if [ ! -x "$ROOT/usr/bin/apt-get" ]; then
    echo "== debootstrap $suite from $mirror into $ROOT"
    options=()
    script=() # gutsy is debootstrap's for any Ubuntu, also one that is newer than itself
    if [[ $mirror = */ubuntu* ]]; then
        options=("--components=main,universe" ${KEYRING:+"--keyring=$KEYRING"})
        script=(gutsy)
    fi
    debootstrap --variant=minbase "${options[@]}" "$suite" "$ROOT" "$mirror" "${script[@]}" >"$ROOT.log" 2>&1 || { tail -n 20 "$ROOT.log"; exit 1; }
    rm -f "$ROOT.log"
fi
# the network as this machine has it: names, and what its apt was told of proxies and dated mirrors
cp -L /etc/resolv.conf /etc/hosts "$ROOT/etc/"
apt-config dump | grep -E '^Acquire::(http|https|Check-Date|Check-Valid-Until)' >"$ROOT/etc/apt/apt.conf.d/90host" || true

mount -t proc proc "$ROOT/proc" && mounted+=("$ROOT/proc")
mount -t sysfs -o ro sysfs "$ROOT/sys" && mounted+=("$ROOT/sys")
mkdir -p "$ROOT/dev/pts" && mount -t devpts devpts "$ROOT/dev/pts" && mounted+=("$ROOT/dev/pts")
mount -t tmpfs tmpfs "$ROOT/dev/shm" && mounted+=("$ROOT/dev/shm")

rm -rf "$ROOT/work"
mkdir -p "$ROOT/work"
if [ ! -e "$source/.git" ]; then
    cp -r "$source" "$ROOT/work/main"
elif [ -n "${WORKTREE:-}" ]; then
    mkdir "$ROOT/work/main"
    (cd "$source" && git ls-files -z --cached --others --exclude-standard | tar -c --null -T -) |
        tar -x -C "$ROOT/work/main"
else
    git clone -q --no-hardlinks "$source" "$ROOT/work/main"
fi
# test data that lies beside the tree, where it does
if [ -d "$source/../shared/data" ]; then
    mkdir -p "$ROOT/work/shared" && cp -r "$source/../shared/data" "$ROOT/work/shared/"
fi

echo "== in $ROOT: $command"
chroot "$ROOT" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 CI="${CI:-}" \
    /bin/bash -c "cd /work/main && $command" </dev/null
