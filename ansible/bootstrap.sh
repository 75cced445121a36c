#!/bin/sh
# Sets the lab up on Debian or Ubuntu with nothing but make and python3 (3.11 or newer), as root
# or with sudo. Run by make; `bootstrap.sh python` makes .venv, `bootstrap.sh host` installs what
# guests need (ansible/host.yml), `bootstrap.sh browser` what only tests need, to look at the pages of
# reports. Everything a step prints goes to build/setup.log.
set -eu
cd "$(dirname "$0")/.."
log=build/setup.log

# step TITLE COMMAND...: one line on the terminal; the end of the log where it fails.
step() {
    title=$1
    shift
    start_s=$(date +%s)
    if ! { echo "+ $*" && "$@"; } >>"$log" 2>&1 </dev/null; then
        echo "set-up: $title: FAILED, after $(($(date +%s) - start_s)) s" >&2
        tail -n 20 "$log" | sed 's/^/  | /' >&2
        echo "  next: the whole log is $log; mend what it names and run make again" >&2
        exit 5
    fi
    echo "set-up: $title: done, $(($(date +%s) - start_s)) s"
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else
        sudo "$@"
    fi
}

need_root() {
    [ "$(id -u)" = 0 ] && return
    if ! command -v sudo >/dev/null; then
        echo "set-up: $1 needs root, and there is no sudo" >&2
        echo "  next: run make once as root" >&2
        exit 5
    fi
    sudo -v # asks for the password here, where it can be answered
}

apt_get() {
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get -q -o DPkg::Lock::Timeout=300 -o APT::Install-Recommends=false "$@"
}

apt_install() {
    apt_get update && apt_get install -y "$@"
}

missing_packages() {
    for package; do
        dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed ||
            echo "$package"
    done
}

# An environment of the same Python is brought up to date in place.
usable_venv() {
    version='import pip, sys; print(sys.version_info[:2])'
    [ "$(.venv/bin/python -c "$version" 2>/dev/null)" = \
        "$(python3 -c 'import sys; print(sys.version_info[:2])')" ]
}

setup_python() {
    if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
        echo "set-up: $(python3 --version) is too old: the lab needs 3.11 or newer" >&2
        exit 5
    fi
    # libvirt-python has no wheels: it is compiled, against the host's own libvirt.
    missing=$(missing_packages python3-venv python3-dev gcc libc6-dev pkg-config libvirt-dev)
    if [ -n "$missing" ]; then
        need_root "installing packages"
        step "packages to build the Python environment" apt_install $missing
    fi
    if ! usable_venv; then
        step "virtual environment" python3 -m venv --clear .venv
    fi
    pip="env PIP_DISABLE_PIP_VERSION_CHECK=1 .venv/bin/python -m pip install --quiet"
    # Without build isolation nothing unpinned is fetched; so the build tool comes first.
    awk '/^setuptools==/,!/\\$/' requirements.lock >build/setuptools.lock
    step "build tool" $pip --require-hashes -r build/setuptools.lock
    step "Python packages" $pip --require-hashes --no-build-isolation -r requirements.lock
    step "lab" $pip --no-deps --no-build-isolation --editable .
}

setup_host() {
    need_root "installing packages"
    step "host (QEMU, libvirt, image tools)" as_root env LC_ALL=C.UTF-8 ANSIBLE_FORCE_COLOR=0 \
        .venv/bin/ansible-playbook --inventory localhost, ansible/host.yml
}

setup_browser() {
    [ -n "$(missing_packages chromium-headless-shell)" ] || return 0
    need_root "installing packages"
    step "package lists" apt_get update
    if apt-cache show chromium-headless-shell >/dev/null 2>&1; then
        step "browser for tests (100 MB)" apt_get install -y chromium-headless-shell
    else
        echo "set-up: no chromium-headless-shell to install: tests of pages will be skipped"
    fi
}

mkdir -p build
"setup_$1"
