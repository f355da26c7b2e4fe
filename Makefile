# make setup     a virtual environment in .venv with everything that the tests need
# make demo      trace something real, explain the output, and draw it (root; needs only Python 3.11)
# make demo-fleet trace three hosts at once, namespaces of this machine, by ssh, and three workers of a Dask cluster
#                (root; sshd, which it installs by apt)
# make pyz       dist/sonde.pyz: Sonde as a single file
# make wheel     dist/sonde_tracer-*.whl
# make deb       dist/sonde_*_all.deb: a Debian package (dpkg-deb)
# make image     a container image from that package (podman)
# make docs      the book as a site, in build/site; a link that leads nowhere fails
# make test      style, types, and every test tier that this machine can run (about 30 minutes on two CPUs, 36 beside
#                other load; 1.7 GB)
# make test-fast only tests that need no root and little time: each room alone, without the slow tests
# make test-live only the tier that traces the running kernel (root)
# make test-vm   only the tier that boots Debian's kernels under QEMU, two of the seven each day (root; qemu-system-x86
#                busybox-static kmod zstd lz4); with SONDE_VM_FULL=1 all of the live tier inside
# make test-vm-all  the same on all of them, and on three of aarch64 (an hour; qemu-system-arm)
# make bench     speed, as ratios beside bpftrace where it is installed (root)
# make clean     remove what the above made

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp
PYTEST := $(BIN)/python -m pytest
TIERS := tests

.PHONY: setup demo demo-fleet pyz wheel deb image docs test lint test-fast test-live test-vm test-vm-all bench clean

setup: $(STAMP)

$(STAMP): pyproject.toml scripts/setup.sh
	@PYTHON="$(PYTHON)" sh scripts/setup.sh $(VENV)
	@touch $@

lint: $(STAMP)
	@$(BIN)/ruff check .
	@$(BIN)/python scripts/check_words.py
	@$(BIN)/mypy

# The last line is pytest's own summary.
test: lint
	@$(PYTEST) -q -n 2 $(TIERS)

test-fast: $(STAMP)
	@$(PYTEST) -q -n 2 -m "not slow" tests/unit tests/golden

test-live: $(STAMP)
	@$(PYTEST) -q tests/live

test-vm: $(STAMP)
	@$(PYTEST) -q tests/vm

test-vm-all: $(STAMP)
	@SONDE_VM_ARCH=all SONDE_VM_KERNELS=all $(PYTEST) -q tests/vm

demo:
	@PYTHONPATH=src $(PYTHON) scripts/demo.py

demo-fleet: $(STAMP)
	@PYTHONPATH=src $(BIN)/python scripts/demo_fleet.py

pyz:
	@$(PYTHON) scripts/make_pyz.py

wheel: $(STAMP)
	@$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

deb:
	@$(PYTHON) scripts/make_deb.py

image: deb
	@command -v podman >/dev/null || { echo "make image: podman is not installed" >&2; exit 1; }
	@podman build -f deploy/Containerfile -t sonde dist

docs: $(STAMP)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "To read it: python3 -m http.server -b 127.0.0.1 -d build/site"

bench: wheel
	@$(PYTHON) -m venv --clear --without-pip build/bench
	@$(BIN)/python -m pip --python build/bench/bin/python install --quiet --no-deps dist/sonde_tracer-*.whl
	@$(BIN)/python bench/run.py --sonde build/bench/bin/sonde

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis src/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
