#!/bin/bash
# The include graph respects the order of folders: a folder includes only folders before it, executors include base and
# core alone, only main picks an executor, only comm/mpi.c and main.c include <mpi.h>, and no files include each other
# in a circle. Every source is in a makefile, and no two tests share a name.
set -u
root=${abs_top_srcdir:-$(cd "$(dirname "$0")/.." && pwd)}

# check_tree SRC: one line for each include that breaks the order; nothing when all is well.
check_tree()
{
    (cd "$1" && find . -name '*.[ch]' | sed 's|^\./||' | sort | xargs grep -nE '^[[:space:]]*#[[:space:]]*include' /dev/null) |
        awk '
        BEGIN {
            count = split("base file deck core cpu plan comm tokenizer data architecture model loader store engine setup state checkpoint bridge estimate monitor train report records prepare infer sweep command main", names, " ")
            for (i = 1; i <= count; i++)
                order[names[i]] = i
        }
        function folder(path) { return path ~ /\// ? substr(path, 1, index(path, "/") - 1) : "main" }
        {
            split($0, part, ":")
            file = part[1]
            from = folder(file)
            where = "src/" file ":" part[2] ": "
            if (!(from in order)) {
                print where "folder " from " has no place in the order"
                next
            }
            if ($0 ~ /<mpi\.h>/ && file != "comm/mpi.c" && file != "main.c")
                print where "<mpi.h> belongs to comm/mpi.c and main.c alone"
            if (!match($0, /"[^"]*"/))
                next
            path = substr($0, RSTART + 1, RLENGTH - 2)
            to = folder(path)
            if (path ~ /\.\./ || path !~ /\// && from != "main")
                print where "\"" path "\" is not relative to src"
            else if (to == "cuda") { # beside src, behind a condition of configure
                if (from != "main")
                    print where "only main picks the cuda executor"
            } else if (!(to in order))
                print where "\"" path "\" is in no folder of src"
            else if (order[to] > order[from])
                print where from " comes before " to
            else if ((from == "cpu" || from == "plan") && to != from && to != "base" && to != "core")
                print where "cpu and plan include base and core alone, not " to
            else if (to == "cpu" && from != "cpu" && from != "main")
                print where "only main picks the cpu executor"
        }'
}

# check_circles ROOT: one line for each circle of includes in src and cuda. NAME.h, NAME_private.h and NAME.c are one
# thing here: a circle of things that need each other cannot be read one after the other.
check_circles()
{
    # shellcheck disable=SC2038
    (cd "$1/src" && find . ../cuda -type f \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.cpp' \) |
        xargs grep -E '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' /dev/null) |
        sed -E 's|^\./||; s|^\.\./||; s|^([^:]*):[^"]*"([^"]*)".*|\1 \2|; s/(_private)?\.[a-z]+( |$)/\2/g' |
        tsort 2>&1 >/dev/null | sed 's/^tsort: //' |
        awk '/loop/ { if (NR > 1) print circle; circle = "a circle of includes:"; next } { circle = circle " " $0 }
            END { if (NR > 0) print circle }'
}

# The check itself first: planted faults must be found, and nothing else.
planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
mkdir -p "$planted"/{base,core,cpu,comm,model,odd}
echo '#include "core/op.h"' >"$planted/base/a.c"
echo '#include "comm/comm.h"' >"$planted/cpu/a.c"
echo '#include "cpu/cpu.h"' >"$planted/model/a.c"
echo '#  include <mpi.h>' >"$planted/comm/comm.c"
echo '#include "../core/op.h"' >"$planted/model/b.h"
echo '#include "op.h"' >"$planted/core/b.c"
echo '#include "base/log.h"' >"$planted/odd/a.c"
echo '#include "cuda/cuda.h"' >"$planted/comm/b.c"
printf '%s\n' '#include <mpi.h>' '#include "cpu/cpu.h"' '#include "cuda/cuda.h"' '#include "model/b.h"' >"$planted/main.c"
echo '#include <mpi.h>' >"$planted/comm/mpi.c"
found=$(check_tree "$planted" | wc -l)
if [ "$found" -ne 8 ]; then
    echo "8 planted faults, $found found:"
    check_tree "$planted"
    exit 1
fi

rm -r "${planted:?}"/*
mkdir -p "$planted"/{src/base,cuda}
echo '#include "base/b.h"' | tee "$planted/src/base/a_private.h" >"$planted/src/base/c.h"
echo '#include "base/c.h"' >"$planted/src/base/b.c"
printf '%s\n' '#include "base/a.h"' '#include "base/a_private.h"' >"$planted/src/base/a.c"
echo '#include "cuda/b.cuh"' >"$planted/cuda/a.cu"
echo '#include "cuda/a.h"' >"$planted/cuda/b.cuh"
found=$(check_circles "$planted" | wc -l)
if [ "$found" -ne 2 ]; then
    echo "2 planted circles, $found found:"
    check_circles "$planted"
    exit 1
fi

faults=$(check_tree "$root/src"
    check_circles "$root"
    cd "$root" && find src -name '*.[ch]' | sort |
        grep -vxF -f <(tr -s '[:space:]' '\n' <src/Makefile.am | grep .) | sed 's/$/ is not in src\/Makefile.am/'
    cd "$root/tests" && find . -name 't_*.c' -o -name 't_*.sh' | sed 's|^\./||; s|\.[a-z]*$||' | sort | uniq -d |
        sed 's/$/ is the name of two tests, of which make check runs one/')
if [ -n "$faults" ]; then
    echo "$faults"
    exit 1
fi
echo "include graph in order"
