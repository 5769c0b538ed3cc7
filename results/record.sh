#!/bin/sh
# Measure everything on this machine and leave the runs in a folder, to send them in:
#
#   results/record.sh OUT                      with a network
#   WHEELS=FOLDER results/record.sh OUT        without one, from wheels in a folder: for each lock of locks/record*.txt,
#                                              `pip download --require-hashes --no-deps -r LOCK -d FOLDER` fills it elsewhere
#   CUDA=12 results/record.sh OUT              with CuPy for another CUDA than 13
#   PEERS= results/record.sh OUT               without PyTorch, lbmpy and OpenVINO where they are missing: some gigabytes less
#
# What follows OUT goes to `roofbook record`, such as `--lab lbm`. Packages that this machine's Python has already
# (CuPy, PyTorch) are used; what is missing goes into OUT/.venv. The same command again goes on where it stopped. Each row
# names the commit: a checkout with changes is refused, unless --uncommitted follows OUT, and then its rows stay in OUT/local.
set -eu
unset CDPATH  # with it, cd prints where it goes
# What is installed, and where, is said here alone. What pip is told of mirrors, proxies and caches stays.
for name in $(env | sed -n 's/^\(PIP_[A-Z_]*\)=.*/\1/p'); do
    case $name in
    PIP_*INDEX*|PIP_FIND_LINKS|PIP_*CERT|PIP_PROXY|PIP_TRUSTED_HOST|PIP_*TIMEOUT|PIP_RETRIES|PIP_*CACHE_DIR|PIP_CONFIG_FILE|PIP_KEYRING_PROVIDER) ;;
    *) unset "$name" ;;
    esac
done
export PIP_USER=0 PIP_REQUIRE_VIRTUALENV=0  # also where pip's own file says otherwise
out=${1:?"say where to: $0 OUT"}
shift
project=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-python3}
case $out in  # which no shell expands in --out=~/x, nor within quotes
"~") out=$HOME ;;
"~/"*) out=$HOME/${out#"~/"} ;;
esac
case ${WHEELS:-} in
"~/"*) WHEELS=$HOME/${WHEELS#"~/"} ;;
esac
mkdir -p -- "$out"
out=$(cd -- "$out" && pwd)
case " $* " in  # before anything is installed
*" --uncommitted "*) ;;
*) PYTHONPATH="$project/lib" "$python" -P -m roofbook.devices.checkout "$out" ;;
esac

[ -x "$out/.venv/bin/python" ] || "$python" -m venv --system-site-packages "$out/.venv"
install() {  # a lock: each package by version and hash
    lock=$1
    shift
    [ -z "${WHEELS:-}" ] || set -- --no-index --find-links "$WHEELS" "$@"
    "$out/.venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes "$@" --requirement "$project/locks/$lock.txt"
}
has() {
    "$out/.venv/bin/python" -P -c "import importlib.util, sys; sys.exit(not importlib.util.find_spec('$1'))"
}
install record
if command -v nvidia-smi >/dev/null; then
    has cupy || install "record-cuda${CUDA:=13}" || echo "no CuPy: nothing is measured by CUDA" >&2
    # Of cuDNN's graphs the peers take convolutions, for which that package needs nothing that PyTorch has not.
    [ -z "${PEERS-torch}" ] || has cudnn || install record-cudnn --no-deps || echo "no nvidia-cudnn-frontend: no int8 by cuDNN" >&2
fi
for peer in ${PEERS-torch lbmpy cpuinfo openvino}; do
    has "$peer" || install "record-$peer" || echo "no $peer: the rows that need it will say so" >&2
done

export PYTHONPATH="$project/lib${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
"$out/.venv/bin/python" -P -m roofbook.cli record "$out" "$@"
