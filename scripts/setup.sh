#!/bin/sh
# Make the virtual environment $1 with Sonde (editable) and what its tests need.
# Debian packages are installed only when something is missing and this is root; otherwise the missing
# thing is named, and the tests that need it will say so too.
set -eu

venv=$1
python=${PYTHON:-python3}

have() { command -v "$1" >/dev/null 2>&1; }

install_packages() {
    [ $# -eq 0 ] && return 0
    if [ "$(id -u)" -ne 0 ] || ! have apt-get; then
        echo "setup: please install: $*" >&2
        return 1
    fi
    echo "setup: installing $*" >&2
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq >/dev/null || true
    apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# The interpreter first: nothing works without it.
if ! have "$python" && [ "$python" = python3 ]; then
    install_packages python3 python3-venv
fi
if ! have "$python"; then
    echo "setup: there is no '$python'; set PYTHON to a Python of version 3.11 or newer" >&2
    exit 1
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "setup: $("$python" --version) is too old, 3.11 is needed; set PYTHON to a newer one" >&2
    exit 1
fi
# Debian ships venv apart from python3, as a package named after the version.
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    install_packages "python$version-venv"
fi

# A C compiler: the live tests trace small programs whose answers are known. Without it they say so.
if ! have gcc || ! echo 'int main(void){return 0;}' | gcc -x c -o /dev/null - 2>/dev/null; then
    install_packages gcc libc6-dev || true
fi

# C++ names and debug information: the tests make programs of both, and strip them.
have g++ || install_packages g++ || true
have objcopy || install_packages binutils || true

# Network namespaces for the tools' tests; second opinions for some others, which say so where there are none.
have ip && have tc || install_packages iproute2 || true
have nft || install_packages nftables || true
have iw || install_packages iw || true
have readelf || install_packages binutils || true
have bpftool || install_packages bpftool || true
# What is seen: a terminal and a browser, driven by tests, and a font for both.
have tmux || install_packages tmux || true
have chromium || install_packages chromium fonts-dejavu-core || true
# A Prometheus server for the exporters' tests, which start their own: the service is not to run.
have prometheus || { install_packages prometheus && { systemctl disable --now prometheus >/dev/null 2>&1 || true; }; } || true
# An ssh server for the fleet's tests, in the same way.
[ -x /usr/sbin/sshd ] || { install_packages openssh-server && { systemctl disable --now ssh >/dev/null 2>&1 || true; }; } || true
have setpriv || install_packages util-linux || true
# What filters of packets are compiled with.
/sbin/ldconfig -p | grep -q libpcap.so || install_packages libpcap0.8 || true
# Other kernels, for the vm tier, which boots Debian's under QEMU and says so where it cannot.
have qemu-system-x86_64 && have busybox && have depmod && have zstd && have lz4 ||
    install_packages qemu-system-x86 busybox-static kmod zstd lz4 || true
have qemu-system-aarch64 || install_packages qemu-system-arm || true
# Runtimes of languages with static probes, as Debian builds them; Java's tests run where a JDK is.
have php || install_packages php-cli || true
have ruby || install_packages ruby || true
have mkfs.xfs || install_packages xfsprogs || true

[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
"$venv/bin/python" -m pip uninstall --quiet --yes sonde 2>/dev/null || true  # as the distribution was called once
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -e '.[dev]'
# speedscope, which opens profiles, has no package but npm's; its test says so where there is none.
[ -d "$venv/node/node_modules/speedscope" ] || ! have npm ||
    npm install --silent --no-audit --no-fund --fetch-retries 1 --prefix "$venv/node" speedscope >/dev/null 2>&1 || true
# Start-up is a matter of not compiling: also where PYTHONDONTWRITEBYTECODE is set.
"$venv/bin/python" -m compileall -q src
